// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/als.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/data/ratings.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/streaming_diloco.hpp>

#include "algorithm/algorithms.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rd = rubato::data;
using Catch::Contains;
using doubles = std::vector<double>;

namespace {

rd::ratings some_ratings(double noise = 0.1) {
  return rd::make_synthetic_ratings({.users = 40, .items = 23, .factors = 2, .per_user = 9, .noise = noise});
}

struct factors {
  doubles users, items;
  friend bool operator==(factors const&, factors const&) = default;
};

template <class Transport = rb::simulated>
factors trained(rd::ratings const& all, ra::als_options const& o,
                Transport const& where = rb::simulated{.workers = 7, .servers = 2}) {
  rb::engine engine{where};
  auto t = ra::make_als_task<double>(all, o.factors);
  ra::als(t, all, o);
  engine.submit(t).wait();
  return {t.template parameters<0>(), t.template parameters<1>()};
}

double objective(rd::ratings const& all, factors const& f, double l2) {
  return ra::als_objective(all, std::span<double const>(f.users), std::span<double const>(f.items), l2);
}

/// Solves a x = b for a symmetric, positive definite a, row after row, by elimination.
doubles eliminated(doubles a, doubles b) {
  std::size_t const k = b.size();
  for (std::size_t p = 0; p < k; ++p)
    for (std::size_t r = p + 1; r < k; ++r) {
      double const m = a[r * k + p] / a[p * k + p];
      for (std::size_t c = p; c < k; ++c) a[r * k + c] -= m * a[p * k + c];
      b[r] -= m * b[p];
    }
  for (std::size_t p = k; p-- > 0;) {
    for (std::size_t c = p + 1; c < k; ++c) b[p] -= a[p * k + c] * b[c];
    b[p] /= a[p * k + p];
  }
  return b;
}

/// One side's factors from the other's; `of(line)` has its ratings.
template <class Of>
doubles half_by_hand(std::size_t lines, std::size_t k, double l2, doubles const& other, Of of) {
  doubles out(lines * k);
  for (std::size_t line = 0; line < lines; ++line) {
    doubles a(k * k), b(k);
    auto const rated = of(line);
    for (auto const& e : rated)
      for (std::size_t r = 0; r < k; ++r) {
        double const y = other[e.other * k + r];
        b[r] += static_cast<double>(e.value) * y;
        for (std::size_t c = 0; c < k; ++c) a[r * k + c] += y * other[e.other * k + c];
      }
    if (rated.empty()) continue;
    for (std::size_t r = 0; r < k; ++r) a[r * k + r] += l2 * static_cast<double>(rated.size());
    doubles const x = eliminated(a, b);
    std::copy(x.begin(), x.end(), out.begin() + static_cast<std::ptrdiff_t>(line * k));
  }
  return out;
}

factors by_hand(rd::ratings const& all, ra::als_options const& o) {
  factors f{{}, doubles(all.items() * o.factors)};
  for (std::size_t item = 0; item < all.items(); ++item) {
    rb::random_stream random(o.seed, item);
    for (std::size_t k = 0; k < o.factors; ++k) f.items[item * o.factors + k] = random.normal();
  }
  for (std::int64_t sweep = 0; sweep < o.sweeps; ++sweep) {
    f.users = half_by_hand(all.users(), o.factors, o.l2, f.items, [&](auto u) { return all.of_user(u); });
    f.items = half_by_hand(all.items(), o.factors, o.l2, f.users, [&](auto i) { return all.of_item(i); });
  }
  return f;
}

}  // namespace

TEST_CASE("als: does what a loop does that solves line after line", "[algorithm]") {
  auto const all = some_ratings();
  ra::als_options const o{.factors = 3, .sweeps = 4, .users = {.workers = 3}, .items = {.workers = 2}};
  auto const got = trained(all, o);
  auto const expected = by_hand(all, o);
  CHECK(rb::test::apart(got.users, expected.users) < 1e-9);
  CHECK(rb::test::apart(got.items, expected.items) < 1e-9);
}

TEST_CASE("als: the same, bit for bit, with any number of workers, blocks, protocol and transport (FLEX-1)",
          "[algorithm]") {
  auto const all = some_ratings();
  auto const expected = trained(all, {.factors = 3, .sweeps = 3});
  auto const workers = GENERATE(1U, 2U, 7U);
  auto const block = GENERATE(std::size_t{1}, std::size_t{5}, std::size_t{1} << 60);
  INFO(workers << " workers, blocks of " << block);
  ra::als_options o{.factors = 3, .sweeps = 3, .block = block};
  o.users.workers = workers;
  o.items.workers = 4;
  CHECK(trained(all, o) == expected);
  o.items.protocol = o.users.protocol = rb::asp{};
  o.users.spread = true;
  CHECK(trained(all, o, rb::in_process{.workers = 7, .servers = 3}) == expected);
}

TEST_CASE("als: every sweep makes the objective less, and a matrix of low rank without noise is found",
          "[algorithm][unthreaded]") {
  auto const all = some_ratings(0);
  double before = 1e300;
  for (std::int64_t sweeps = 1; sweeps <= 8; ++sweeps) {
    double const now = objective(all, trained(all, {.factors = 2, .sweeps = sweeps, .l2 = 0.01}), 0.01);
    CHECK(now < before);
    before = now;
  }
  auto const f = trained(all, {.factors = 2, .sweeps = 150, .l2 = 1e-6, .users = {.workers = 4}});
  CHECK(std::sqrt(objective(all, f, 0) / static_cast<double>(all.size())) < 0.01);
}

