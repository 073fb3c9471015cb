// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rubato/net/network.hpp"
#include "rubato/net/impl/mpi_world.hpp"

namespace rubato::net::detail {

class mpi_pipe;

/// What has messages under way, or a sum.
class mpi_traffic {
 public:
  struct movement {
    bool any = false;     ///< something has arrived or left
    bool still = false;   ///< more is under way
    bool is_sum = false;  ///< of many messages to and fro, each of which waits for who looks
  };
  /// Looks after them, without the world's mutex.
  [[nodiscard]] virtual movement go_on() = 0;

 protected:
  ~mpi_traffic() = default;
};

/// What one network of MPI does next: tasks, timers, connections with messages that have come or are under way, and
/// how it waits when there is nothing. All but `wake` and what is marked so by the network's thread.
class mpi_desk {
 public:
  using clock = network::clock;

  mpi_desk();
  mpi_desk(mpi_desk const&) = delete;
  mpi_desk& operator=(mpi_desk const&) = delete;
  ~mpi_desk();

  [[nodiscard]] mpi_world& world() const noexcept { return world_; }

  /// Calls it soon, from inside the network.
  void post(std::function<void()> f) { tasks_.push_back(std::move(f)); }
  /// See `network::at`.
  [[nodiscard]] std::shared_ptr<void> at(clock::time_point when, std::function<void()> f);
  /// The same as a task that has come from MPI. With the world's mutex held, any thread.
  void bring(std::function<void()> f);
  /// It has messages to take. With the world's mutex held, any thread.
  void ready(std::shared_ptr<mpi_pipe> which);
  /// It has taken one. With the world's mutex held, while this desk looks.
  void take_from(std::shared_ptr<mpi_pipe> which) noexcept { taken_from_ = std::move(which); }
  /// Something has been sent, to which there may soon be an answer.
  void expect_answer() noexcept { was_busy_ = true; }
  /// It has messages under way.
  void busy(std::shared_ptr<mpi_traffic> which) { under_way_.push_back(std::move(which)); }

  /// Does one thing that there is to do by now; false: there is nothing.
  bool step(clock::time_point now);
  void run_one(clock::time_point deadline);
  /// Any thread.
  void wake() noexcept;

 private:
  struct alarm;
  using place = std::pair<clock::time_point, std::uint64_t>;

  [[nodiscard]] bool ring(clock::time_point now);
  [[nodiscard]] bool look();
  void look_after_messages();
  void wait(clock::time_point now, clock::time_point deadline);

  mpi_world& world_;
  std::deque<std::function<void()>> tasks_;
  std::map<place, alarm*> alarms_;
  std::uint64_t alarms_made_ = 0;
  std::vector<std::shared_ptr<mpi_traffic>> under_way_;
  bool sums_ = false;  ///< one of them is a sum
  bool was_busy_ = true;  ///< since `busy_at_`, which is put right when the time is known anyway
  clock::time_point busy_at_ = clock::now();  ///< when there was something to do last
  clock::time_point left_at_ = busy_at_;      ///< when `run_one` returned last
  clock::time_point paused_at_ = busy_at_;    ///< until when it has let others run last
  clock::time_point yields_from_{};           ///< until then it sleeps instead

  // with the world's mutex held
  std::deque<std::function<void()>> brought_;
  std::deque<std::shared_ptr<mpi_pipe>> ready_;
  std::shared_ptr<mpi_pipe> taken_from_;

  std::atomic<bool> interrupted_ = false;
  std::mutex sleep_;
  std::condition_variable woken_;
};

}  // namespace rubato::net::detail
