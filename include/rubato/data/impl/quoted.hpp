// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace rubato::data {

/// Input as it may be shown: in quotes, cut short, nothing that could upset a terminal.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t shown_max = 32;
  std::string out = "'";
  for (char const c : text.substr(0, shown_max)) {
    auto const byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return out + (text.size() > shown_max ? "...'" : "'");
}

}  // namespace rubato::data
