// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <vector>

namespace rubato::bench {

/// A mark on an axis.
struct tick {
  double at;  ///< 0 where the axis begins, 1 where it ends
  std::string label;
};

/// A logarithmic axis. @pre 0 < from < to
struct log_axis {
  double from = 1;
  double to = 10;

  /// The axis from the least to the greatest of some numbers above 0, with a little room; one decade for none.
  [[nodiscard]] static log_axis around(std::vector<double> const& numbers);
  /// 0 to 1; what lies beyond is put at the end.
  [[nodiscard]] double at(double x) const;
  /// At most `most` round numbers, written by `show`.
  [[nodiscard]] std::vector<tick> ticks(std::size_t most, std::string (*show)(double)) const;
};

[[nodiscard]] std::string show_count(double n);  ///< "200", "50k", "2M"

}  // namespace rubato::bench
