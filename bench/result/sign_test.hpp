// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>

namespace rubato::bench {

/// The probability of at most `k` or at least `n - k` heads in `n` throws of a fair coin, whichever is less for
/// one side, doubled; 1 at most.
[[nodiscard]] double sign_test(std::size_t k, std::size_t n);

}  // namespace rubato::bench
