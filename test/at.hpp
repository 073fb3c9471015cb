// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include <rubato/core/clock.hpp>

namespace rubato::test {

constexpr clock_index at(std::int64_t value) { return clock_index{value}; }

}  // namespace rubato::test