TEST_CASE("als: who has rated nothing, and what nobody has rated, stays zero; workers without lines do nothing",
          "[algorithm]") {
  rd::ratings const all(4, 3, {{0, 0, 1.0F}, {2, 0, 2.0F}});
  auto const f = trained(all, {.factors = 2, .sweeps = 2, .users = {.workers = 7}, .items = {.workers = 7}});
  for (std::size_t const user : {1U, 3U}) CHECK((f.users[2 * user] == 0 && f.users[2 * user + 1] == 0));
  for (std::size_t const item : {1U, 2U}) CHECK((f.items[2 * item] == 0 && f.items[2 * item + 1] == 0));
  CHECK(f.users[0] != 0);
  CHECK(f.items[0] != 0);
}

TEST_CASE("als: where lambda is lost beside the factors it finds the shortest that fit", "[algorithm][unthreaded]") {
  // One user, one item: of all x with x y = 3 it is y 3 / (y y), and then the other way round.
  rd::ratings const one(1, 1, {{.user = 0, .item = 0, .value = 3}});
  for (double const l2 : {1e-9, 1e-17, 1e-300}) {
    INFO("l2 " << l2);
    auto const f = trained(one, {.factors = 4, .sweeps = 3, .l2 = l2});
    CHECK(std::inner_product(f.users.begin(), f.users.end(), f.items.begin(), 0.0) == Approx(3).epsilon(1e-6));
    double const yy = std::inner_product(f.items.begin(), f.items.end(), f.items.begin(), 0.0);
    for (std::size_t k = 0; k < 4; ++k) CHECK(f.users[k] == Approx(f.items[k] * 3 / yy).epsilon(1e-4));
  }
  // Factors that overflow, as of a rating at the end of floats by a factor below 1, are not taken for none.
  rd::ratings const large(2, 2, {{.user = 0, .item = 0, .value = 3e38F}, {.user = 1, .item = 1, .value = 1}});
  rb::engine engine{rb::simulated{.workers = 2}};
  auto floats = ra::make_als_task<float>(large, 1);
  ra::als(floats, large, {.factors = 1, .sweeps = 2, .l2 = 1e-6});
  engine.submit(floats).wait();
  auto const users = floats.parameters<0>();
  CHECK_FALSE(std::isfinite(users[0]));
  // Fewer ratings than factors everywhere: all of them are met.
  auto const all = some_ratings();
  auto const f = trained(all, {.factors = 30, .sweeps = 6, .l2 = 1e-18});
  CHECK(objective(all, f, 0) < 1e-6);
}

TEST_CASE("als: options that cannot be meant are refused", "[algorithm]") {
  auto const all = some_ratings();
  auto const made = [&](ra::als_options const& o) {
    auto t = ra::make_als_task<double>(all, 8);
    ra::als(t, all, o);
  };
  CHECK_THROWS_WITH(made({.factors = 0}), Contains("factors must be at least 1"));
  CHECK_THROWS_WITH(made({.sweeps = 0}), Contains("sweeps must be at least 1"));
  CHECK_THROWS_WITH(made({.l2 = 0}), Contains("l2 must be finite and above 0"));
  CHECK_THROWS_WITH(made({.block = 0}), Contains("block must be at least 1"));
  rb::stage_options const drops{.workers = 3, .protocol = rb::k_sync{.k = 2}};
  CHECK_THROWS_WITH(made({.users = drops}), Contains("als: users has a protocol"));
  CHECK_THROWS_WITH(made({.items = drops}), Contains("als: items has a protocol"));
  rb::stage_options const keeps_back{.protocol = rb::streaming_diloco{.steps = 2, .fragments = 2}};
  CHECK_THROWS_WITH(made({.users = keeps_back}), Contains("als: users has a protocol with a filter (streaming_diloco)"));
  CHECK_THROWS_WITH(made({.items = keeps_back}), Contains("als: items has a protocol with a filter"));
  CHECK_NOTHROW(made({.users = {.protocol = with(rb::streaming_diloco{.steps = 2, .fragments = 2}, rb::send_all{})}}));
  CHECK_THROWS_WITH(made({.users = {.cleared = {1}}}), Contains("als: users has iterations"));
  CHECK_THROWS_WITH(made({.items = {.workers = rb::automatic}}), Contains("expected a number of workers"));
  rb::engine engine{rb::simulated{.workers = 2}};
  auto t = ra::make_als_task<double>(all, 3);
  ra::als(t, all, {.factors = 4});
  CHECK_THROWS_AS(engine.submit(t).wait(), rb::error);
}

TEST_CASE("als: a worker that joins is refused, as its lines are others' already", "[algorithm]") {
  ra::als_options o{.factors = 3, .sweeps = 1};
  o.users.workers = o.items.workers = 3;
  CHECK_THROWS_WITH(trained(some_ratings(), o, rb::test::with_joiner()), Contains("als: worker 3 has joined"));
  rb::engine engine{rb::test::with_joiner()};
  auto const all = some_ratings();
  rb::task<rb::dense<double, rb::sum, rb::range>, rb::dense<double, rb::sum, rb::range>> half(
      {.rows = all.users(), .width = 3}, {.rows = all.items(), .width = 3});
  half.run(half.stage({.workers = 2}, ra::als_half<double>(all, ra::als_half<double>::side::items, o)));
  CHECK_THROWS_AS(engine.submit(half).wait(), rb::usage_error);
}
