// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/storage/codec.hpp"
#include "rubato/testing/findings.hpp"

/// Checks a codec of your own; `conformance.hpp` says how.
namespace rubato::testing {

namespace detail {
void check_codec(findings& found, codec_rule const& codec, codec_rule const& copy);
}  // namespace detail

/// How values are written: n of them in `bytes(n)`, 1 or more, and no byte beyond; the same each time and by copies; what
/// has been rounded once is rounded no more, bit for bit; zeros stay zeros, values that are all alike keep their sign, and any bytes give n values. Of runs of 1
/// to 70,000 values of all magnitudes, among them such that are infinite or no numbers.
template <codec C>
[[nodiscard]] sentences check_codec(C const& c) {
  detail::findings found;
  detail::check_codec(found, c, C(c));
  return found.take();
}

}  // namespace rubato::testing
