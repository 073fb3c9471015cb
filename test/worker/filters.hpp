// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <vector>

#include <rubato/storage/update_filter.hpp>

namespace rubato::test::filters {

using doubles = std::vector<double>;
using numbers = std::vector<std::uint64_t>;

inline constexpr update_filter dropping{.threshold = 0.25, .small = small_entries::drop};
inline constexpr update_filter carrying{.threshold = 0.25, .small = small_entries::carry};

}  // namespace rubato::test::filters
