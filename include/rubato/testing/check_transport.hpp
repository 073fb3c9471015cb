// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "rubato/run/runtime.hpp"
#include "rubato/testing/findings.hpp"
#include "rubato/transport/concepts.hpp"

namespace rubato::testing {

/// How a transport is checked.
struct transport_check {
  std::uint32_t workers = 3;  ///< that its runs begin with; 2 or more
  std::uint32_t servers = 2;  ///< that they have; 1 or more
  std::uint64_t first_seed = 1;  ///< of the first schedule
  std::uint64_t schedules = 5;  ///< random ones, for each of a few protocols
};

namespace detail {
using opener = std::function<std::unique_ptr<runtime>(run_setup)>;
/// What `check_transport` does, whatever the transport's type.
[[nodiscard]] sentences check_opened(opener const& open, transport_check const& how);
}  // namespace detail

/// A transport, as `cluster` uses it: that reads and commits keep the rules under protocols that wait, hold
/// back, and read cuts; that each commit counts exactly once and in order, and what workers measured adds
/// up, to no more time than the run has taken; that tables may be asked for together; that a body which throws ends the
/// run for all, and `stop` does; that runs follow one another, workers join, time does not go back, pauses last
/// until they end, a conductor's orders arrive, and it hears of commits and losses.
///
///     for (auto const& sentence : testing::check_transport(my_transport{}, {.workers = 4})) fail(sentence);
///
/// It runs for as long as these runs take: on threads a second or two.
template <transport T>
[[nodiscard]] sentences check_transport(T const& t, transport_check const& how = {}) {
  return detail::check_opened(
      [&t](run_setup setup) -> std::unique_ptr<runtime> { return t.open(std::move(setup)); }, how);
}

}  // namespace rubato::testing
