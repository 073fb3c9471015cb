// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/commit_rate.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// ADSP: nobody waits for anybody; each worker trains on its replica and commits when its share of a
/// common commit rate is due, and the rate is searched for while training goes on. The search needs
/// the loss, which the run evaluates or bodies report (see `cluster::run`, `worker::report_loss`);
/// without, the first rate is kept. Defaults are the paper's, but for the probe, see
/// `commit_rate_options`. Source: 003 §3–4, §5.1.
struct adsp {
  duration check_period = std::chrono::seconds(60);  ///< Γ
  duration epoch = std::chrono::minutes(20);         ///< how often the rate is searched for
  duration probe_period = std::chrono::minutes(2);   ///< how long a rate is tried
  std::int64_t first_rate = 1;                       ///< R, commits per check period, to begin with
  bool search = true;                                ///< false: `first_rate` throughout
  std::size_t samples = 36;                          ///< of the loss, per probe
  /// η; 1/M unless set. M is as for `average`: a worker that has finished early still counts, so that of five workers
  /// the updates of the last one that works are worth 0.2 as before; the lost do not count (rules §4).
  std::optional<double> global_rate{};

  [[nodiscard]] constexpr unbounded admission() const noexcept { return {}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr scale merge() const noexcept { return {.lambda = global_rate}; }
  [[nodiscard]] commit_rate pace() const noexcept {
    return commit_rate({.check_period = check_period,
                        .epoch = epoch,
                        .probe_period = probe_period,
                        .first_rate = first_rate,
                        .search = search,
                        .samples = samples});
  }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "adsp"; }
};
static_assert(protocol<adsp> && conducted_pace<pace_of<adsp>>);

}  // namespace rubato
