// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/portable_math.hpp"
#include "rubato/protocol/convergence_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace rubato {
namespace {

using detail::portable_exp;
using detail::portable_log;

// In here times run from 0 to 1 over all samples, and losses from 0 (the least) to 1. The asymptote
// c is given by its gap: how far it is below the least loss. u is 1/(loss - c).
struct point {
  double time;
  double loss;
};
using points = std::vector<point>;

struct frame {
  double origin = 0;
  double time_unit = 0;
  double least = 0;  // loss
  double loss_unit = 0;
  double depth = 0;     // the gap down to which c may well lie
  bool usable = false;  // else there is nothing to fit: one time, one loss, or an overflow

  double c(double gap) const { return least - gap * loss_unit; }
};

constexpr double greatest_depth = 10;
constexpr double least_gap = 1e-6;
constexpr std::size_t fewest_samples = 4;  // one more than the curve has parameters

bool finite(loss_sample const& s) { return std::isfinite(s.seconds) && std::isfinite(s.loss); }

frame frame_of(std::span<std::span<loss_sample const> const> probes) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  frame f{.origin = infinity, .least = infinity};
  double latest = -infinity;
  double greatest = -infinity;
  for (auto const probe : probes) {
    for (loss_sample const& s : probe) {
      if (!finite(s)) continue;
      f.origin = std::min(f.origin, s.seconds);
      latest = std::max(latest, s.seconds);
      f.least = std::min(f.least, s.loss);
      greatest = std::max(greatest, s.loss);
    }
  }
  f.time_unit = latest - f.origin;
  f.loss_unit = greatest - f.least;
  f.usable = std::isnormal(f.time_unit) && std::isnormal(f.loss_unit) && f.time_unit > 0 &&
             std::isnormal(1 / f.loss_unit / f.time_unit);
  if (!f.usable) return f;
  double const down_to_zero = f.least / f.loss_unit;
  f.depth = down_to_zero > 0 ? std::clamp(down_to_zero, least_gap, greatest_depth) : greatest_depth;
  return f;
}

points normalized(std::span<loss_sample const> probe, frame const& f) {
  points result;
  result.reserve(probe.size());
  for (loss_sample const& s : probe) {
    if (!finite(s)) continue;
    result.push_back({(s.seconds - f.origin) / f.time_unit, (s.loss - f.least) / f.loss_unit});
  }
  return result;
}

// u = alpha time + beta.
struct line {
  double alpha = 0;
  double beta = 0;
  double information = 0;  // the variance of alpha is that of the loss over this
  double squares = 0;      // sum of the squares of the residuals in loss
  bool good = false;
};

// Sum of the squared residuals in loss; infinite where the curve has no loss at a sample's time.
double squared_residuals(points const& probe, double gap, double alpha, double beta) {
  double sum = 0;
  for (point const& p : probe) {
    double const u = alpha * p.time + beta;
    if (!(u > 0)) return std::numeric_limits<double>::infinity();
    double const residual = p.loss + gap - 1 / u;
    sum += residual * residual;
  }
  return sum;
}

// Weights: an error e in loss is an error e/(l - c)^2 in u.
line least_squares(points const& probe, double gap) {
  double weights = 0;
  double time = 0;
  double height = 0;
  for (point const& p : probe) {
    double const e = p.loss + gap;
    double const weight = e * e * (e * e);
    weights += weight;
    time += weight * p.time;
    height += e * e * e;  // weight * u
  }
  if (!(weights > 0)) return {};
  time /= weights;
  height /= weights;
  double tt = 0;
  double tu = 0;
  for (point const& p : probe) {
    double const e = p.loss + gap;
    double const weighted = e * e * (e * e) * (p.time - time);
    tt += weighted * (p.time - time);
    tu += weighted * (1 / e - height);
  }
  double const alpha = tt > 0 ? std::max(0.0, tu / tt) : 0.0;
  line result{.alpha = alpha, .beta = height - alpha * time, .information = tt};
  result.squares = squared_residuals(probe, gap, result.alpha, result.beta);
  result.good = std::isfinite(result.squares) && tt > 0;
  return result;
}

// ---- the asymptote ----

struct asymptote {
  double gap = 0;
  double error = 0;
  bool flat = true;  // the samples leave more than half of what was unknown of it
  bool good = false;
};

double degrees_of_freedom(std::span<points const> probes) {
  std::size_t n = 0;
  for (points const& probe : probes) n += probe.size();
  return static_cast<double>(n) - 2.0 * static_cast<double>(probes.size()) - 1.0;
}

