// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/partition/key_ranges.hpp"

namespace rubato::detail {

void check_first_keys(std::vector<std::uint64_t> const& first) {
  if (first.empty()) throw option_error("key_ranges: there are no ranges, expected one for each server");
  if (first.front() != 0)
    throw option_error("key_ranges: the first range begins at key " + std::to_string(first.front()) +
                       ", expected 0");
  auto const fall = std::ranges::adjacent_find(first, std::ranges::greater{});
  if (fall == first.end()) return;
  auto const later = static_cast<std::size_t>(fall - first.begin()) + 1;
  throw option_error("key_ranges: range " + std::to_string(later) + " begins at key " +
                     std::to_string(first[later]) + ", expected one not below " + std::to_string(*fall) +
                     ", where the range before begins");
}

void refuse_key_ranges(std::size_t ranges, std::uint32_t servers) {
  throw option_error("key_ranges: there are " + std::to_string(ranges) + " ranges, expected " +
                     std::to_string(servers) + ", one for each server");
}

}  // namespace rubato::detail
