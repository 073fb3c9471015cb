// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/matrix_factorization.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/data/movielens.hpp>
#include <rubato/data/ratings.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/rubato.hpp>

#include "algorithm/algorithms.hpp"
#include "data/real_data.hpp"
#include "seeds.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rd = rubato::data;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

rd::ratings mf_ratings(double noise = 0.1) {
  return rd::make_synthetic_ratings({.users = 60, .items = 40, .factors = 3, .per_user = 20, .noise = noise});
}

template <class Real, class Transport, class Protocol>
ra::mf_model<Real> mf_trained(rd::ratings const& all, ra::mf_options const& o, Transport const& where,
                              Protocol const& protocol) {
  ra::mf_model<Real> model(all, o);
  rb::cluster cluster{where, protocol, model.item_table()};
  cluster.run([&](auto& worker) { ra::factorize(worker, all, model, o); });
  model.items = cluster.parameters();
  return model;
}

enum class mf_loop { plain, by_differences };

template <class Real>
Real mf_dot(Real const* a, Real const* b, std::size_t n) {
  Real s[8] = {};
  for (std::size_t i = 0; i < n / 8 * 8; ++i) s[i % 8] += a[i] * b[i];
  Real total = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  for (std::size_t i = n / 8 * 8; i < n; ++i) total += a[i] * b[i];
  return total;
}

/// One after the other, over all ratings. `by_differences`: after each clock items are where they were plus what has
/// changed, as pushes make them, which rounds.
template <class Real>
ra::mf_model<Real> mf_by_hand(rd::ratings const& all, ra::mf_options const& o, mf_loop how) {
  ra::mf_model<Real> m(all, o);
  std::vector<rd::rating> order;
  for (std::uint32_t u = 0; u < all.users(); ++u)
    for (auto const& e : all.of_user(u)) order.push_back({u, e.other, e.value});
  rb::random_stream random(o.seed, 0, 3);
  std::size_t const clocks = o.clocks_per_sweep();
  for (std::int64_t sweep = 0; sweep < o.sweeps; ++sweep) {
    random.shuffle(std::span(order));
    double const rate = o.learning_rate / std::sqrt(o.decay * static_cast<double>(sweep) + 1);
    for (std::size_t clock = 0; clock < clocks; ++clock) {
      auto const before = m.items;
      for (std::size_t n = order.size() * clock / clocks; n < order.size() * (clock + 1) / clocks; ++n) {
        Real* const u = m.users.data() + order[n].user * o.rank;
        Real* const v = m.items.data() + order[n].item * o.rank;
        Real const off = order[n].value - static_cast<Real>(m.mean) - mf_dot(u, v, o.rank);
        for (std::size_t f = 0; f < o.rank; ++f) {
          Real const old_u = u[f], old_v = v[f];
          u[f] += static_cast<Real>(rate) * off * old_v - static_cast<Real>(rate * o.l2) * old_u;
          v[f] += static_cast<Real>(rate) * off * old_u - static_cast<Real>(rate * o.l2) * old_v;
        }
      }
      if (how == mf_loop::plain) continue;
      for (std::size_t i = 0; i < before.size(); ++i) m.items[i] = before[i] + (m.items[i] - before[i]);
    }
  }
  return m;
}

template <class Real>
Real mf_apart(std::vector<Real> const& a, std::vector<Real> const& b) {
  REQUIRE(a.size() == b.size());
  Real most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// A worker that notes what it is asked for; its table has the model's items.
struct noted_worker {
  std::vector<float> table;
  std::size_t rank;
  std::vector<std::string> calls{};
  std::vector<std::uint64_t> pulled{};
  double work = 0;

  void pull(std::vector<std::uint64_t> const& keys, std::span<float> out) {
    calls.emplace_back("pull");
    pulled = keys;
    for (std::size_t i = 0; i < keys.size(); ++i)
      std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(keys[i] * rank), rank, out.data() + i * rank);
  }
  void push(std::vector<std::uint64_t> const& keys, std::span<float const> delta) {
    calls.emplace_back("push");
    CHECK(keys == pulled);
    for (std::size_t i = 0; i < keys.size() * rank; ++i) table[keys[i / rank] * rank + i % rank] += delta[i];
  }
  void step(double w) {
    calls.emplace_back("step");
    work += w;
  }
};

}  // namespace

