// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/convergence_fit.hpp>

#include <rubato/core/random.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "seeds.hpp"

using namespace rubato;

namespace {

using samples = std::vector<loss_sample>;

struct probes {
  samples first;
  samples second;
};

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

// u grows at alpha during the first probe, at ratio * alpha during the second, from where the first
// ended. Each lasts 1 s, with its samples in the middle of `count` equal parts.
struct truth {
  double u = 1;  // 1/(l - c) at the start
  double alpha = 0.5;
  double ratio = 1;
  double c = 0;

  double loss(double t) const {
    double const second = std::max(0.0, t - 1);
    return c + 1 / (u + alpha * (t - second + ratio * second));
  }
};

struct noise {
  double level = 0;
  bool of_mean = false;  // relative to the mean loss of both probes, else to the loss at the moment
};

probes simulate(truth const& curve, std::size_t count, noise disturbance, random_stream& random) {
  std::array<samples, 2> result;
  double mean = 0;
  for (std::size_t i = 0; i < 2 * count; ++i) {
    double const t = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    double const loss = curve.loss(t);
    result[i / count].push_back({t, loss});
    mean += loss / static_cast<double>(2 * count);
  }
  for (samples& probe : result) {
    for (loss_sample& s : probe) {
      double const unit = disturbance.of_mean ? mean : s.loss;
      s.loss += disturbance.level * unit * random.normal();
    }
  }
  return {std::move(result[0]), std::move(result[1])};
}

probes exact(truth const& curve, std::size_t count = 9) {
  random_stream random(1);
  return simulate(curve, count, {}, random);
}

samples noise_only(std::size_t count, double start, double level, double slope,
                   random_stream& random) {
  samples result;
  for (std::size_t i = 0; i < count; ++i) {
    double const t = static_cast<double>(i) / static_cast<double>(count);
    result.push_back({start + t, level + slope * (start + t) + 0.01 * random.normal()});
  }
  return result;
}

bool finite(convergence_curve const& f) {
  return std::isfinite(f.alpha) && std::isfinite(f.beta) && std::isfinite(f.c) &&
         std::isfinite(f.origin) && std::isfinite(f.alpha_error) && std::isfinite(f.c_error) &&
         std::isfinite(f.residual) && f.alpha >= 0;
}

bool finite(probe_comparison const& r) {
  return finite(r.first) && finite(r.second) && std::isfinite(r.first_reward) &&
         std::isfinite(r.second_reward) && std::isfinite(r.difference) &&
         std::isfinite(r.difference_error) && std::isfinite(r.ratio_error) && r.first_reward >= 0 &&
         r.second_reward >= 0;
}

samples transformed(samples from, double time_unit, double time_shift, double loss_unit,
                    double loss_shift = 0) {
  for (loss_sample& s : from) {
    s = {s.seconds * time_unit + time_shift, s.loss * loss_unit + loss_shift};
  }
  return from;
}

// ---- rates of acceptance ----

struct setting {
  std::size_t count;
  double fall;   // of the loss, per probe, at least
  double c;      // the loss is 1 at the start
  bool of_mean;  // see noise
  double ratio;
};

// The slowest curve whose loss falls far enough in both probes. If c is too high for that at any
// rate: one whose loss does so in the first, which is harder than the rules ask for.
truth slowest(setting const& s) {
  truth best{.u = 1 / (1 - s.c), .alpha = 0, .ratio = s.ratio, .c = s.c};
  for (bool const both : {true, false}) {
    for (best.alpha = 0.01; best.alpha < 40; best.alpha *= 1.01) {
      bool const first_falls = best.loss(1) <= (1 - s.fall) * best.loss(0);
      bool const second_falls = best.loss(2) <= (1 - s.fall) * best.loss(1);
      if (first_falls && (second_falls || !both)) return best;
    }
  }
  FAIL("no such curve");
  return best;
}

struct tally {
  double faster = 0;
  double undecided = 0;
};

tally rate(setting const& s, std::uint64_t runs, bool knows_c = false) {
  truth const curve = slowest(s);
  tally result;
  for (std::uint64_t i = 0; i < runs; ++i) {
    random_stream random(test::first_seed() + i);
    probes const p = simulate(curve, s.count, {.level = 0.01, .of_mean = s.of_mean}, random);
    auto const r = compare_probes(p.first, p.second, knows_c ? std::optional(s.c) : std::nullopt);
    REQUIRE(finite(r));
    result.faster += r.verdict == probe_verdict::faster ? 1 : 0;
    result.undecided += r.verdict == probe_verdict::undecided ? 1 : 0;
  }
  auto const n = static_cast<double>(runs);
  return {result.faster / n, result.undecided / n};
}

std::string text(setting const& s, tally const& t) {
  std::ostringstream out;
  out << s.count << " samples, fall " << s.fall << ", c " << s.c
      << (s.of_mean ? ", noise of the mean loss" : ", noise of the loss") << ", ratio " << s.ratio
      << ": faster " << t.faster << ", undecided " << t.undecided;
  return out.str();
}

std::vector<setting> settings(double ratio) {
  std::vector<setting> result;
  for (bool const of_mean : {false, true}) {
    for (double const c : {0.0, 0.1, 0.2}) result.push_back({9, 0.25, c, of_mean, ratio});
    result.push_back({9, 0.4, 0.0, of_mean, ratio});
    for (double const c : {0.0, 0.15, 0.3, 0.4}) result.push_back({36, 0.12, c, of_mean, ratio});
    result.push_back({36, 0.2, 0.0, of_mean, ratio});
    for (double const c : {0.2, 0.3}) result.push_back({36, 0.2, c, of_mean, ratio});
  }
  return result;
}

// A rate needs many runs; with few (one seed, a sanitizer's build) only finiteness is checked.
bool enough(std::uint64_t runs) { return runs >= 100; }

}  // namespace

