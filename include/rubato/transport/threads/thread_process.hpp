// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/run/life.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/worker/inquiry.hpp"
#include "rubato/worker/process_cache.hpp"
#include "rubato/worker/server_fetch.hpp"

namespace rubato::detail {

/// Workers that are threads of one process and share what they fetch, see `in_process::process_cache`: their cache,
/// and the servers' answers. Whoever releases a fetch reads for it, since who has asked may be busy, and others may
/// wait for the same rows. Answers of a server come one at a time, so that none overtakes another. Any thread.
class thread_process final : public server_fetcher {
 public:
  /// For one run. All outlive this. @pre reads of the protocol are not synchronized
  thread_process(blueprint const& plan, std::size_t protocol, server_group& servers, life& run,
                 std::function<time_point()> now);

  [[nodiscard]] process_cache& cache() noexcept { return cache_; }

  /// A server has let go on one of the reads that were asked for in this worker's name.
  void released(worker_id w);
  /// Until the worker has all its answers, or the run is being stopped.
  void wait(inquiry const& asked);
  /// Until nothing is asked for in this worker's name, or the run is being stopped: it may then leave.
  void settle(worker_id w);
  /// To look whether what they wait for is there, or the run is being stopped.
  void wake();

  void ask(server_fetch& f) override;
  /// Within the answer of another one, so it is asked once that is over.
  void ask_in_turn(server_fetch& f) override;
  /// Between runs nothing is under way.
  void withdraw_all() override {}

 private:
  /// What is asked for in a worker's name, and how many of these reads may go on: a release does not say which.
  struct tickets {
    std::vector<server_fetch*> waiting;
    std::vector<server_fetch*> at_server;  ///< of these, those that a server has been asked
    std::vector<server_fetch*> beside;     ///< go on with one of these, which waits at the same server
    std::size_t released = 0;

    /// One more that waits. There is always room for those beside, too, so that to take all of them needs no memory.
    void add(server_fetch& f) {
      waiting.reserve(waiting.size() + beside.size() + 1);
      waiting.push_back(&f);
    }
    [[nodiscard]] bool all_released() const noexcept { return !waiting.empty() && released >= waiting.size(); }
  };

  struct sleeper {
    std::function<bool()> is_over;  ///< under the lock
    bool woken = false;
  };

  void sleep_until(std::function<bool()> is_over);
  void ask_server(server_fetch& f);
  [[nodiscard]] bool joins(server_fetch& f);
  [[nodiscard]] std::vector<server_fetch*> forget(worker_id asker, server_fetch& f);
  void read(std::vector<server_fetch*> const& ready);
  void ask_later_ones();
  [[nodiscard]] std::vector<server_fetch*> take_ready(tickets& t) noexcept;

  server_group& servers_;
  life& run_;
  std::function<time_point()> now_;
  std::deque<std::mutex> answering_;  ///< by server; taken before all others
  std::mutex lock_;  ///< what follows, but for the cache
  std::condition_variable changed_;
  std::map<worker_id, tickets> tickets_;
  std::deque<server_fetch*> later_;
  std::vector<sleeper*> sleepers_;
  process_cache cache_;
};

}  // namespace rubato::detail
