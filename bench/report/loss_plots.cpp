// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/loss_plots.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "bench/report/axis.hpp"
#include "bench/report/html.hpp"
#include "bench/report/line_style.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

/// What lies on the x axis.
struct abscissa {
  char const* id;
  char const* title;
  char const* caption;
  char const* kind;  ///< for hovering: how its values are written
  std::string name;
  double (*of)(curve_point const&);
  std::string (*show)(double);
};

/// The y axis: the logarithm of the distance from just below the lowest objective of all, labelled with the objective
/// itself. A linear axis shows the first few updates and a flat line, and a logarithmic one hardly more.
struct loss_axis {
  double floor = std::numeric_limits<double>::infinity();
  double start = 0;  ///< what lies beyond tells of an overshoot, and would flatten all the rest
  log_axis height;

  explicit loss_axis(std::span<run_result const> results) {
    start = results.front().curve.front().loss;
    for (run_result const& r : results) {
      if (std::isfinite(r.curve.front().loss)) start = std::max(start, r.curve.front().loss);
      for (curve_point const& p : r.curve)
        if (std::isfinite(p.loss)) floor = std::min(floor, p.loss);
    }
    if (auto const target = results.front().target) floor = std::min(floor, *target);
    if (!(floor < start)) floor = start - 1;
    constexpr double below = 0.005;
    floor -= below * (start - floor);
    height = {.from = std::ldexp(start - floor, -halvings - 1), .to = 1.1 * (start - floor)};
  }

  [[nodiscard]] bool has(double loss) const { return loss - floor <= height.to; }
  /// From the top.
  [[nodiscard]] double at(double loss) const { return 1 - height.at(loss - floor); }
  [[nodiscard]] std::vector<tick> ticks() const {
    std::vector<tick> all;
    for (int k = 0; k <= halvings; ++k) {
      double const above = std::ldexp(start - floor, -k);
      all.push_back({1 - height.at(above), fmt::format("{:.3g}", floor + above)});
    }
    return all;
  }

  static constexpr int halvings = 7;
};

/// In steps, for parameters stay as they are from update to update; the first point lies at 0, which a log axis has
/// not. Left out is what lies above the axis, and what is no number.
std::string path(run_result const& r, abscissa const& what, log_axis const& x, loss_axis const& y) {
  std::string d, last;
  bool drawing = false;
  for (curve_point const& p : r.curve) {
    if (p.updates == 0) continue;
    std::string const h = place(x.at(what.of(p))), v = place(y.at(p.loss));
    bool const inside = y.has(p.loss);
    if (drawing) d += "H" + h;
    if (inside && !drawing) d += "M" + h + " " + v;
    if (inside && drawing && v != last) d += "V" + v;
    drawing = inside;
    last = v;
  }
  return d;
}

/// Where a line ends.
struct line_end {
  double on_x = 0;
  double from_top = 0.5;  ///< in the middle for a line without points
};
line_end end_of(run_result const& r, abscissa const& what, loss_axis const& y) {
  line_end at;
  for (curve_point const& p : r.curve)
    if (std::isfinite(p.loss)) at = {what.of(p), y.at(p.loss)};
  return at;
}

std::string swatch(line_style const& style) {
  return fmt::format("<svg class=\"swatch\" viewBox=\"0 0 26 8\" aria-hidden=\"true\"><path d=\"M0 4H26\" {}/></svg>",
                     style.attributes());
}

/// The names at the ends of the lines, with what leads from a line to its name.
std::string ends(std::span<run_result const> results, std::vector<line_style> const& styles,
                 std::vector<double> const& wished) {
  constexpr double height_of_a_label = 0.055;
  auto const gaps = static_cast<double>(std::max<std::size_t>(1, results.size() - 1));
  std::vector<double> const put = spread_out(wished, std::min(height_of_a_label, 1 / gaps));
  std::string leads, names;
  for (std::size_t i = 0; i < results.size(); ++i) {
    leads += fmt::format("<path d=\"M0 {}L1000 {}\" {}/>", place(wished[i]), place(put[i]), styles[i].attributes());
    names += fmt::format("<span class=\"end\" data-series=\"{}\" style=\"top:{}\">{}{}</span>", i, percent(put[i]),
                         swatch(styles[i]), escaped(results[i].label));
  }
  return "<div class=\"leads\">" + stretched(leads) + "</div>\n<div class=\"ends\">" + names + "</div>\n";
}