TEST_CASE("fit: exact samples give their curve", "[protocol][fit]") {
  for (double const alpha : {1e-6, 0.02, 1.0, 300.0}) {
    for (double const start : {1e-3, 1.0, 1e4}) {  // loss above c
      for (double const c : {0.0, 0.3, 2.5}) {
        double const beta = 1 / start;
        double const length = 2 * beta / alpha;  // the loss above c falls to a third
        samples s;
        for (int i = 0; i < 9; ++i) {
          double const t = length * i / 8;
          s.push_back({t, 1 / (alpha * t + beta) + c * start});
        }
        INFO("alpha " << alpha << ", start " << start << ", c " << c * start);
        convergence_curve const f = fit_convergence(s);
        CHECK(f.alpha == Approx(alpha).epsilon(1e-7));
        CHECK(f.beta == Approx(beta).epsilon(1e-7));
        CHECK(f.c == Approx(c * start).epsilon(1e-7).margin(1e-7 * start));
        CHECK(f.residual < 1e-9 * start);
        CHECK_FALSE(f.degenerate);
        CHECK(f.samples == 9);
        CHECK(f.loss_at(length / 2) == Approx(1 / (alpha * length / 2 + beta) + c * start));
      }
    }
  }
}

TEST_CASE("fit: exact samples of deep falls and of negative losses", "[protocol][fit]") {
  for (double const c : {-40.0, -1.0, 0.0, 0.1}) {
    samples s;
    for (int i = 0; i < 20; ++i) s.push_back({0.5 * i, 1 / (2.0 * i + 0.05) + c});
    INFO("c " << c);
    convergence_curve const f = fit_convergence(s);
    CHECK(f.alpha == Approx(4).epsilon(1e-5));
    CHECK(f.beta == Approx(0.05).epsilon(1e-5));
    CHECK(f.c == Approx(c).epsilon(1e-5).margin(1e-5));
  }
}

TEST_CASE("fit: two exact probes give both curves, with one c and one origin", "[protocol][fit]") {
  for (double const ratio : {0.3, 0.7, 1.0, 1.3, 4.0}) {
    truth const curve{.u = 1.25, .alpha = 0.75, .ratio = ratio, .c = 0.2};
    probes const p = exact(curve);
    probe_comparison const r = compare_probes(p.first, p.second);
    INFO("ratio " << ratio);
    double const origin = p.first.front().seconds;
    CHECK(r.first.origin == origin);
    CHECK(r.second.origin == origin);
    CHECK(r.first.alpha == Approx(0.75).epsilon(1e-6));
    CHECK(r.second.alpha == Approx(0.75 * ratio).epsilon(1e-6));
    CHECK(r.first.beta == Approx(1.25 + 0.75 * origin).epsilon(1e-6));
    CHECK(r.second.beta == Approx(2 - 0.75 * ratio * (1 - origin)).epsilon(1e-6));
    CHECK(r.first.c == Approx(0.2).epsilon(1e-6));
    CHECK(r.second.c == r.first.c);
    CHECK(r.difference == Approx(0.75 * (ratio - 1)).margin(1e-6));
    CHECK(r.verdict == (ratio > 1.05 ? probe_verdict::faster : probe_verdict::slower_or_equal));
  }
}