// The prior's density grows in proportion to c's place between the depth's end (0) and the least
// loss (1). Deeper down it is small, but not 0: exact samples of such a curve win against it.
//
// An even density would miss more than 1 in 10 rates that are 30% greater where c is 0.2 of the
// loss or more; a steeper one would take too many lesser ones for greater where c is 0.
double log_prior(double gap, double depth) {
  constexpr double lowest_place = 1e-3;
  double const place = std::max(lowest_place, 1 - gap / depth);
  double const beyond = gap > depth ? 8 + 2 * portable_log(gap / depth) : 0;
  return portable_log(place) - beyond;
}

// Of a density that grows from 0 in proportion: sqrt(1/18) of its range.
double prior_deviation(double depth) { return 0.23570226039551584 * depth; }

// Log of the weight of a gap, per unit of ln gap. The power of the residual is what is left of the
// normal likelihood when the lines and the noise are integrated out.
double log_weight(std::span<points const> probes, double gap, double depth, double freedom) {
  constexpr double rounding = 1e-30;  // squared; else exact samples would have weights without end
  double squares = rounding;
  for (points const& probe : probes) {
    line const fit = least_squares(probe, gap);
    if (!fit.good) return -std::numeric_limits<double>::infinity();
    squares += fit.squares;
  }
  return log_prior(gap, depth) + portable_log(gap) - freedom / 2 * portable_log(squares);
}

struct log_range {
  double low;
  double high;

  double at(std::size_t i, std::size_t n) const {
    return low + (high - low) * static_cast<double>(i) / static_cast<double>(n - 1);
  }
};
constexpr std::size_t grid_size = 48;
using grid = std::array<double, grid_size>;

// Narrows the range to the gaps that have weight; true as long as that takes away a good part.
bool narrow(log_range& range, grid const& weight) {
  constexpr double negligible = 9;  // e^-9
  double const most = *std::max_element(weight.begin(), weight.end());
  auto const heavy = [&](double w) { return w > most - negligible; };
  auto const first = std::find_if(weight.begin(), weight.end(), heavy) - weight.begin();
  auto const last = std::find_if(weight.rbegin(), weight.rend(), heavy) - weight.rbegin();
  auto const from = static_cast<std::size_t>(std::max<std::ptrdiff_t>(first - 1, 0));
  auto const to = grid_size - 1 - static_cast<std::size_t>(std::max<std::ptrdiff_t>(last - 1, 0));
  if (4 * (to - from) > 3 * (grid_size - 1)) return false;
  range = {range.at(from, grid_size), range.at(to, grid_size)};
  return range.high - range.low > 1e-13;
}

asymptote mean_over(log_range const& range, grid const& weight, double depth) {
  double const most = *std::max_element(weight.begin(), weight.end());
  double sum = 0;
  double mean = 0;
  double squares = 0;
  for (std::size_t i = 0; i < grid_size; ++i) {
    double const w = portable_exp(weight[i] - most);
    double const gap = portable_exp(range.at(i, grid_size));
    double const off = gap - mean;
    sum += w;
    mean += w / sum * off;  // West's update: no cancellation
    squares += w * off * (gap - mean);
  }
  double const error = std::sqrt(std::max(0.0, squares / sum));
  bool const flat = error > 0.5 * prior_deviation(depth);
  return {.gap = mean, .error = error, .flat = flat, .good = std::isfinite(error)};
}

// The mean of the asymptotes that fit, one for all probes.
asymptote find_asymptote(std::span<points const> probes, frame const& f) {
  constexpr int most_rounds = 40;
  // With less freedom than this the search would never narrow, even for exact samples.
  double const freedom = std::max(4.0, degrees_of_freedom(probes));
  log_range range{portable_log(least_gap), portable_log(2 * greatest_depth)};
  grid weight{};
  for (int round = 1;; ++round) {
    for (std::size_t i = 0; i < grid_size; ++i) {
      double const gap = portable_exp(range.at(i, grid_size));
      weight[i] = log_weight(probes, gap, f.depth, freedom);
    }
    if (!std::isfinite(*std::max_element(weight.begin(), weight.end()))) return {};
    log_range const evaluated = range;
    if (round == most_rounds || !narrow(range, weight)) {
      return mean_over(evaluated, weight, f.depth);
    }
  }
}

// ---- curves ----

// The variance of the noise in loss, over all probes: they have it in common.
double noise_variance(std::span<line const> lines, std::span<points const> probes) {
  double squares = 0;
  for (line const& l : lines) squares += l.squares;
  return squares / std::max(1.0, degrees_of_freedom(probes));
}

bool clear_fall(line const& fit, double variance, double standard_errors) {
  return fit.alpha * fit.alpha * fit.information > standard_errors * standard_errors * variance;
}

bool all_finite(convergence_curve const& curve) {
  return std::isfinite(curve.alpha) && std::isfinite(curve.beta) && std::isfinite(curve.c) &&
         std::isfinite(curve.alpha_error) && std::isfinite(curve.c_error) &&
         std::isfinite(curve.residual);
}

