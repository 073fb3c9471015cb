// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

// Found only where Catch2 3 is installed: gives the tests, which are written for 2.13, its one
// header. Use of matchers is limited to names that both versions have, and Catch::Contains.
#include <catch2/catch_all.hpp>
#include <string>

using Catch::Approx;

namespace Catch {
using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::StartsWith;
inline auto Contains(std::string const& part) { return Matchers::ContainsSubstring(part); }
}  // namespace Catch
