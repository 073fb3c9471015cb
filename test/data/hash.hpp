// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <bit>
#include <cstdint>

#include <rubato/data/dataset.hpp>

namespace rubato::test {

/// FNV-1a over everything that the data set holds.
inline std::uint64_t hash(data::dataset const& rows) {
  std::uint64_t h = 0xcbf29ce484222325U;
  auto const mix = [&](std::uint32_t word) { h = (h ^ word) * 0x100000001b3U; };
  mix(static_cast<std::uint32_t>(rows.features()));
  for (data::example const row : rows.rows()) {
    mix(std::bit_cast<std::uint32_t>(row.label));
    for (std::uint32_t const index : row.indices) mix(index);
    for (float const value : row.values) mix(std::bit_cast<std::uint32_t>(value));
  }
  return h;
}

}  // namespace rubato::test
