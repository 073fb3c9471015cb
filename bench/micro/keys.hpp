// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/ids.hpp"

namespace rubato::bench {

inline constexpr std::uint64_t rows_to_choose_from = 10'000'000;
inline constexpr std::size_t keys_in_a_batch = 1000;
inline constexpr int batches_in_a_round = 64;

/// Some rows each, in ascending order, none of them twice in a batch: what the mini-batches of a pass over sparse data touch.
[[nodiscard]] std::vector<std::vector<key>> batches_of_keys(std::uint64_t seed);

}  // namespace rubato::bench
