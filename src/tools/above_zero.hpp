// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <string>
#include <system_error>

namespace rubato::tools {

/// Lets an option take numbers above 0 only. CLI11's own check tells of a range of 300 digits.
[[nodiscard]] inline CLI::Validator above_zero() {
  return {[](std::string& text) {
            double value = 0;
            char const* const end = text.data() + text.size();
            auto const [stop, failure] = std::from_chars(text.data(), end, value);
            if (failure == std::errc{} && stop == end && value > 0) return std::string();
            return '"' + text + "\", expected a number above 0";
          },
          "above 0"};
}

}  // namespace rubato::tools