TEST_CASE("fit: rewards are those of a common loss", "[protocol][fit]") {
  probes const p = exact({.u = 1.25, .alpha = 0.75, .ratio = 1.3, .c = 0.2});
  probe_comparison const r = compare_probes(p.first, p.second);
  double const common = 0.2 + (p.second.back().loss - 0.2) / 2;
  for (auto const& [curve, reward] :
       {std::pair(r.first, r.first_reward), std::pair(r.second, r.second_reward)}) {
    REQUIRE(reward > 0);
    CHECK(curve.loss_at(curve.origin + 1 / reward) == Approx(common).epsilon(1e-6));
  }
  CHECK(r.second_reward > r.first_reward);
}

TEST_CASE("fit: flat, rising and noisy samples are never faster", "[protocol][fit]") {
  for (std::uint64_t i = 0; i < test::seed_count(400); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    for (std::size_t const count : {9u, 36u}) {
      for (double const level : {0.0, 1.0, -3.0}) {
        for (double const slope : {0.0, 0.005, 0.3}) {
          random_stream random(seed);
          auto const first = noise_only(count, 0, level, slope, random);
          auto const second = noise_only(count, 1, level, slope, random);
          INFO(count << " samples, level " << level << ", slope " << slope);
          for (auto const last_good : {std::optional<double>(), std::optional(level - 0.5)}) {
            probe_comparison const r = compare_probes(first, second, last_good);
            REQUIRE(finite(r));
            REQUIRE(r.verdict != probe_verdict::faster);
          }
        }
      }
    }
  }
}

TEST_CASE("fit: one loss only is nothing to fit", "[protocol][fit]") {
  for (double const level : {0.0, 0.7, -1e12, std::numeric_limits<double>::max()}) {
    samples const flat{{0, level}, {1, level}, {2, level}, {3, level}, {4, level}};
    convergence_curve const f = fit_convergence(flat);
    CHECK(finite(f));
    CHECK(f.degenerate);
    CHECK(f.alpha == 0);
    CHECK(f.c == Approx(level));
    CHECK(f.samples == 5);
    auto const r = compare_probes(flat, flat, level - 1);
    CHECK(finite(r));
    CHECK(r.verdict == probe_verdict::undecided);
  }
}

TEST_CASE("fit: few samples are undecided, whatever they are", "[protocol][fit]") {
  probes const p = exact({.alpha = 1, .ratio = 2});
  for (std::size_t n = 0; n < 4; ++n) {
    for (std::size_t m = 0; m <= p.second.size(); ++m) {
      std::span const first = std::span(p.first).first(n);
      std::span const second = std::span(p.second).first(m);
      INFO(n << " and " << m << " samples");
      for (auto const& r : {compare_probes(first, second), compare_probes(second, first),
                            compare_probes(first, second, -0.1)}) {
        CHECK(finite(r));
        CHECK(r.verdict == probe_verdict::undecided);
      }
    }
    convergence_curve const f = fit_convergence(std::span(p.first).first(n));
    CHECK(finite(f));
    CHECK(f.degenerate);
    CHECK(f.samples == n);
  }
}

TEST_CASE("fit: samples that are not finite are left out", "[protocol][fit]") {
  probes p = exact({.u = 1.25, .alpha = 0.75, .ratio = 1.3, .c = 0.2});
  probe_comparison const clean = compare_probes(p.first, p.second);
  for (double const odd : {infinity, -infinity, not_a_number}) {
    p.first.insert(p.first.begin(), {odd, 0.5});
    p.first.push_back({0.5, odd});
    p.second.push_back({odd, odd});
  }
  probe_comparison const r = compare_probes(p.first, p.second);
  CHECK(r.verdict == clean.verdict);
  CHECK(r.first.alpha == clean.first.alpha);
  CHECK(r.second.alpha == clean.second.alpha);
  CHECK(r.first.samples == 9);
  for (double const odd : {infinity, -infinity, not_a_number}) {
    samples const all_odd(9, {odd, odd});
    CHECK(finite(fit_convergence(all_odd)));
    CHECK(finite(compare_probes(all_odd, all_odd, odd)));
    CHECK(finite(compare_probes(p.first, p.second, odd)));
    CHECK(compare_probes(p.first, all_odd).verdict == probe_verdict::undecided);
  }
}