TEST_CASE("mf: one worker does what a plain loop does, bit for bit (001 §2.1)", "[algorithm]") {
  auto const all = mf_ratings();
  auto const rank = GENERATE(std::size_t{1}, std::size_t{8}, std::size_t{13}, std::size_t{100});
  auto const batch = GENERATE(1.0, 0.1, 0.3);
  INFO("rank " << rank << ", batches of " << batch);
  ra::mf_options const o{.rank = rank, .learning_rate = 0.05, .decay = 0.5, .l2 = 0.02, .sweeps = 4, .batch = batch,
                         .seed = 3};
  auto const expected = mf_by_hand<float>(all, o, mf_loop::by_differences);
  auto const threads = mf_trained<float>(all, o, rb::in_process{.workers = 1, .servers = 2}, rb::bsp{});
  CHECK(threads.users == expected.users);
  CHECK(threads.items == expected.items);
  auto const there = mf_trained<float>(all, o, rb::simulated{.workers = 1, .servers = 3}, rb::bsp{});
  CHECK(there.users == expected.users);
  CHECK(there.items == expected.items);
  auto const plain = mf_by_hand<double>(all, o, mf_loop::plain);
  auto const fine = mf_trained<double>(all, o, rb::in_process{.workers = 1}, rb::bsp{});
  CHECK(mf_apart(fine.users, plain.users) < 1e-12);
  CHECK(mf_apart(fine.items, plain.items) < 1e-12);
}

TEST_CASE("mf: ML-100K by four workers, as good on held-out ratings as the plain loop within 1%", "[algorithm]") {
  if (rb::test::sanitized()) {  // others run the same code
    WARN("left out under a sanitizer, for the time it takes");
    return;
  }
  auto const path = rubato_test::real_data("ml-100k/u.data");
  if (!path) return;
  auto const [train, test] = rd::read_ratings(*path).all.split(0.1, 1);
  ra::mf_options const o{.rank = 8, .learning_rate = 0.02, .l2 = 0.1, .sweeps = 10};
  double const expected = ra::rmse(test, mf_by_hand<float>(train, o, mf_loop::plain));
  CHECK(expected < 0.96);
  CHECK(ra::rmse(test, ra::mf_model(train, o)) > 1.1);
  auto const check = [&, &train = train, &test = test](char const* name, auto const& where, auto const& protocol) {
    INFO(name);
    CHECK(ra::rmse(test, mf_trained<float>(train, o, where, protocol)) == Approx(expected).epsilon(0.01));
  };
  rb::in_process const threads{.workers = 4, .servers = 2};
  check("threads, bsp", threads, rb::bsp{});
  check("threads, ssp", threads, rb::ssp{.staleness = 3});
  check("threads, asp", threads, rb::asp{});
  rb::sim::speed_options const speed{.work_cost = 5ns, .slowness = {1, 1, 2, 1}};  // per multiplication
  rb::simulated const there{.workers = 4, .servers = 2, .scenario = {.speed = speed}};
  check("simulated, bsp", there, rb::bsp{});
  check("simulated, ssp", there, rb::ssp{.staleness = 3});
  check("simulated, asp", there, rb::asp{});
  // A clock of all ratings is like a plain sweep if the rate is small, and goes too far if it is not (mf_options).
  ra::mf_options whole{.rank = 8, .learning_rate = 0.01, .l2 = 0.1, .sweeps = 20, .batch = 1};
  auto const in_whole_sweeps = [&, &train = train, &test = test] {
    return ra::rmse(test, mf_trained<float>(train, whole, there, rb::bsp{}));
  };
  CHECK(in_whole_sweeps() == Approx(expected).epsilon(0.01));
  whole.learning_rate = 0.02;
  CHECK_FALSE(in_whole_sweeps() <= 1.03 * expected);  // or no number at all
}

TEST_CASE("mf: ratings of known rank are explained down to their noise, at rank 100 as well", "[algorithm][numeric]") {
  auto const all = rd::make_synthetic_ratings({.users = 150, .items = 60, .factors = 3, .per_user = 40, .noise = 0.2});
  auto const off = [&](std::size_t rank, double l2) {
    ra::mf_options const o{.rank = rank, .learning_rate = 0.05, .decay = 0.05, .l2 = l2, .sweeps = 120};
    return ra::rmse(all, mf_trained<float>(all, o, rb::simulated{.workers = 4, .servers = 2}, rb::ssp{.staleness = 3}));
  };
  double const exact = off(3, 0.001);
  CHECK(exact < 0.2);   // 630 factors explain some of the noise in 6000 ratings,
  CHECK(exact > 0.17);  // and not much of it
  CHECK(off(100, 0.02) < exact);
}

