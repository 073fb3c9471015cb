// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>

namespace rubato::test {

/// How long anything may take before a test gives up. Long, for only a test that fails waits for so long, and
/// sanitizers on a machine that has other work make everything slow.
inline constexpr std::chrono::seconds patience{60};

}  // namespace rubato::test