std::string grid(std::vector<tick> const& x, std::vector<tick> const& y) {
  std::string lines;
  for (tick const& t : x) lines += fmt::format("<path class=\"grid\" d=\"M{} 0V1000\"/>", place(t.at));
  for (tick const& t : y) lines += fmt::format("<path class=\"grid\" d=\"M0 {}H1000\"/>", place(t.at));
  return lines;
}

std::string labels(std::vector<tick> const& ticks, char const* axis, char const* side) {
  std::string all;
  for (tick const& t : ticks)
    all += fmt::format("<span class=\"{}\" style=\"{}:{}\">{}</span>", axis, side, percent(t.at), t.label);
  return all;
}

std::string loss_over(std::span<run_result const> results, abscissa const& what) {
  std::vector<double> on_x;
  for (run_result const& r : results)
    for (curve_point const& p : r.curve)
      if (p.updates > 0) on_x.push_back(what.of(p));
  log_axis const x = log_axis::around(on_x);
  loss_axis const y(results);
  std::vector<tick> const x_ticks = x.ticks(6, what.show), y_ticks = y.ticks();
  std::vector<line_style> const styles = line_styles(results);
  std::string lines = grid(x_ticks, y_ticks), aim;
  if (auto const target = results.front().target) {
    lines += fmt::format("<path class=\"target\" d=\"M0 {}H1000\"/>", place(y.at(*target)));
    aim = fmt::format("<span class=\"aim\" style=\"top:{}\">target {:.4g}</span>", percent(y.at(*target)), *target);
  }
  std::vector<double> heights(results.size());
  for (std::size_t i = results.size(); i-- > 0;) {  // the best on top
    line_end const end = end_of(results[i], what, y);
    heights[i] = end.from_top;
    lines += fmt::format("<path class=\"beyond\" d=\"M{} {}H1000\" {}/>", place(x.at(end.on_x)),
                         place(end.from_top), line_style{styles[i].colour}.attributes());
    lines += fmt::format("<path class=\"line\" data-series=\"{}\" data-name=\"{}\" d=\"{}\" {}/>", i,
                         escaped(results[i].label), path(results[i], what, x, y), styles[i].attributes());
  }
  std::string const body = fmt::format(
      "<p class=\"axis\">objective on the training set</p>\n<div class=\"plot\">"
      "<div class=\"area\" data-x=\"{}\" data-x-from=\"{:.9g}\" data-x-to=\"{:.9g}\" data-floor=\"{:.9g}\" "
      "data-y-from=\"{:.9g}\" data-y-to=\"{:.9g}\">{}{}{}{}<span class=\"name\">{}</span></div>\n{}</div>\n",
      what.kind, x.from, x.to, y.floor, y.height.from, y.height.to, stretched(lines), labels(y_ticks, "y", "top"),
      labels(x_ticks, "x", "left"), aim, escaped(what.name), ends(results, styles, heights));
  return figure(what.id, what.title, body,
                fmt::format("{} Both axes are logarithmic; of the objective it is the distance from just below the "
                            "lowest one seen, {:.4g}: each line of the grid is half as far from there as the one "
                            "above, so that the end of training, where protocols part, has as much room as its "
                            "beginning. What lies above the start is left out.",
                            what.caption, y.floor));
}

}  // namespace

std::vector<double> spread_out(std::vector<double> wished, double apart) {
  std::vector<std::size_t> order(wished.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return wished[i]; });
  double next = 0;
  for (std::size_t const i : order) {
    wished[i] = std::max(wished[i], next);
    next = wished[i] + apart;
  }
  double last = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    wished[order[k]] = std::min(wished[order[k]], last);
    last = wished[order[k]] - apart;
  }
  return wished;
}

std::string loss_over_time(std::span<run_result const> results) {
  return loss_over(results, {.id = "loss-over-time",
                             .title = "Loss over time",
                             .caption = "Further to the left is faster.",
                             .kind = "time",
                             .name = results.front().time_kind + " time since the run began",
                             .of = [](curve_point const& p) { return p.seconds; },
                             .show = show_seconds});
}

std::string loss_over_updates(std::span<run_result const> results) {
  return loss_over(results,
                   {.id = "loss-over-updates",
                    .title = "Loss over updates",
                    .caption = "Statistical efficiency: how much each update is worth, whatever time it took.",
                    .kind = "count",
                    .name = "updates: commits of workers, or iterations of peers",
                    .of = [](curve_point const& p) { return static_cast<double>(p.updates); },
                    .show = show_count});
}

}  // namespace rubato::bench
