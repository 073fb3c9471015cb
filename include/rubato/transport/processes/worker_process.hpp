// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/thread_source.hpp"
#include "rubato/run/worker_run.hpp"
#include "rubato/transport/processes/link_fetcher.hpp"
#include "rubato/transport/processes/local_model.hpp"
#include "rubato/transport/processes/process_endpoint.hpp"
#include "rubato/transport/processes/worker_links.hpp"
#include "rubato/transport/tcp.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/worker/process_cache.hpp"

namespace rubato::detail {

/// Runs a body on the workers of this process, among those of others. See `tcp`.
class worker_process final : public tcp_runtime, worker_run, worker_links::user {
 public:
  worker_process(tcp const& options, run_setup setup);
  ~worker_process() override;

  run_report run(run_request request) override;
  std::uint32_t add_worker() override;
  void stop() override;
  [[nodiscard]] time_point now() const override {
    return time_point(links_->now() - began_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] std::uint32_t workers() const noexcept override { return options_.place.workers; }
  void read_whole(std::size_t table, std::byte* out) const override;
  void read_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values) const override;
  [[nodiscard]] std::uint64_t updates() const override;
  [[nodiscard]] server_group const& servers() const override;
  [[nodiscard]] net::role role() const noexcept override { return net::role::worker; }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return links_->number(); }
  [[nodiscard]] net::address bound() const override;
  void cut(server_id s) override { links_->cut(s); }

 private:
  friend class process_endpoint;
  struct worker_thread;

  /// Where workers of this process share what they fetch: not where a read is of a cut of its own.
  [[nodiscard]] process_cache* shared() noexcept { return shares_ ? &shared_->cache : nullptr; }

  // a run
  [[nodiscard]] run_request in_single_machine_mode(run_request request);
  void drop_tables() noexcept;
  [[nodiscard]] local_model::home home_of(server_tables& rows, process_endpoint& link);
  [[nodiscard]] server_tables tables_of(worker_core& w, process_endpoint& link);
  void run_here(worker_core& w, run_request stage, bool stays, bool moves);
  void receive_tables(stage_id stage, local_model::home const& home);
  void hand_over(worker_core& w);
  void begin(run_request request);
  void drive();
  void launch(std::unique_lock<std::mutex>& guard, std::shared_ptr<worker_thread> p);
  void join_threads();
  void end_for_all(bool failed, errc code, std::string const& sentence);
  [[nodiscard]] run_report report();
  void send_initial_values();
  [[nodiscard]] std::vector<table_state> ask_states(std::size_t table) const;
  void wait_for(inquiry& asked) const;

  // life
  [[nodiscard]] time_point time() const override { return now(); }
  void wake_all() noexcept override;
  void tell_failure(std::exception_ptr const& why) noexcept override;
  void left(worker_participant& p) override;

  // worker_links::user; in the turn of whoever heard it
  void told(wire::control_message const& m) override;
  void commit_refused(worker_id w, stage_id stage, server_id by, refusal why) override;
  void broken(std::string const& sentence) override;
  template <class Other>
  void on(Other const&);
  void on(wire::run_begins const& m);
  void on(wire::worker_starts const& m);
  void on(wire::stop_run const& m);
  void on(wire::run_over const& m);
  void on(wire::pace_command const& m);
  void on(wire::sample_loss const& m);
  void on(wire::cut_grant const& m);
  void on(wire::send_tables const& m);
  void news();
  [[nodiscard]] std::shared_ptr<worker_thread> find(stage_id stage, worker_id w);

  [[nodiscard]] bool is_refused(worker_id w);
  void throw_if_refused(worker_id w);
  /// Whether workers are to leave their bodies, where they deal with servers.
  [[nodiscard]] bool unwinds() const;

  // the loss, for a pace that goes by it
  void evaluate_losses();
  void end_loss_thread();

  tcp options_;
  std::atomic<worker_links::clock::time_point> began_{};
  std::vector<std::unique_ptr<running_thread>> threads_;
  std::unique_ptr<running_thread> loss_thread_;

  std::mutex adding_;
  mutable std::mutex lock_;  ///< what follows
  thread_source* source_ = nullptr;
  std::unique_ptr<condition> changed_;
  std::vector<std::shared_ptr<worker_thread>> participants_;
  std::map<worker_id, std::string> refusals_;
  std::size_t launched_ = 0;
  std::uint32_t running_ = 0;
  stage_id stage_{};
  std::optional<wire::end_run> early_end_;   ///< asked for before the run has begun here
  std::optional<wire::stop_run> stopped_;    ///< by a failure elsewhere
  std::optional<wire::run_over> over_;
  wire::send_tables destination_;            ///< where this process's tables are to go
  bool loss_wanted_ = false;
  bool losses_end_ = false;

  int exceptions_ = std::uncaught_exceptions();  ///< that were under way when it was made
  bool ran_well_ = false;                    ///< the last run has ended, and not by an exception
  bool begun_ = false;                       ///< the run, here
  bool shares_ = false;
  std::uint32_t threads_here_ = 0;           ///< workers of this process that it begins with

  std::atomic<bool> has_news_ = false;
  std::atomic<bool> has_destination_ = false;
  std::atomic<bool> any_refused_ = false;
  std::atomic<bool> settles_tables_ = false;  ///< the run is in single-machine mode
  std::atomic<bool> fails_elsewhere_ = false;

  /// For stages in single-machine mode; none where no stage is.
  std::unique_ptr<local_model> local_;
  std::unique_ptr<worker_links> links_;  ///< it may call until it is gone
  /// Where the tables are after a run in this mode.
  struct kept_tables {
    std::uint32_t node;
    single_machine how;    ///< that they were made ready for
    bool in_debt;          ///< the servers do not have what has been changed
  };
  std::optional<kept_tables> kept_;            ///< of the run under way, or the last one
  std::optional<run_report> local_report_;     ///< of the run under way, where it is here
  /// What several threads share.
  struct sharing {
    sharing(blueprint const& plan, server_asker& links, std::uint64_t sparse_max, std::function<time_point()> now)
        : fetcher(plan, links, sparse_max, std::move(now)), cache(plan, fetcher) {}
    link_fetcher fetcher;
    process_cache cache;
  };
  std::optional<sharing> shared_;
};

}  // namespace rubato::detail