TEST_CASE("fit: times may repeat, and samples come in any order", "[protocol][fit]") {
  probes p = exact({.u = 1.25, .alpha = 0.75, .ratio = 1.3, .c = 0.2});
  p.first.insert(p.first.end(), p.first.begin(), p.first.begin() + 4);
  random_stream random(3);
  random.shuffle(std::span(p.first));
  random.shuffle(std::span(p.second));
  probe_comparison const r = compare_probes(p.first, p.second);
  CHECK(r.verdict == probe_verdict::faster);
  CHECK(r.first.alpha == Approx(0.75).epsilon(1e-6));

  samples one_moment;
  for (int i = 0; i < 9; ++i) one_moment.push_back({1.0, 1.0 - 0.05 * i});
  CHECK(finite(fit_convergence(one_moment)));
  for (auto const& odd : {compare_probes(one_moment, p.second), compare_probes(p.first, one_moment),
                          compare_probes(one_moment, one_moment, 0.1)}) {
    CHECK(finite(odd));
    CHECK(odd.verdict == probe_verdict::undecided);
  }
}

TEST_CASE("fit: huge offsets and numbers at the ends of double stay finite", "[protocol][fit]") {
  random_stream random(5);
  truth const curve{.alpha = 0.5, .ratio = 1.3, .c = 0.1};
  probes const p = simulate(curve, 9, {.level = 0.01}, random);
  for (double const time_unit : {1e-300, 1e-9, 1.0, 1e9, 1e300}) {
    for (double const time_shift : {0.0, 1e9, -1e300}) {
      for (double const loss_unit : {1e-310, 1e-150, 1.0, 1e150, 1e308}) {
        for (double const loss_shift : {0.0, 1e6, -1e6, 1e308}) {
          auto const first = transformed(p.first, time_unit, time_shift, loss_unit, loss_shift);
          auto const second = transformed(p.second, time_unit, time_shift, loss_unit, loss_shift);
          INFO(time_unit << ' ' << time_shift << ' ' << loss_unit << ' ' << loss_shift);
          CHECK(finite(fit_convergence(first)));
          CHECK(finite(compare_probes(first, second)));
          CHECK(finite(compare_probes(first, second, 0.05 * loss_unit + loss_shift)));
        }
      }
    }
  }
}

TEST_CASE("fit: any numbers at all give finite results", "[protocol][fit]") {
  for (std::uint64_t i = 0; i < test::seed_count(500); ++i) {
    random_stream random(test::first_seed() + i);
    auto const any = [&] {
      double const magnitude =
          std::pow(10.0, random.chance(0.5) ? 0 : 600 * random.uniform() - 300);
      return magnitude * (random.chance(0.3) ? std::round(random.normal()) : random.normal());
    };
    probes p;
    for (samples* const probe : {&p.first, &p.second}) {
      for (std::uint64_t n = random.below(14); n > 0; --n) probe->push_back({any(), any()});
    }
    INFO(test::repeat_by(test::first_seed() + i));
    REQUIRE(finite(fit_convergence(p.first)));
    REQUIRE(finite(compare_probes(p.first, p.second)));
    REQUIRE(finite(compare_probes(p.first, p.second, any())));
  }
}

TEST_CASE("fit: a shift of time and the units of time and loss do not matter", "[protocol][fit]") {
  for (std::uint64_t i = 0; i < test::seed_count(20); ++i) {
    random_stream random(test::first_seed() + i);
    truth const curve{.alpha = 0.5, .ratio = 1.3, .c = 0.1};
    probes const p = simulate(curve, 9, {.level = 0.01}, random);
    probe_comparison const r = compare_probes(p.first, p.second);
    INFO(test::repeat_by(test::first_seed() + i));
    for (double const time_unit : {0.001, 1.0, 4096.0}) {
      for (double const shift : {0.0, -1e3, 1e6}) {
        for (double const loss_unit : {1e-9, 1.0, 4e12}) {
          auto const first = transformed(p.first, time_unit, shift * time_unit, loss_unit);
          auto const second = transformed(p.second, time_unit, shift * time_unit, loss_unit);
          probe_comparison const same = compare_probes(first, second);
          auto const rate = Approx(r.second.alpha / time_unit / loss_unit).epsilon(1e-5);
          CHECK(same.verdict == r.verdict);
          CHECK(same.second.alpha == rate);
          CHECK(same.second.beta == Approx(r.second.beta / loss_unit).epsilon(1e-5));
          CHECK(same.second.c == Approx(r.second.c * loss_unit).epsilon(1e-5));
          CHECK(same.first_reward == Approx(r.first_reward / time_unit).epsilon(1e-5));
        }
      }
    }
  }
}

