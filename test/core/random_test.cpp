// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/random.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

using rubato::random_stream;
using rubato::detail::mix64;
using rubato::detail::portable_exp;
using rubato::detail::portable_log;
using rubato::detail::splitmix64;
using rubato::detail::xoshiro256starstar;

static_assert(std::uniform_random_bit_generator<random_stream>);
static_assert(!std::is_convertible_v<std::uint64_t, random_stream>);

namespace {

template <class Draw>
std::array<double, 4> first_four(Draw draw) {
  random_stream random(7, 5);
  return {draw(random), draw(random), draw(random), draw(random)};
}

struct moments {
  double mean;
  double variance;
};

template <class Draw>
moments moments_of(Draw draw) {
  constexpr int n = 400'000;
  random_stream random(11);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < n; ++i) {
    double const x = draw(random);
    sum += x;
    squares += x * x;
  }
  double const mean = sum / n;
  return {mean, squares / n - mean * mean};
}

double relative_error(double value, long double exact) {
  return static_cast<double>(std::fabs((value - exact) / exact));
}

}  // namespace

TEST_CASE("splitmix64 gives the published values", "[core][random]") {
  splitmix64 next{1477776061723855037u};
  for (std::uint64_t const expected :
       {1985237415132408290u, 2979275885539914483u, 13511426838097143398u, 8488337342461049707u,
        15141737807933549159u}) {
    CHECK(next() == expected);
  }
}

TEST_CASE("xoshiro256** gives the published values", "[core][random]") {
  xoshiro256starstar next{{1, 2, 3, 4}};
  for (std::uint64_t const expected :
       {std::uint64_t{11520}, std::uint64_t{0}, std::uint64_t{1509978240}}) {
    CHECK(next() == expected);
  }
  for (std::uint64_t const expected :
       {1215971899390074240u, 1216172134540287360u, 607988272756665600u, 16172922978634559625u,
        8476171486693032832u, 10595114339597558777u, 2904607092377533576u}) {
    CHECK(next() == expected);
  }
}

TEST_CASE("xoshiro256** seeded through splitmix64 gives the published values", "[core][random]") {
  splitmix64 seed{0};
  xoshiro256starstar next{{seed(), seed(), seed(), seed()}};
  for (std::uint64_t const expected :
       {0x99ec5f36cb75f2b4u, 0xbf6e1f784956452au, 0x1a5f849d4933e6e0u, 0x6aa594f1262d2d2cu}) {
    CHECK(next() == expected);
  }
}

TEST_CASE("a random_stream never changes", "[core][random]") {
  random_stream random(2024, 3, 1);
  for (std::uint64_t const expected :
       {0xc25ad9a33242f2ceu, 0x079c255b6d10eedcu, 0x583455b7ca60315bu, 0xc1725ca18d9ebb3au}) {
    CHECK(random() == expected);
  }
}

TEST_CASE("the distributions give the same bits under every compiler", "[core][random]") {
  CHECK(first_four([](auto& r) { return r.uniform(); }) ==
        std::array{0x1.6c08c4d08c1ecp-2, 0x1.d23e8d15401ffp-1, 0x1.0b7a4d6709884p-3,
                   0x1.5c4ec5c8fe949p-1});
  CHECK(first_four([](auto& r) { return r.normal(); }) ==
        std::array{-0x1.fa0ef2b747611p-3, -0x1.97507b789ac0bp-1, 0x1.5d3d3b31bfcc7p-1,
                   0x1.5a3ce70ade44dp+0});
  CHECK(first_four([](auto& r) { return r.exponential(); }) ==
        std::array{0x1.c1d3a1884786cp-2, 0x1.351f04e9fb808p+1, 0x1.1ea1c45500faap-3,
                   0x1.23ed12f2b0e75p+0});
  CHECK(first_four([](auto& r) { return static_cast<double>(r.below(10)); }) ==
        std::array{3.0, 9.0, 1.0, 6.0});

  random_stream random(9);
  std::uint64_t digest = 0;
  for (int i = 0; i < 100'000; ++i) {
    double const draws[] = {random.normal(), random.exponential(),
                            portable_exp(1400 * random.uniform() - 700),
                            portable_log(std::bit_cast<double>(random() >> 2)), random.uniform()};
    for (double const x : draws) digest = mix64(digest ^ std::bit_cast<std::uint64_t>(x));
    digest ^= random.below(1'000'003);
  }
  CHECK(digest == 0x891565f9ccc45d4cu);
}

TEST_CASE("every (seed, stream, incarnation) has a stream of its own", "[core][random]") {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t stream = 0; stream < 20; ++stream) {
      for (std::uint64_t life = 0; life < 20; ++life) {
        random_stream random(seed, stream, life);
        first.insert(random());
      }
    }
  }
  CHECK(first.size() == 8000);
  CHECK(random_stream(4, 2, 1) == random_stream(4, 2, 1));
  CHECK(random_stream(1) == random_stream(1, 0, 0));
}

TEST_CASE("neighbouring streams are uncorrelated", "[core][random]") {
  constexpr int n = 100'000;
  random_stream a(1, 0);
  random_stream b(1, 1);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += a.normal() * b.normal();
  CHECK(std::fabs(sum / n) < 4.0 / std::sqrt(n));
}

