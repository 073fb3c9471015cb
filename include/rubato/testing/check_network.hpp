// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "rubato/net/network.hpp"
#include "rubato/testing/findings.hpp"

namespace rubato::testing {

/// How a network is checked.
struct network_check {
  net::address at{.host = "127.0.0.1"};  ///< where its listeners are put, one at a time
  net::security keys{};  ///< that both ends have
  std::size_t largest = 3'000'000;          ///< bytes of the longest frame
  std::chrono::milliseconds patience{5000};  ///< for what is to happen
};

/// A network as links use it: timers and the time, being interrupted, who is connected and who is not, that
/// frames of all sizes arrive whole and in their order, from where they lie and to where they are wanted,
/// and what each end hears when the other one closes. Two processes are played by two networks in this
/// thread. What it sends that must be refused is logged, as everywhere (`net::set_log`), and is no finding.
///
///     for (auto const& sentence : testing::check_network([] { return std::make_unique<mine>(); }))
///       fail(sentence);
[[nodiscard]] sentences check_network(net::network_maker const& make, network_check const& how = {});

}  // namespace rubato::testing
