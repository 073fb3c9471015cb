// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include "rubato/core/error.hpp"

namespace rubato::data {

/// @throws option_error unless the value is `valid`
inline void require(bool valid, char const* option, double value, char const* expected) {
  if (!valid) throw option_error(fmt::format("{} is {}, expected {}", option, value, expected));
}

}  // namespace rubato::data