// What there is to say where there is no curve.
convergence_curve no_curve(std::span<loss_sample const> samples, double origin) {
  constexpr double greatest = std::numeric_limits<double>::max();
  convergence_curve result{.origin = std::isfinite(origin) ? origin : 0};
  for (loss_sample const& s : samples) {
    if (!finite(s)) continue;
    // In parts, and kept in range: a sum or difference of losses may overflow.
    auto const n = static_cast<double>(++result.samples);
    result.c = std::clamp(result.c * ((n - 1) / n) + s.loss / n, -greatest, greatest);
  }
  return result;
}

// In the caller's units again. Numbers that these units cannot hold are no curve.
convergence_curve curve_of(line const& fit, points const& probe, asymptote const& a, frame const& f,
                           double variance, std::span<loss_sample const> samples) {
  double const error = fit.information > 0 ? std::sqrt(variance / fit.information) : 0;
  auto const n = static_cast<double>(probe.size());
  convergence_curve const result{
      .alpha = fit.alpha / f.loss_unit / f.time_unit,
      .beta = fit.beta / f.loss_unit,
      .c = f.c(a.gap),
      .origin = f.origin,
      .alpha_error = error / f.loss_unit / f.time_unit,
      .c_error = a.error * f.loss_unit,
      .residual = std::sqrt(fit.squares / n) * f.loss_unit,
      .samples = probe.size(),
      .degenerate = a.flat || probe.size() < fewest_samples || !clear_fall(fit, variance, 3)};
  return all_finite(result) ? result : no_curve(samples, f.origin);
}

double median(std::vector<double>& values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Theil's incomplete method: the median of the slopes between samples half a probe apart.
// `information` is such that `variance`, the noise's, yields the error of that median.
line robust_line(points probe, double gap, double variance) {
  std::sort(probe.begin(), probe.end(), [](point const& a, point const& b) {
    return a.time < b.time || (a.time == b.time && a.loss < b.loss);
  });
  std::size_t const half = probe.size() / 2;
  std::vector<double> values;
  for (std::size_t i = 0; i + half < probe.size(); ++i) {
    point const& a = probe[i];
    point const& b = probe[i + half];
    if (!(b.time > a.time)) continue;
    values.push_back((1 / (b.loss + gap) - 1 / (a.loss + gap)) / (b.time - a.time));
  }
  if (values.size() < 2) return {};
  double const slope = median(values);
  for (double& v : values) v = std::abs(v - slope);
  // 1.4826 and 1.2533: from the median of the deviations to their standard deviation, and from
  // the error of a mean to that of a median, of normal values.
  double const error =
      1.4826 * 1.2533 * median(values) / std::sqrt(static_cast<double>(values.size()));
  line result{.alpha = std::max(0.0, slope)};
  values.clear();
  for (point const& p : probe) values.push_back(1 / (p.loss + gap) - result.alpha * p.time);
  result.beta = median(values);
  result.squares = squared_residuals(probe, gap, result.alpha, result.beta);
  result.information = variance / (error * error);
  result.good = std::isfinite(result.squares) && std::isnormal(result.information);
  return result;
}

// ---- the comparison ----

using two_points = std::array<points, 2>;
using two_lines = std::array<line, 2>;

two_lines lines_at(two_points const& probes, double gap) {
  return {least_squares(probes[0], gap), least_squares(probes[1], gap)};
}

bool good(two_lines const& lines) { return lines[0].good && lines[1].good; }

// One over the time from the origin to the loss `above` c, had the curve begun there.
double reward(convergence_curve const& curve, double above) {
  double const way = 1 / above - curve.beta;
  double const result = curve.alpha / way;
  return way > 0 && std::isfinite(result) ? result : 0;
}

// How far the log of the ratio moves with c, from half an error below it to half an error above.
double ratio_error(two_points const& probes, asymptote const& a) {
  double const step = std::min(a.error, a.gap) / 2;
  two_lines const high = lines_at(probes, a.gap - step);
  two_lines const low = lines_at(probes, a.gap + step);
  double const ratio = high[1].alpha / high[0].alpha / (low[1].alpha / low[0].alpha);
  return std::isnormal(ratio) && ratio > 0 ? std::abs(portable_log(ratio)) : 0;
}

std::optional<double> gap_to(std::optional<double> c, frame const& f) {
  if (!c || !std::isfinite(*c)) return std::nullopt;
  double const gap = (f.least - *c) / f.loss_unit;
  bool const below = gap >= least_gap && std::isfinite(gap);
  return below ? std::optional(gap) : std::nullopt;
}

probe_comparison no_comparison(std::span<loss_sample const> first,
                               std::span<loss_sample const> second, double origin) {
  return {.first = no_curve(first, origin), .second = no_curve(second, origin)};
}

// What is compared: two lines at one asymptote, in the units of a frame.
struct candidates {
  two_points probes;
  asymptote at;
  two_lines lines;
  double variance = 0;
  bool at_last_good = false;

  bool clear(std::size_t i, double errors) const { return clear_fall(lines[i], variance, errors); }
};

double all_squares(two_lines const& lines) { return lines[0].squares + lines[1].squares; }

// Least squares, at the asymptote of the samples. If they say little of it, then at the last good
// one, provided that it fits: its residual is within 3 standard errors of the other's.
candidates fit_both(two_points probes, frame const& f, std::optional<double> last_good_gap) {
  candidates result{.probes = std::move(probes), .at = {}, .lines = {}};
  result.at = find_asymptote(result.probes, f);
  if (result.at.good) result.lines = lines_at(result.probes, result.at.gap);
  if (last_good_gap && result.at.flat) {
    two_lines const lines = lines_at(result.probes, *last_good_gap);
    double const slack = 1 + 9 / std::max(1.0, degrees_of_freedom(result.probes));
    bool const fits = all_squares(lines) <= slack * all_squares(result.lines);
    if (good(lines) && (fits || !good(result.lines))) {
      result.at.gap = *last_good_gap;
      result.lines = lines;
      result.at_last_good = true;
    }
  }
  result.variance = noise_variance(result.lines, result.probes);
  return result;
}

// For falls that are unclear.
bool take_robust_slopes(candidates& c, double last_good_gap) {
  two_lines const lines{robust_line(c.probes[0], last_good_gap, c.variance),
                        robust_line(c.probes[1], last_good_gap, c.variance)};
  if (!good(lines)) return false;
  c.lines = lines;
  c.at.gap = last_good_gap;
  c.at.flat = c.at_last_good = true;
  return true;
}

probe_comparison in_units(candidates const& c, frame const& f, std::span<loss_sample const> first,
                          std::span<loss_sample const> second) {
  probe_comparison result{.first = curve_of(c.lines[0], c.probes[0], c.at, f, c.variance, first),
                          .second = curve_of(c.lines[1], c.probes[1], c.at, f, c.variance, second)};
  double const above = c.at.gap / 2 * f.loss_unit;
  result.first_reward = reward(result.first, above);
  result.second_reward = reward(result.second, above);
  result.difference = result.second.alpha - result.first.alpha;
  result.difference_error = std::hypot(result.first.alpha_error, result.second.alpha_error);
  result.ratio_error = ratio_error(c.probes, c.at);
  result.used_last_good_c = c.at_last_good;
  auto const fitted = [](convergence_curve const& x) { return x.alpha != 0 || x.beta != 0; };
  bool const fits =
      fitted(result.first) && fitted(result.second) && std::isfinite(result.difference_error);
  return fits ? result : no_comparison(first, second, f.origin);
}

bool clearly_greater(probe_comparison const& r) {
  return r.second.alpha > 1.05 * r.first.alpha && r.difference > 2 * r.difference_error;
}

}  // namespace

