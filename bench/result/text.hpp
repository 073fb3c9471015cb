// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rubato::bench {

// How numbers are written where people read them: three digits that matter and a unit that fits.

[[nodiscard]] std::string show_seconds(double seconds);  ///< "26.7 ms"
[[nodiscard]] std::string show_ratio(double ratio);      ///< "2.3x"
[[nodiscard]] std::string show_share(double share);      ///< "35%"
[[nodiscard]] std::string show_number(double x);         ///< "0.022"

/// A table of text.
struct text_table {
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;

  /// Lines with aligned columns: the first to the left, the others to the right.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace rubato::bench
