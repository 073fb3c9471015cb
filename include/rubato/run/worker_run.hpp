// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rubato/run/life.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/worker/endpoint.hpp"
#include "rubato/worker/worker_core.hpp"

namespace rubato {

class worker_run;

/// A worker that takes part in a run, in this process: its handle, and what stands between that and the
/// transport's endpoint.
class worker_participant : public participant {
 public:
  worker_participant(worker_run& run, sender const& self) noexcept : run_(run), self_(self) {}

  [[nodiscard]] sender const& self() const noexcept { return self_; }
  /// Whether `attach` has made a handle.
  [[nodiscard]] bool attached() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] worker_core& handle() noexcept { return *handle_; }
  [[nodiscard]] worker_core const& handle() const noexcept { return *handle_; }

  void live() override;
  void end() override { handle_->end(); }
  void leave() override;
  /// Takes apart what `attach` has made, from the outside in. Who has an endpoint of its own calls it before
  /// that goes, or what the endpoint needs.
  void detach() noexcept;

  starting_point start{};    ///< known before it lives
  std::uint32_t count = 0;   ///< workers that the run began with

 protected:
  /// Makes the handle, and what stands between it and the endpoint: calls the user's code, so nothing may be
  /// locked.
  /// @param link the transport's endpoint; lives until `detach`
  /// @param decorated whether the setup's wrappers stand there
  /// @throws option_error when a wrapper gives nothing, and what a wrapper throws
  void attach(endpoint& link, std::uint64_t seed, bool decorated = true);

 private:
  worker_run& run_;
  sender self_;
  std::vector<std::unique_ptr<endpoint>> wrapped_;
  std::unique_ptr<worker_core> handle_;
};

/// What a runtime runs whose workers live in this process, and their lives. Runtimes derive from it.
class worker_run : protected life {
 protected:
  worker_run(run_setup setup, std::uint32_t servers);

  /// One has ended by itself: on its thread or fiber.
  virtual void left(worker_participant& p) = 0;

  [[nodiscard]] blueprint const& plan() const noexcept { return plan_; }
  [[nodiscard]] bool evaluates_loss() const noexcept { return request_.loss != nullptr; }
  /// Which of the plan's protocols the run follows.
  [[nodiscard]] std::size_t protocol() const noexcept { return request_.protocol; }
  /// The next run is to be this. @throws option_error
  void accept(run_request request);
  /// Whether the run's end was asked for already. Looked at once a `stop` would have found the run.
  [[nodiscard]] static bool is_to_stop(run_request const& r) noexcept {
    return r.stop_asked != nullptr && *r.stop_asked;
  }
  /// The report of one that was, and has not begun.
  [[nodiscard]] static run_report stopped_before_it_began();
  /// Which run it is of its task, or else of the runs that there have been: from 1, and the same in all processes.
  [[nodiscard]] std::uint32_t run_number() const noexcept { return request_.step != 0 ? request_.step : runs_; }

  run_setup setup_;
  blueprint plan_;
  run_request request_;

 private:
  friend class worker_participant;
  void check_workers(std::uint32_t count) const;

  std::uint32_t runs_ = 0;
};

}  // namespace rubato