TEST_CASE("the distributions have their moments", "[core][random]") {
  moments const uniform = moments_of([](auto& r) { return r.uniform(); });
  CHECK(uniform.mean == Approx(0.5).margin(0.002));
  CHECK(uniform.variance == Approx(1.0 / 12).margin(0.001));
  moments const normal = moments_of([](auto& r) { return r.normal(); });
  CHECK(normal.mean == Approx(0).margin(0.006));
  CHECK(normal.variance == Approx(1).margin(0.01));
  moments const exponential = moments_of([](auto& r) { return r.exponential(); });
  CHECK(exponential.mean == Approx(1).margin(0.006));
  CHECK(exponential.variance == Approx(1).margin(0.02));
}

TEST_CASE("uniform stays below 1 and exponential finite", "[core][random]") {
  random_stream random(3);
  for (int i = 0; i < 100'000; ++i) {
    double const u = random.uniform();
    CHECK_FALSE((u < 0 || u >= 1));
    double const e = random.exponential();
    CHECK_FALSE((e < 0 || !std::isfinite(e)));
  }
}

TEST_CASE("below is unbiased, also for ranges that nearly fill a word", "[core][random]") {
  random_stream random(5);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts[random.below(7)];
  for (int const count : counts) CHECK(std::abs(count - 10'000) < 400);

  // A plain multiply-shift would give the multiples of 3, a third of this range, half of all draws.
  constexpr std::uint64_t n = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  int low = 0;
  for (int i = 0; i < 30'000; ++i) {
    std::uint64_t const x = random.below(n);
    REQUIRE(x < n);
    low += x % 3 == 0 ? 1 : 0;
  }
  CHECK(std::abs(low - 10'000) < 400);
  CHECK(random.below(1) == 0);
}

TEST_CASE("chance takes one word whatever the probability", "[core][random]") {
  random_stream reference(8);
  reference();
  for (double const p : {0.0, 0.3, 1.0, 2.0, -1.0}) {
    random_stream random(8);
    bool const hit = random.chance(p);
    CHECK(random == reference);
    if (p <= 0) CHECK_FALSE(hit);
    if (p >= 1) CHECK(hit);
  }
  int hits = 0;
  random_stream random(8);
  for (int i = 0; i < 100'000; ++i) hits += random.chance(0.3) ? 1 : 0;
  CHECK(std::abs(hits - 30'000) < 800);
}

TEST_CASE("shuffle permutes, every order alike", "[core][random]") {
  random_stream random(1);
  std::vector<int> ten(10);
  std::iota(ten.begin(), ten.end(), 0);
  random.shuffle(std::span(ten));
  CHECK(ten == std::vector{5, 4, 9, 1, 6, 2, 7, 0, 8, 3});

  std::array<int, 6> orders{};
  for (int i = 0; i < 60'000; ++i) {
    std::array<int, 3> abc{0, 1, 2};
    random.shuffle(std::span(abc));
    ++orders[static_cast<std::size_t>(abc[0] * 2 + (abc[1] > abc[2] ? 1 : 0))];
  }
  for (int const count : orders) CHECK(std::abs(count - 10'000) < 400);

  std::vector<int> none;
  random.shuffle(std::span(none));
}

TEST_CASE("portable_log and portable_exp are accurate over the whole range", "[core][math]") {
  random_stream random(1);
  double log_error = 0;
  double exp_error = 0;
  for (int i = 0; i < 500'000; ++i) {
    double const x = std::bit_cast<double>(random() >> 1);
    double const near_one = 0.5 + 1.5 * random.uniform();
    for (double const v : {x, near_one, 1 + (near_one - 1) * 1e-9}) {
      if (!std::isfinite(v) || v == 1) continue;
      log_error = std::max(log_error,
                           relative_error(portable_log(v), std::log(static_cast<long double>(v))));
    }
    for (double const v : {1416 * random.uniform() - 708, 2 * random.uniform() - 1}) {
      exp_error = std::max(exp_error,
                           relative_error(portable_exp(v), std::exp(static_cast<long double>(v))));
    }
  }
  CHECK(log_error < 1e-15);
  CHECK(exp_error < 1e-15);
}

TEST_CASE("portable_log and portable_exp behave as std's at the edges", "[core][math]") {
  using limits = std::numeric_limits<double>;
  constexpr double inf = limits::infinity();
  CHECK(portable_log(1.0) == 0.0);
  CHECK(portable_log(0.0) == -inf);
  CHECK(portable_log(-0.0) == -inf);
  CHECK(portable_log(inf) == inf);
  CHECK(std::isnan(portable_log(-1.0)));
  CHECK(std::isnan(portable_log(-inf)));
  CHECK(std::isnan(portable_log(limits::quiet_NaN())));
  CHECK(portable_log(limits::denorm_min()) == Approx(std::log(limits::denorm_min())));
  CHECK(portable_exp(0.0) == 1.0);
  CHECK(portable_exp(-0.0) == 1.0);
  CHECK(portable_exp(inf) == inf);
  CHECK(portable_exp(-inf) == 0.0);
  CHECK(std::isnan(portable_exp(limits::quiet_NaN())));
  CHECK(portable_exp(710) == inf);
  CHECK(portable_exp(709.78) < inf);
  CHECK(portable_exp(-746) == 0.0);
  CHECK(portable_exp(-740) == std::exp(-740.0));  // subnormal
  static_assert(portable_log(1.0) == 0.0 && portable_exp(0.0) == 1.0);
}
