// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/line_style.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "bench/train/protocols.hpp"

namespace rubato::bench {
namespace {

std::string dashes(std::size_t k) {
  constexpr std::array usual = {"", "7 4", "2 3", "9 3 2 3", "9 3 2 3 2 3"};
  if (k < usual.size()) return usual[k];
  return fmt::format("{} 4", 4 * (k - usual.size()) + 12);  // longer and longer ones
}

/// The first that is free, of this colour if it can be.
line_style next_free(std::vector<line_style> const& taken, line_style wish) {
  while (std::ranges::find(taken, wish) != taken.end()) ++wish.dash;
  return wish;
}

}  // namespace

std::string line_style::attributes() const {
  std::string const dash_array = dash == 0 ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes(dash));
  return fmt::format("stroke=\"var(--c{})\"{}", colour, dash_array);
}

std::vector<line_style> line_styles(std::span<run_result const> results) {
  auto const known = known_protocols();
  std::vector<line_style> styles;
  for (run_result const& r : results) {
    auto const entry = std::ranges::find(known, r.protocol, &protocol_entry::name);
    auto const i = static_cast<std::size_t>(entry - known.begin());
    styles.push_back(next_free(styles, {.colour = i % palette_size, .dash = i / palette_size}));
  }
  return styles;
}

}  // namespace rubato::bench
