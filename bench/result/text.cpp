// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace rubato::bench {
namespace {

/// Terminal columns, for names may hold a non-ASCII character: bytes that do not go on one.
std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string show_seconds(double s) {
  if (!std::isfinite(s)) return "-";
  if (s == 0) return "0 s";
  if (std::abs(s) < 1e-6) return fmt::format("{:.3g} ns", s * 1e9);
  if (std::abs(s) < 1e-3) return fmt::format("{:.3g} us", s * 1e6);
  if (std::abs(s) < 1) return fmt::format("{:.3g} ms", s * 1e3);
  return s < 1000 ? fmt::format("{:.3g} s", s) : fmt::format("{:.0f} s", s);
}

std::string show_ratio(double ratio) {
  if (!std::isfinite(ratio)) return "-";
  return ratio < 10 ? fmt::format("{:.2f}x", ratio) : fmt::format("{:.0f}x", ratio);
}

std::string show_share(double share) { return fmt::format("{:.0f}%", 100 * share); }

std::string show_number(double x) {
  return std::isfinite(x) ? fmt::format("{:.3g}", x) : "diverged";
}

std::string text_table::to_string() const {
  std::vector<std::size_t> widths;
  for (std::string const& cell : head) widths.push_back(columns(cell));
  for (auto const& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  std::string out;
  auto const add = [&](std::vector<std::string> const& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::string const space(widths[i] - columns(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (i == 0 ? row[i] + space : space + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  add(head);
  for (auto const& row : rows) add(row);
  return out;
}

}  // namespace rubato::bench
