// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/protocol/rate_search.hpp"

namespace rubato {

/// What ADSP's conductor orders at a checkpoint: this worker is to make `commits` more in the check
/// period that starts there.
struct commit_quota {
  time_point start{};  ///< when the check period begins
  duration period{};         ///< Γ
  clock_index done{};        ///< the worker's clock, as far as the conductor had heard
  std::int64_t commits = 0;  ///< ΔC_i; at least 1 in an order
  std::int64_t rate = 0;     ///< R: those that follow until the next order, if it is late, are so many a period
};

/// ADSP's half in the coordinator. At every checkpoint all workers get the quota that brings them to
/// the same number of commits at the next one: `C ← max(C, max c_i) + R`, `ΔC_i = C − c_i`. The rate
/// R is the search's. A joiner counts as one that is on target, and gets its first quota at the next
/// checkpoint.
/// A state machine without I/O; O(workers) per checkpoint. Source: 003 Alg. 1; rules §5.
class rate_conductor {
 public:
  using order_type = commit_quota;

  /// @throws option_error naming the option and what was expected
  explicit rate_conductor(commit_rate_options const& options);

  void join(worker_id w, clock_index at, time_point, pace_orders<commit_quota>& out);
  void leave(worker_id w);
  void commit(worker_id w, clock_index now_at, time_point t);
  void observe(time_point at, double loss);
  void tick(time_point now, pace_orders<commit_quota>& out);

  [[nodiscard]] time_point next_tick() const noexcept { return next_checkpoint_; }
  [[nodiscard]] time_point next_sample() const noexcept { return search_.next_sample(); }
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return search_.changes(); }

  /// The number of commits that every worker is to have made by the next checkpoint.
  [[nodiscard]] std::int64_t target() const noexcept { return target_; }
  /// R: commits per check period.
  [[nodiscard]] std::int64_t rate() const noexcept { return search_.rate(); }

 private:
  struct member {
    std::int64_t offset;  ///< of numbers of commits over clocks: a joiner's clock starts elsewhere
    std::int64_t newest;  ///< c_i, as far as heard of
    time_point counted;   ///< the first checkpoint that counts the newest: one that is late may not
    std::int64_t before;  ///< c_i, as of the checkpoint before that one

    [[nodiscard]] std::int64_t commits(time_point checkpoint) const noexcept {
      return counted <= checkpoint ? newest : before;
    }
  };

  [[nodiscard]] time_point checkpoint_after(time_point t) const noexcept;

  duration period_;
  rate_search search_;
  time_point next_checkpoint_{};
  std::int64_t target_ = 0;
  std::map<worker_id, member> members_;
};

static_assert(pace_conductor<rate_conductor>);

}  // namespace rubato
