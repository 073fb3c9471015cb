// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/result/run_result.hpp"

namespace rubato::bench {

/// The colours of lines, "--c0" and so on in the style sheet, which has them for light pages and for dark ones. The
/// colour-blind tell them apart (after Okabe and Ito).
constexpr std::size_t palette_size = 8;

/// How a protocol's line is drawn in all plots of a page.
struct line_style {
  std::size_t colour = 0;  ///< of the palette
  std::size_t dash = 0;    ///< 0: solid

  friend bool operator==(line_style const&, line_style const&) = default;
  /// SVG attributes.
  [[nodiscard]] std::string attributes() const;
};

/// One for each result, no two alike. A protocol has the same from report to report, whichever others are in it;
/// several results of one protocol differ in their dashes.
[[nodiscard]] std::vector<line_style> line_styles(std::span<run_result const> results);

}  // namespace rubato::bench