TEST_CASE("mf: the simulator gives the same bits twice, and others for another seed", "[algorithm]") {
  auto const all = mf_ratings();
  ra::mf_options o{.rank = 5, .learning_rate = 0.05, .sweeps = 3};
  auto const run = [&] {
    rb::simulated const where{.workers = 4, .servers = 2, .scenario = {.speed = {.slowness = {1, 3, 1, 2}}}};
    auto const m = mf_trained<float>(all, o, where, rb::ssp{.staleness = 3});
    return std::pair(m.users, m.items);
  };
  auto const first = run();
  CHECK(first == run());
  o.seed = 2;
  auto const other = run();
  CHECK(first.first != other.first);
  CHECK(first.second != other.second);
}

TEST_CASE("mf: a clock is one pull, one push and one step of a batch, priced at its multiplications", "[algorithm]") {
  auto const all = mf_ratings();
  auto const [batch, clocks] = GENERATE(table<double, std::size_t>({{1.0, 1}, {0.1, 10}, {0.3, 4}, {1.0 / 49, 49}}));
  ra::mf_options const o{.rank = 5, .sweeps = 1, .batch = batch};
  CHECK(o.clocks_per_sweep() == clocks);
  ra::mf_model<float> model(all, o);
  noted_worker worker{model.items, 5};
  ra::mf_part<float> part(all, model, o, 0, 1);
  part.sweep(worker);
  REQUIRE(worker.calls.size() == 3 * clocks);
  for (std::size_t i = 0; i < worker.calls.size(); ++i)
    CHECK(worker.calls[i] == std::vector<std::string>{"pull", "push", "step"}[i % 3]);
  CHECK(worker.work == 5 * 5 * static_cast<double>(all.size()));
  if (clocks == 49) CHECK(worker.pulled.size() <= 25);  // 24 or 25 of 1200 ratings in a clock, of 40 items
  std::ranges::sort(worker.pulled);
  CHECK(std::ranges::adjacent_find(worker.pulled) == worker.pulled.end());
}

TEST_CASE("mf: a worker writes the factors of its own users alone", "[algorithm]") {
  auto const all = mf_ratings();
  ra::mf_options const o{.rank = 4, .learning_rate = 0.05, .sweeps = 1};
  std::vector<int> writers(all.users());
  for (std::uint32_t rank = 0; rank < 7; ++rank) {
    ra::mf_model<float> model(all, o);
    auto const before = model.users;
    noted_worker worker{model.items, 4};
    ra::mf_part<float>(all, model, o, rank, 7).sweep(worker);
    for (std::size_t i = 0; i < before.size(); i += 4) writers[i / 4] += model.users[i] != before[i] ? 1 : 0;
  }
  CHECK(std::ranges::all_of(writers, [](int n) { return n == 1; }));
}

TEST_CASE("mf: more workers than users; who and what has no rating stays as it was", "[algorithm]") {
  rd::ratings const all(3, 4, {{0, 0, 1.0F}, {0, 3, 3.0F}, {2, 0, 2.0F}});
  ra::mf_options const o{.rank = 2, .learning_rate = 0.05, .sweeps = 5, .batch = 0.5};
  ra::mf_model<float> const before(all, o);
  CHECK(before.mean == 2);
  auto const after = mf_trained<float>(all, o, rb::in_process{.workers = 5}, rb::ssp{.staleness = 1});
  auto const moved = [](std::vector<float> const& a, std::vector<float> const& b, std::size_t line) {
    return a[2 * line] != b[2 * line] && a[2 * line + 1] != b[2 * line + 1];
  };
  CHECK(moved(before.users, after.users, 0));
  CHECK(moved(before.users, after.users, 2));
  CHECK(moved(before.items, after.items, 0));
  CHECK(moved(before.items, after.items, 3));
  CHECK_FALSE(moved(before.users, after.users, 1));
  for (std::size_t const item : {1U, 2U}) CHECK_FALSE(moved(before.items, after.items, item));
}

