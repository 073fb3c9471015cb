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
            bool const is_number = failure == std::errc{} && stop == end;  // of what is none others tell
            return is_number && value <= 0 ? '"' + text + "\", expected a number above 0" : std::string();
          },
          "above 0"};
}

}  // namespace rubato::tools
