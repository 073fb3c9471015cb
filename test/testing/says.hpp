// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>

#include <rubato/testing/findings.hpp>

namespace rubato::test {

/// Whether one of the sentences says so.
inline bool says(testing::sentences const& all, std::string const& part) {
  return std::ranges::any_of(all, [&](auto const& s) { return s.find(part) != std::string::npos; });
}

}  // namespace rubato::test