TEST_CASE("mf: the first factors depend on a line's number and side; the table may lie anywhere", "[algorithm]") {
  ra::mf_options const o{.rank = 100};
  ra::mf_model<double> const few(rd::ratings(2, 5, {}), o), many(rd::ratings(7, 9, {}), o);
  CHECK(few.mean == 0);
  CHECK(std::equal(few.users.begin(), few.users.end(), many.users.begin()));
  CHECK(std::equal(few.items.begin(), few.items.end(), many.items.begin()));
  CHECK_FALSE(std::equal(few.users.begin(), few.users.end(), few.items.begin()));
  double squares = 0;
  for (double const x : many.items) squares += x * x;
  CHECK(squares / 9 == Approx(0.09).epsilon(0.2));
  rb::cluster cluster{rb::in_process{.servers = 3}, rb::bsp{}, many.item_table(rb::hash{})};
  CHECK(cluster.parameters() == many.items);
}

TEST_CASE("mf: objective and rmse are those of the ratings at hand", "[algorithm]") {
  rd::ratings const all(2, 2, {{0, 0, 4.0F}, {0, 1, 1.0F}, {1, 1, 1.0F}});
  ra::mf_model<double> m(all, {.rank = 2});
  m.users = {1, 2, 0, 1};
  m.items = {1, 0, -1, 1};
  // mean 2; predictions 3, 3, 3; errors 1, -2, -2; |u|² 5, 1; |v|² 1, 2
  CHECK(m.mean == 2);
  CHECK(ra::mf_objective(all, m, 0.0) == Approx(9));
  CHECK(ra::mf_objective(all, m, 0.5) == Approx(9 + 0.5 * (2 * 5 + 1 + 1 + 2 * 2)));
  CHECK(ra::rmse(all, m) == Approx(std::sqrt(3.0)));
  CHECK(ra::factor_objective<double>(all, m.users, m.items, 0.5, 2, {1, 2}) == Approx(4 + 0.5 * 3));
  CHECK(ra::rmse(rd::ratings(2, 2, {}), m) == 0);
}

TEST_CASE("mf: a worker that joins is refused, as its users are others' already", "[algorithm]") {
  CHECK_THROWS_WITH(mf_trained<float>(mf_ratings(), {.rank = 3, .sweeps = 2}, rb::test::with_joiner(), rb::bsp{}),
                    Contains("factorize: worker 4 has joined"));
}

TEST_CASE("mf: options that cannot be meant are refused by name", "[algorithm]") {
  auto const all = mf_ratings();
  auto const made = [&](ra::mf_options const& o) { ra::mf_model<float> const m(all, o); };
  double const nan = std::nan("");
  CHECK_THROWS_AS(made({.rank = 0}), rb::option_error);
  CHECK_THROWS_WITH(made({.rank = 0}), Contains("rank must be from 1 to 2^24"));
  CHECK_THROWS_AS(made({.rank = (std::size_t{1} << 24) + 1}), rb::option_error);
  for (double const x : {0.0, -1.0, nan, HUGE_VAL})
    CHECK_THROWS_WITH(made({.learning_rate = x}), Contains("learning_rate must be finite and above 0"));
  for (double const x : {-1.0, nan, HUGE_VAL}) {
    CHECK_THROWS_WITH(made({.decay = x}), Contains("decay must be finite and at least 0"));
    CHECK_THROWS_WITH(made({.l2 = x}), Contains("l2 must be finite and at least 0"));
  }
  CHECK_THROWS_WITH(made({.sweeps = 0}), Contains("sweeps must be at least 1"));
  for (double const x : {0.0, 1.5, -0.1, nan, 1e-7}) CHECK_THROWS_WITH(made({.batch = x}), Contains("batch must be"));
  ra::mf_model<float> model(all, {.rank = 3});
  CHECK_THROWS_WITH(ra::mf_part<float>(all, model, {.rank = 4}, 0, 1), Contains("another rank"));
  for (rd::ratings const& other : {rd::ratings(60, 41, {}), rd::ratings(61, 40, {})})
    CHECK_THROWS_WITH(ra::mf_part<float>(other, model, {.rank = 3}, 0, 1), Contains("other users, items"));
}