convergence_curve fit_convergence(std::span<loss_sample const> samples) {
  std::array const spans{samples};
  frame const f = frame_of(spans);
  if (!f.usable) return no_curve(samples, f.origin);
  std::array const probes{normalized(samples, f)};
  asymptote const at = find_asymptote(probes, f);
  std::array const lines{least_squares(probes[0], at.gap)};
  bool const fits = at.good && lines[0].good && probes[0].size() >= 3;
  if (!fits) return no_curve(samples, f.origin);
  return curve_of(lines[0], probes[0], at, f, noise_variance(lines, probes), samples);
}

probe_comparison compare_probes(std::span<loss_sample const> first,
                                std::span<loss_sample const> second,
                                std::optional<double> last_good_c) {
  std::array const spans{first, second};
  frame const f = frame_of(spans);
  if (!f.usable) return no_comparison(first, second, f.origin);
  auto const last_good_gap = gap_to(last_good_c, f);
  candidates fits = fit_both({normalized(first, f), normalized(second, f)}, f, last_good_gap);
  if (!good(fits.lines)) return no_comparison(first, second, f.origin);

  bool const enough = std::min(fits.probes[0].size(), fits.probes[1].size()) >= fewest_samples;
  bool const first_falls = fits.clear(0, 3);
  bool const both_fall = first_falls && fits.clear(1, 3);
  bool const second_surely_falls = fits.clear(1, 5);
  bool const robust = !both_fall && last_good_gap && take_robust_slopes(fits, *last_good_gap);
  probe_comparison result = in_units(fits, f, first, second);
  if (!enough || !(both_fall || robust)) return result;
  if (clearly_greater(result) && (both_fall || second_surely_falls)) {
    result.verdict = probe_verdict::faster;
  } else if (first_falls) {
    result.verdict = probe_verdict::slower_or_equal;
  }
  return result;
}

}  // namespace rubato
