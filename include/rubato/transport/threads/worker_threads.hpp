// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "rubato/run/run_control.hpp"
#include "rubato/run/worker_run.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/order_box.hpp"
#include "rubato/transport/threads/slow_motion.hpp"
#include "rubato/transport/threads/thread_process.hpp"
#include "rubato/worker/endpoint.hpp"

namespace rubato::detail {

class worker_threads;

/// The end of a worker that is a thread: it calls the shards itself, and sleeps while it may not go on.
class thread_endpoint final : public endpoint {
 public:
  thread_endpoint(worker_threads& run, worker_id self, double slowness);

  void post(server_id to, commit_message&& commit) override;
  void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) override;
  void wait() override;
  [[nodiscard]] time_point now() const override;
  /// Compute has taken its own time already; a slowed worker sleeps for the rest.
  void charge(double work) override;
  void pause(time_point until) override;
  void checkpoint() override;
  void request_cut(read_header const& read, cut_slot& slot) override;
  void release_cut() override;
  void report_commit(clock_index now_at) override;
  void report_loss(double loss) override;
  [[nodiscard]] std::optional<conductor::order> take_order() override;
  [[nodiscard]] bool shares_reads() const noexcept override;

  // ---- called by others

  /// It takes part from this clock on.
  void enlist(clock_index at);
  /// It waits for nothing any more.
  void withdraw();

  void give(conductor::order const& order);
  /// Under the lock of what grants cuts.
  void grant(shared_cut const& cut);
  /// One of its requests may go on.
  void release_one();
  /// To look whether the run is being stopped.
  void wake();

 private:
  void wait_for_process();

  struct waiting {
    read_header read;
    server_id server;
    std::size_t table;
    read_slot* slot;
  };
  void ask(server_id to, std::size_t table, read_header const& read, read_slot& slot);
  void await_releases(std::size_t missing);
  void sleep_until_released(std::size_t missing);
  [[nodiscard]] bool joins(server_id s, read_header const& read) const noexcept;

  worker_threads& run_;
  worker_id self_;
  slow_motion slowed_;
  time_point idle_until_;
  std::vector<waiting> pending_;
  std::vector<waiting> reading_;  ///< have been released
  std::size_t tickets_ = 0;    ///< at servers: of the first of those that wait there
  inquiry asked_;              ///< of the process, where it shares what it fetches
  std::optional<std::size_t> reader_;  ///< of its cache, from its start on
  cut_slot* cut_ = nullptr;    ///< that has been asked for
  bool cut_pending_ = false;   ///< and was not granted at once
  bool cut_waits_ = false;     ///< nor since; under the lock of what grants cuts
  std::vector<worker_id> released_;
  busy_poll polls_;
  std::mutex lock_;
  std::condition_variable awake_;
  std::atomic<std::size_t> released_count_ = 0;  ///< changed under the lock
  std::size_t sleeps_for_ = 0;                   ///< releases, unless it is awake; under the lock
  order_box orders_;
};

/// Workers that are threads of this process, and servers that they call. See `in_process`.
class worker_threads final : public runtime, worker_run, run_control::carrier {
 public:
  worker_threads(in_process options, run_setup setup);
  ~worker_threads() override;

  run_report run(run_request request) override;
  std::uint32_t add_worker() override;
  void stop() override { stop_as_asked(); }
  [[nodiscard]] time_point now() const override {
    return time_point(std::chrono::steady_clock::now() - began_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] std::uint32_t workers() const noexcept override { return options_.workers; }
  void read_whole(std::size_t table, std::byte* out) const override { servers_.read_whole(table, out); }
  void read_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values) const override {
    servers_.read_touched(table, keys, values);
  }
  [[nodiscard]] std::uint64_t updates() const override { return servers_.updates(); }
  [[nodiscard]] server_group const& servers() const override { return servers_; }

 private:
  friend class thread_endpoint;
  struct worker_thread;

  // life
  [[nodiscard]] time_point time() const override { return now(); }
  void wake_all() noexcept override;
  [[nodiscard]] std::string who_waits() const override;
  void left(worker_participant& p) override;

  // run_control::carrier, under `controlling_`
  void order(membership_order const& o) override;
  void start(worker_id w, starting_point const& at) override;
  void grant(worker_id w, shared_cut const& cut, duration held) override;
  void mark(shared_cut const& below) override { marks_.push_back(below); }
  void command(worker_id w, conductor::order const& order) override;

  template <class F>
  void control(F f);
  void begin(run_request request);
  worker_thread& enlist();
  void launch(worker_thread& p);
  void launch_all();
  void conduct();
  void sample_loss(std::unique_lock<std::mutex>& guard);
  void end_conductor();
  void join_threads();
  void release(std::span<worker_id const> workers);
  [[nodiscard]] worker_thread& at(worker_id w);
  template <class Until>
  void wait_until(std::condition_variable& sleep, std::unique_lock<std::mutex>& guard,
                  time_point deadline, Until until) const;
  [[nodiscard]] run_report report() const;

  in_process options_;
  server_group servers_;
  std::unique_ptr<thread_process> process_;  ///< of the run under way, where workers share what they fetch
  stage_id stage_{};
  std::uint32_t count_ = 0;  ///< workers that the run began with
  std::atomic<std::chrono::steady_clock::time_point> began_{};

  mutable std::mutex controlling_;  ///< what follows
  run_control control_;
  std::vector<shared_cut> marks_;             ///< to be told to the servers
  std::vector<worker_id> released_by_orders_;
  std::condition_variable conductor_;
  bool conducted_to_end_ = false;

  std::mutex joining_;  ///< one joiner at a time
  std::mutex lock_;     ///< what follows
  std::vector<std::unique_ptr<worker_thread>> participants_;
  std::vector<std::thread> threads_;
};

}  // namespace rubato::detail
