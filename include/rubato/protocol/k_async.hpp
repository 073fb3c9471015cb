// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/rounds.hpp"

namespace rubato {

/// K-async SGD: the mean of the first K updates to arrive makes the next parameters, whatever they were computed at;
/// slow workers go on computing, and their updates count when they come. A worker waits until the parameters are newer
/// than those it computed at; one whose update came late has them at once, where the paper lets it wait for its own
/// update to be in. With K = M it is BSP, bit for bit.
///
/// `with(k_async{K}, unbounded{})` is K-batch-async, where nobody waits; the n-softsync of Zhang et al. (IJCAI 2016) is
/// that with K = M/n.
///
/// Guarantee: each version is made of K updates; none is lost. Source: Dutta et al., AISTATS 2018.
struct k_async {
  std::uint32_t k = 1;  ///< K

  [[nodiscard]] constexpr each_round admission() const noexcept { return {}; }
  [[nodiscard]] constexpr buffered visibility() const noexcept { return {.count = k}; }
  [[nodiscard]] constexpr average merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "k_async"; }
};
static_assert(protocol<k_async>);

}  // namespace rubato
