// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace rubato::bench {
namespace {

/// All 10^k times one of the steps on the axis, every `stride`-th decade.
std::vector<double> round_numbers(log_axis const& a, std::vector<double> const& steps, int stride) {
  std::vector<double> found;
  int const first = static_cast<int>(std::floor(std::log10(a.from)));
  int const last = static_cast<int>(std::ceil(std::log10(a.to)));
  for (int k = first; k <= last; k += stride)
    for (double const step : steps)
      if (double const x = step * std::pow(10.0, k); x >= a.from * 0.999 && x <= a.to * 1.001) found.push_back(x);
  return found;
}

}  // namespace

log_axis log_axis::around(std::vector<double> const& numbers) {
  log_axis a{.from = 0, .to = 0};
  for (double const x : numbers) {
    if (!std::isfinite(x) || x <= 0) continue;
    a.from = a.from == 0 ? x : std::min(a.from, x);
    a.to = std::max(a.to, x);
  }
  if (a.from == 0) return {};
  constexpr double least_span = 1.25, room = 1.06;
  if (a.to < least_span * a.from) a = {.from = a.from / least_span, .to = a.to * least_span};
  return {.from = a.from / room, .to = a.to * room};
}

double log_axis::at(double x) const {
  if (!(x > from)) return 0;
  return std::min(1.0, std::log(x / from) / std::log(to / from));
}

std::vector<tick> log_axis::ticks(std::size_t most, std::string (*show)(double)) const {
  std::vector<double> best;
  for (std::vector<double> const& steps : {std::vector<double>{1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9},
                                           std::vector<double>{1, 2, 3, 5, 7}, std::vector<double>{1, 2, 5},
                                           std::vector<double>{1, 3}}) {
    best = round_numbers(*this, steps, 1);
    if (best.size() <= most) break;
  }
  for (int stride = 1; best.size() > most; ++stride) best = round_numbers(*this, {1}, stride);
  std::vector<tick> ticks;
  for (double const x : best) ticks.push_back({at(x), show(x)});
  return ticks;
}

std::string show_count(double n) {
  if (n >= 1e6) return fmt::format("{:.3g}M", n / 1e6);
  return n >= 1e4 ? fmt::format("{:.3g}k", n / 1e3) : fmt::format("{:.4g}", n);
}

}  // namespace rubato::bench
