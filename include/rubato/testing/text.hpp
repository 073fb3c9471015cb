// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sstream>
#include <string>

#include "rubato/core/clock.hpp"

namespace rubato::testing::detail {

template <class... Parts>
[[nodiscard]] std::string text(Parts const&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[nodiscard]] inline std::string text(clock_index c) {
  if (c == clock_index::highest()) return "infinity";
  if (c == clock_index::lowest()) return "-infinity";
  return std::to_string(c.value());
}

[[nodiscard]] inline std::string text(staleness s) {
  return s.is_infinite() ? "infinite" : std::to_string(s.clocks());
}

}  // namespace rubato::testing::detail
