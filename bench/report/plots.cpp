// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/plots.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include <fmt/format.h>

namespace rubato::bench {
namespace {

/// Colours that also a colour-blind reader can tell apart (Okabe and Ito).
constexpr std::array palette = {"#0072b2", "#e69f00", "#d55e00", "#009e73",
                                "#cc79a7", "#56b4e9", "#7f7f7f", "#000000"};

/// A protocol keeps its colour from report to report, whichever others are in it.
std::size_t colour_of(run_result const& r) {
  constexpr std::array<std::string_view, palette.size()> known = {
      "bsp", "ssp", "asp", "con_sgd", "dyn_sgd", "fixed_ada_comm", "ada_comm", "adsp"};
  auto const* const it = std::ranges::find(known, r.protocol);
  if (it != known.end()) return static_cast<std::size_t>(it - known.begin());
  return std::hash<std::string>{}(r.protocol) % palette.size();
}

/// Colour, and dashes for the second and later results of one protocol.
std::string line_style(std::span<run_result const> all, std::size_t i, double width = 2) {
  auto const before = std::ranges::count(all.first(i), all[i].protocol, &run_result::protocol);
  return fmt::format("lc rgb '{}' dt {} lw {}", palette[colour_of(all[i])], before + 1, width);
}

/// gnuplot takes what stands between single quotes as it is, but a quote, which is doubled.
std::string quoted(std::string const& text) {
  std::string out = "'";
  for (char const c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

struct unit {
  double seconds;
  char const* name;
};

unit unit_for(double greatest) {
  if (greatest < 1e-3) return {1e-6, "us"};
  if (greatest < 1) return {1e-3, "ms"};
  return {1, "s"};
}

/// The name keeps the identifiers of several pictures in one page apart.
std::string preamble(char const* name) {
  return fmt::format(
      "set terminal svg size 560,400 dynamic font 'Helvetica,Arial,sans-serif,15' "
      "background '#ffffff' name 'rubato_{}'\n"
      "set border 3 lc rgb '#555555'\n"
      "set tics nomirror textcolor rgb '#333333'\n"
      "set grid lc rgb '#dddddd' lw 1\n"
      "set key above horizontal noenhanced textcolor rgb '#222222'\n",
      name);
}

std::string block(std::size_t i, std::string const& lines) {
  return fmt::format("$d{} << EOD\n{}EOD\n", i, lines);
}

std::string number(double x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : "NaN"; }

// ---- loss

/// The y axis: the logarithm of the distance from just below the lowest objective of all, with the
/// objective itself on the tics. A linear axis shows the first few updates and a flat line.
struct loss_axis {
  double floor;
  double start;  ///< what lies beyond tells of an overshoot, and would flatten all the rest

  explicit loss_axis(std::span<run_result const> results)
      : floor(std::numeric_limits<double>::infinity()), start(0) {
    for (run_result const& r : results) {
      start = std::max(start, r.curve.front().loss);
      for (curve_point const& p : r.curve)
        if (std::isfinite(p.loss)) floor = std::min(floor, p.loss);
    }
    floor -= 0.005 * (start - floor);
  }

  [[nodiscard]] std::string script() const {
    constexpr int halvings = 7;
    double const height = start - floor;
    std::string tics;
    for (int k = 0; k <= halvings; ++k)
      tics += fmt::format("{}\"{:.3g}\" {}", k == 0 ? "" : ", ", floor + std::ldexp(height, -k),
                          number(std::ldexp(height, -k)));
    return fmt::format("set logscale y\nset yrange [{}:{}]\nset ytics ({})\n",
                       number(std::ldexp(height, -halvings - 1)), number(1.1 * height), tics);
  }
};

/// Draws `x` of each point, in steps, for parameters stay as they are from update to update. The
/// first point lies at 0, which a log scale has not.
template <class X>
std::string loss_script(char const* name, std::span<run_result const> results,
                        std::string const& axis, X x) {
  loss_axis const y(results);
  std::string s = preamble(name) + y.script() + "set logscale x\nset format x '%g'\n" +
                  "set autoscale xfix\nset xlabel " + quoted(axis) +
                  "\nset ylabel 'objective on the training set'\n";
  std::string curves;
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::string lines;
    for (curve_point const& p : results[i].curve)
      if (p.updates > 0) lines += number(x(p)) + ' ' + number(p.loss - y.floor) + '\n';
    s += block(i, lines);
    curves += fmt::format("{}$d{} using 1:2 with steps {} title {}", i == 0 ? "" : ", ", i,
                          line_style(results, i), quoted(results[i].label));
  }
  if (results.front().target)
    curves += fmt::format(", {} with lines lc rgb '#666666' dt 3 lw 2 title 'target'",
                          number(*results.front().target - y.floor));
  return s + "plot " + curves + '\n';
}

plot loss_over_time(std::span<run_result const> results) {
  double longest = 0;
  for (run_result const& r : results) longest = std::max(longest, r.seconds);
  unit const u = unit_for(longest);
  return {
      "time", "Loss over time", "Further to the left is faster.",
      loss_script("time", results, fmt::format("{} time [{}]", results.front().time_kind, u.name),
                  [u](curve_point const& p) { return p.seconds / u.seconds; })};
}

plot loss_over_updates(std::span<run_result const> results) {
  return {"updates", "Loss over updates",
          "Statistical efficiency: how much each update is worth, whatever time it took.",
          loss_script("updates", results, "updates: commits, or iterations of peers",
                      [](curve_point const& p) { return static_cast<double>(p.updates); })};
}

// ---- time

plot where_time_went(std::span<run_result const> results) {
  double longest = 0;
  for (run_result const& r : results)
    longest = std::max(longest, (r.compute_seconds + r.send_seconds + r.wait_seconds) / r.workers);
  unit const u = unit_for(longest);
  std::string lines;
  for (run_result const& r : results) {
    double const each = u.seconds * r.workers;
    lines += fmt::format("\"{}\" {} {} {}\n", r.label, number(r.compute_seconds / each),
                         number(r.send_seconds / each), number(r.wait_seconds / each));
  }
  return {
      "breakdown", "Where the time went",
      "Of a worker, on average over the whole run. Waiting is what the protocol held it up for.",
      preamble("breakdown") + block(0, lines) +
          "set style data histograms\nset style histogram rowstacked\nset boxwidth 0.6\n"
          "set style fill solid 0.9 noborder\nset yrange [0:*]\nset grid noxtics\n"
          "set xtics noenhanced\n" +
          fmt::format("set ylabel 'time of a worker [{}]'\n", u.name) +
          "plot $d0 using 2:xtic(1) lc rgb '#4c9a6a' title 'compute', "
          "'' using 3 lc rgb '#5b8ecb' title 'send', "
          "'' using 4 lc rgb '#d9a441' title 'wait'\n"};
}

// ---- staleness

plot staleness(std::span<run_result const> results) {
  std::string s = preamble("staleness") +
                  "set xlabel 'clocks that a read was behind its reader'\n"
                  "set ylabel 'share of first reads of a clock [%]'\nset yrange [0:*]\n"
                  "set xrange [-0.5:*]\n";
  std::string curves;
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto const& histogram = results[i].staleness_histogram;
    double all = 0;
    for (auto const n : histogram) all += static_cast<double>(n);
    std::string lines;
    for (std::size_t k = 0; k < histogram.size(); ++k)
      if (histogram[k] != 0)
        lines += fmt::format("{} {}\n", k, number(100 * static_cast<double>(histogram[k]) / all));
    if (lines.empty()) lines = "0 NaN\n";
    s += block(i, lines);
    // Protocols with one admission rule read alike: the later ones are drawn thinner, on top.
    double const width = 2 + 2 * static_cast<double>(results.size() - 1 - i);
    curves +=
        fmt::format("{}$d{} using 1:2 with linespoints pt 7 ps {} {} title {}", i == 0 ? "" : ", ",
                    i, 0.3 + 0.15 * width, line_style(results, i, width), quoted(results[i].label));
  }
  return {"staleness", "Staleness of reads",
          "How far the copy that a worker trained on was behind its own clock; the last point also "
          "counts all beyond.",
          s + "plot " + curves + '\n'};
}

}  // namespace

std::vector<plot> make_plots(std::span<run_result const> results) {
  if (results.empty()) return {};
  return {loss_over_time(results), loss_over_updates(results), where_time_went(results),
          staleness(results)};
}

}  // namespace rubato::bench