TEST_CASE("fit: an unclear fall is decided at the last good c, or not at all", "[protocol][fit]") {
  random_stream random(9);
  samples const flat = noise_only(9, 0, 1, 0, random);
  samples falling;
  for (int i = 0; i < 9; ++i) {
    double const t = 1 + i / 8.0;
    falling.push_back({t, (0.2 + 1 / (1.25 + 0.75 * (t - 1))) * (1 + 0.01 * random.normal())});
  }
  CHECK(compare_probes(flat, falling).verdict == probe_verdict::undecided);
  probe_comparison const r = compare_probes(flat, falling, 0.2);
  CHECK(r.verdict == probe_verdict::faster);
  CHECK(r.used_last_good_c);
  CHECK(r.first.c == Approx(0.2));
  CHECK(r.first.degenerate);

  samples later = transformed(flat, 1, 2, 1, -0.4);  // the search has gone on: flat once more
  CHECK(compare_probes(falling, later).verdict == probe_verdict::undecided);
  CHECK(compare_probes(falling, later, 0.2).verdict == probe_verdict::slower_or_equal);
  CHECK(compare_probes(flat, falling, 0.9).verdict == probe_verdict::undecided);  // above a loss
}

TEST_CASE("fit: a last good c that does not fit is not used", "[protocol][fit]") {
  random_stream random(2);
  truth const curve{.alpha = 0.14, .ratio = 1.3, .c = 0};
  probes const p = simulate(curve, 36, {.level = 0.01}, random);
  double least = 1;
  for (loss_sample const& s : p.second) least = std::min(least, s.loss);
  CHECK(compare_probes(p.first, p.second).first.degenerate);
  CHECK(compare_probes(p.first, p.second, 0.0).used_last_good_c);
  CHECK_FALSE(compare_probes(p.first, p.second, least - 1e-3).used_last_good_c);
  CHECK_FALSE(compare_probes(p.first, p.second, least + 1e-3).used_last_good_c);
}

TEST_CASE("fit: accepts a rate that is 30% greater", "[protocol][fit]") {
  std::uint64_t const runs = test::seed_count(400);
  for (setting const& s : settings(1.3)) {
    tally const t = rate(s, runs);
    INFO(text(s, t));
    CHECK((!enough(runs) || t.faster >= 0.9));
  }
}

TEST_CASE("fit: seldom accepts a rate that is 30% less", "[protocol][fit]") {
  std::uint64_t const runs = test::seed_count(400);
  for (setting const& s : settings(0.7)) {
    tally const t = rate(s, runs);
    INFO(text(s, t));
    CHECK((!enough(runs) || t.faster <= 0.02));
  }
}

// No test can do better on all curves: one with equal rates and a low c and one with a 30% greater
// rate and a high c differ by about one standard error. What is seen here is the price of finding
// the latter in 9 cases of 10.
TEST_CASE("fit: how often equal rates are taken for faster", "[protocol][fit]") {
  std::uint64_t const runs = test::seed_count(200);
  for (setting const& s : settings(1.0)) {
    tally const t = rate(s, runs);
    INFO(text(s, t));
    double const most = s.c == 0 ? 0.9 : 0.6;
    CHECK((!enough(runs) || t.faster <= most));
  }
}

TEST_CASE("fit: with a last good c a flat profile decides well", "[protocol][fit]") {
  std::uint64_t const runs = test::seed_count(200);
  for (bool const of_mean : {false, true}) {
    for (auto const [ratio, least, most] :
         {std::array{1.3, 0.9, 1.0}, std::array{1.0, 0.0, 0.05}}) {
      setting const s{36, 0.12, 0.0, of_mean, ratio};
      tally const t = rate(s, runs, true);
      INFO(text(s, t));
      CHECK((!enough(runs) || (t.faster >= least && t.faster <= most)));
    }
  }
}
