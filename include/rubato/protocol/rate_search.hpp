// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/time.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/protocol/convergence_fit.hpp"

namespace rubato {

/// What ADSP can be told. The defaults are the paper's (003 §5.1), but for the probe: the paper's is
/// one minute, one check period. At R = 1 all workers commit together as a check period ends, so
/// that in a probe of one the loss hardly moves, and the search stays undecided.
struct commit_rate_options {
  duration check_period = std::chrono::seconds(60);  ///< Γ; above 0
  /// How often the rate is searched for; a whole number of check periods, two probes at least.
  duration epoch = std::chrono::minutes(20);
  /// How long each rate is tried; a whole number of check periods.
  duration probe_period = std::chrono::minutes(2);
  std::int64_t first_rate = 1;  ///< R that a search starts from; at least 1
  bool search = true;           ///< false: `first_rate` throughout
  std::size_t samples = 36;     ///< of the loss, per probe; from 9 to 100,000
};

/// ADSP's online search for R, the commits per check period. At each epoch's start one probe period
/// at the first rate and one at the next; while the loss falls clearly faster at the higher rate,
/// it steps up; then that rate is kept for the rest of the epoch. Training goes on all the while, so
/// the curves of both probes are fitted together. A probe with fewer than 9 losses ends the search.
/// A state machine without I/O. O(samples) per probe. Source: 003 §4.2, Alg. 1; rules §5.
class rate_search {
 public:
  /// @throws option_error naming the option and what was expected
  explicit rate_search(commit_rate_options const& options);

  /// A checkpoint has come; returns the rate until the next one.
  std::int64_t checkpoint(time_point now);
  /// The loss at that time. All that fall into one of a probe's `samples` slots are averaged.
  void observe(time_point at, double loss);

  [[nodiscard]] std::int64_t rate() const noexcept { return rate_; }
  /// The middle of the next slot without a loss; never while nothing is probed.
  [[nodiscard]] time_point next_sample() const noexcept;
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return changes_; }

 private:
  enum class phase : std::uint8_t { first_probe, later_probe, kept };
  struct slot {
    double seconds = 0;
    double loss = 0;
    std::size_t count = 0;
  };

  void begin_probe(time_point now, phase what, std::int64_t rate, char const* reason);
  void end_probe(time_point now);
  void keep(time_point now, std::int64_t rate, char const* reason);
  [[nodiscard]] std::vector<loss_sample> samples() const;

  commit_rate_options options_;
  phase phase_ = phase::kept;
  std::int64_t rate_;
  time_point epoch_ends_{};
  time_point probe_began_{};
  std::vector<slot> slots_;          ///< of the probe under way
  std::size_t filled_ = 0;           ///< the slots before it have had their chance
  std::vector<loss_sample> before_;  ///< what the probe at the rate before showed
  std::optional<double> last_good_c_;
  std::vector<pace_change> changes_;
};

}  // namespace rubato
