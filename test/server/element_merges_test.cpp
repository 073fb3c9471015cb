// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What each merge by element promises, beside its paper's algorithm as a plain loop: workers read and commit in random
// orders, and the parameters and all answers are the loop's, bit for bit.
#include <rubato/server/shard.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/async_diloco.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/diloco.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/fed_adam.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/slow_mo.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/staleness_aware.hpp>
#include <rubato/storage/dense.hpp>

#include "seeds.hpp"
#include "server/lone_shard.hpp"
#include "storage/updates.hpp"

using namespace rubato;

namespace {

using reals = std::vector<double>;
constexpr std::size_t dimensions = 3;

/// A shard of three rows whose workers are all there.
class small_shard : public test::lone_shard {
 public:
  small_shard(rules protocol, std::uint32_t workers, reals const& start)
      : lone_shard(std::move(protocol), dense<double>{.rows = dimensions, .init = start}), clocks_(workers) {
    for (std::uint32_t w = 0; w < workers; ++w) (void)order(membership_order::kind::enlist, w, 0);
  }

  void commit(std::uint32_t w, reals const& u) { commit(w, test::whole(u)); }
  void commit(std::uint32_t w, update u) {
    REQUIRE(lone_shard::commit(w, clocks_[w]++, {}, std::move(u)) == refusal::none);
  }
  /// By rows, or all of them.
  reals read(std::uint32_t w, bool all = false) {
    slot.asked = all ? selection::all : selection::rows;
    slot.rows = {0, 1, 2};
    staleness const allowed = plan.protocol().admission.bound();
    auto const [refused, done] = admit({{worker_id{w}, {}, stage_id{1}}, clock_index{clocks_[w]}, allowed, {}});
    REQUIRE(refused == refusal::none);
    REQUIRE(done);
    if (all) return test::elements_of<double>(slot.state, 0, dimensions);
    auto const values = slot.values.as<double>();
    return {values.begin(), values.end()};
  }
  reals parameters() const {
    table_state now;
    server.observe(0, now);
    return test::elements_of<double>(now, 0, dimensions);
  }

 private:
  std::vector<std::int64_t> clocks_;
};

reals drawn(random_stream& random, double scale = 1) {
  reals u(dimensions);
  for (double& x : u) x = scale * (random.uniform() - 0.5);
  return u;
}

/// A protocol where nobody waits beside `paper_for(start, workers)`, which has `commit(w, u)` and `read(w)`.
template <class Paper>
void compare_unordered(rules const& protocol, Paper const& paper_for) {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    auto const workers = static_cast<std::uint32_t>(1 + random.below(5));
    reals const start = drawn(random);
    small_shard shard(protocol, workers, start);
    auto paper = paper_for(start, workers);
    for (int n = 0; n < 40; ++n) {
      auto const w = static_cast<std::uint32_t>(random.below(workers));
      if (random.chance(0.5)) {
        REQUIRE(shard.read(w, random.chance(0.5)) == paper.read(w));
      } else {
        reals const u = drawn(random);
        paper.commit(w, u);
        shard.commit(w, u);
      }
      REQUIRE(shard.parameters() == paper.center);
    }
  }
}

/// Zheng et al. 2017, Algorithms 1 and 2: the server's part, in gradients g = −u/η.
struct compensated_by_hand {
  reals center;
  double eta, lambda, m;  // m < 0: λ is constant
  std::vector<reals> backup = {};
  reals mean_square = reals(dimensions);

  reals read(std::uint32_t w) { return backup[w] = center; }
  void commit(std::uint32_t w, reals const& u) {
    if (backup[w].empty()) backup[w] = center;
    for (std::size_t i = 0; i < dimensions; ++i) {
      double const square = u[i] * u[i] / (eta * eta);
      double by = lambda;
      if (m >= 0) {
        mean_square[i] = m * mean_square[i] + (1 - m) * square;
        by /= std::sqrt(mean_square[i] + 1e-7);
      }
      center[i] += u[i] - eta * by * square * (center[i] - backup[w][i]);
    }
  }
};

/// Zhang et al. 2015, Algorithm 1, where the steps between two exchanges come as one.
struct elastic_by_hand {
  reals center;
  double alpha;
  std::vector<reals> x = {};

  reals read(std::uint32_t w) {
    if (x[w].empty()) x[w] = center;
    return x[w];
  }
  void commit(std::uint32_t w, reals const& u) {
    if (x[w].empty()) x[w] = center;
    for (std::size_t i = 0; i < dimensions; ++i) {
      x[w][i] += u[i];
      double const e = alpha * (x[w][i] - center[i]);
      x[w][i] -= e;
      center[i] += e;
    }
  }
};

/// Liu et al. 2024, Algorithm 4, for pseudo-gradients g = −u.
struct delayed_by_hand {
  reals center;
  double eps, beta, c;
  std::int64_t n;
  std::int64_t t = 0;
  reals m = reals(dimensions), sum = reals(dimensions);

  reals read(std::uint32_t) { return center; }
  void commit(std::uint32_t, reals const& u) {
    bool const full = (++t) % n == 0;
    double const share = 1.0 / static_cast<double>(n);
    for (std::size_t i = 0; i < dimensions; ++i) {
      sum[i] += u[i];
      if (full) {
        m[i] = beta * m[i] + share * sum[i];
        sum[i] = 0;
      }
      double const active = full ? 1 - c * static_cast<double>(n) + c : c;
      center[i] += eps * (share * u[i] + active * beta * m[i]);
    }
  }
};

/// Zhang et al. 2016: an update counts by one over the number of others since its worker has read, for the first
/// time after its last one.
struct aged_by_hand {
  struct worker {
    bool has_read = false;
    std::uint64_t at = 0;
  };
  reals center;
  std::vector<worker> workers = {};
  std::uint64_t folds = 0;

  reals read(std::uint32_t w) {
    if (!std::exchange(workers[w].has_read, true)) workers[w].at = folds;
    return center;
  }
  void commit(std::uint32_t w, reals const& u) {
    workers[w].has_read = false;
    double const weight = 1 / std::max(1.0, static_cast<double>(folds++ - workers[w].at));
    for (std::size_t i = 0; i < dimensions; ++i) center[i] += weight * u[i];
  }
};

}  // namespace

TEST_CASE("staleness_aware: an update is divided by its age (Zhang et al. 2016)") {
  compare_unordered(staleness_aware{}, [](reals const& start, std::uint32_t workers) {
    return aged_by_hand{start, std::vector<aged_by_hand::worker>(workers)};
  });
}

TEST_CASE("dc_asgd: servers correct each update by what its worker read (Zheng et al. 2017, Algorithms 1 and 2)") {
  compensate const c{.lambda = 0.5, .rate = 0.25};
  compare_unordered(dc_asgd{.fold = c}, [&](reals const& start, std::uint32_t workers) {
    return compensated_by_hand{start, c.rate, c.lambda, -1, std::vector<reals>(workers)};
  });
  compensate_adaptive const a{.lambda = 2, .rate = 0.25};
  compare_unordered(with(dc_asgd{}, a), [&](reals const& start, std::uint32_t workers) {
    return compensated_by_hand{start, a.rate, a.lambda, 0.95, std::vector<reals>(workers)};
  });
}

TEST_CASE("easgd: each worker reads a variable of its own, which the center draws (Zhang et al. 2015, Algorithm 1)") {
  compare_unordered(easgd{.fold = {.alpha = 0.25}}, [](reals const& start, std::uint32_t workers) {
    return elastic_by_hand{start, 0.25, std::vector<reals>(workers)};
  });
  compare_unordered(easgd{}, [](reals const& start, std::uint32_t workers) {
    return elastic_by_hand{start, 0.9 / workers, std::vector<reals>(workers)};
  });
}

TEST_CASE("easgd: a spring for more workers than are left does not tear them apart") {
  double x = 0, center = 0;
  for (int n = 0; n < 100; ++n) {
    center += elastic{.beta = 1.8}.step({.workers = 1}, center, 0.01, x);
    REQUIRE(std::abs(x - center) < 0.1);
  }
}

TEST_CASE("yogi: a measure that is met stays") {
  double m = 0, v = 0.25;
  (void)yogi{}.step({}, 0.0, 0.5, m, v);
  CHECK(v == 0.25);
}

TEST_CASE("easgd: what leaves the copies enters the center") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    auto const workers = static_cast<std::uint32_t>(1 + random.below(5));
    small_shard shard(easgd{}, workers, drawn(random));
    auto const total = [&] {
      double sum = 0;
      for (std::uint32_t w = 0; w < workers; ++w)
        for (double const x : shard.read(w)) sum += x;
      for (double const x : shard.parameters()) sum += x;
      return sum;
    };
    double expected = total();
    for (int n = 0; n < 50; ++n) {
      reals const u = drawn(random);
      for (double const x : u) expected += x;
      shard.commit(static_cast<std::uint32_t>(random.below(workers)), u);
    }
    REQUIRE(total() == Approx(expected).margin(1e-12));
  }
}

TEST_CASE("async_diloco: the momentum takes N updates at a time (Liu et al. 2024, Algorithm 4)") {
  for (double const c : {0.0, 0.1, 0.25})
    compare_unordered(async_diloco{.optimizer = {.buffer = 4, .activation = c}},
                      [c](reals const& start, std::uint32_t) {
                        return delayed_by_hand{start, 0.7, 0.9, c, 4};
                      });
  compare_unordered(async_diloco{}, [](reals const& start, std::uint32_t workers) {
    return delayed_by_hand{start, 0.7, 0.9, 0, workers};
  });
}

TEST_CASE("dc_asgd without λ is asp, bit for bit; async_diloco of one worker is diloco") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    reals const start = drawn(random);
    small_shard compensated(dc_asgd{.fold = {.lambda = 0}}, 3, start), plain(asp{}, 3, start);
    small_shard alone(async_diloco{}, 1, start), together(diloco{}, 1, start);
    for (int n = 0; n < 30; ++n) {
      auto const w = static_cast<std::uint32_t>(random.below(3));
      REQUIRE(compensated.read(w) == plain.read(w));
      reals const u = drawn(random);
      update const some = test::keyed<double>({2, 0}, {u[2], u[0]});
      compensated.commit(w, n % 3 == 0 ? some : test::whole(u));
      plain.commit(w, n % 3 == 0 ? some : test::whole(u));
      alone.commit(0, u);
      together.commit(0, u);
      REQUIRE(compensated.parameters() == plain.parameters());
      REQUIRE(alone.parameters() == together.parameters());
    }
  }
}

namespace {

/// A protocol with a barrier beside a loop over clocks: `next(element, mean)` of the paper's server. Commits of a clock
/// come in any order.
template <class Next>
void compare_clocks(rules const& protocol, Next const& paper) {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    auto const workers = static_cast<std::uint32_t>(1 + random.below(5));
    reals w = drawn(random);
    small_shard shard(protocol, workers, w);
    Next next = paper;
    for (int clock = 0; clock < 12; ++clock) {
      std::vector<reals> u;
      reals mean(dimensions);
      double const share = 1.0 / workers;
      for (std::uint32_t k = 0; k < workers; ++k) u.push_back(drawn(random));
      for (std::uint32_t k = 0; k < workers; ++k)
        for (std::size_t x = 0; x < dimensions; ++x)
          if (k == 0) mean[x] = share * u[k][x];
          else mean[x] += share * u[k][x];
      for (std::size_t x = 0; x < dimensions; ++x) w[x] += next(x, mean[x]);
      auto const first = static_cast<std::uint32_t>(random.below(workers));
      for (std::uint32_t k = 0; k < workers; ++k) shard.commit((first + k) % workers, u[(first + k) % workers]);
      REQUIRE(shard.parameters() == w);
      REQUIRE(shard.read(first) == w);
    }
  }
}

/// Reddi et al. 2021, Algorithm 2.
struct adaptive_by_hand {
  char kind;
  reals m = reals(dimensions), v = reals(dimensions, 1e-3 * 1e-3);

  double operator()(std::size_t i, double d) {
    m[i] = 0.9 * m[i] + (1 - 0.9) * d;
    double const share = 1 - 0.99, square = d * d;
    if (kind == 'a') v[i] += square;
    if (kind == 'm') v[i] = (1 - share) * v[i] + share * square;
    if (kind == 'y') v[i] -= share * square * (v[i] > square ? 1 : -1);
    return 0.1 * m[i] / (std::sqrt(v[i]) + 1e-3);
  }
};
struct nesterov_by_hand {
  double rate, mu;
  reals m = reals(dimensions);

  double operator()(std::size_t i, double d) {
    m[i] = mu * m[i] + d;
    return rate * (d + mu * m[i]);
  }
};

}  // namespace

TEST_CASE("fed_adam, and FedAdagrad and FedYogi (Reddi et al. 2021, Algorithm 2), in whatever order commits come") {
  compare_clocks(fed_adam{}, adaptive_by_hand{'m'});
  compare_clocks(with(fed_adam{}, adagrad{}), adaptive_by_hand{'a'});
  compare_clocks(with(fed_adam{}, yogi{}), adaptive_by_hand{'y'});
}

TEST_CASE("diloco: Nesterov's momentum takes the mean for a gradient (Douillard et al. 2023, Algorithm 1)") {
  compare_clocks(diloco{}, nesterov_by_hand{0.7, 0.9});
  compare_clocks(diloco{.optimizer = {.rate = 0.5, .mu = 0.25}}, nesterov_by_hand{0.5, 0.25});
}

TEST_CASE("diloco without momentum at rate 1 is bsp; slow_mo is so, too, and with α = 1 it is bsp with momentum") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    reals const start = drawn(random);
    small_shard outer(diloco{.optimizer = {.rate = 1, .mu = 0}}, 1, start), plain(bsp{}, 1, start);
    small_shard slow(slow_mo{.optimizer = {.beta = 0}}, 3, start), three(bsp{}, 3, start);
    small_shard slower(slow_mo{}, 3, start), moving(with(bsp{}, momentum{.mu = 0.5}), 3, start);
    for (int n = 0; n < 30; ++n) {
      reals const u = drawn(random);
      outer.commit(0, u);
      plain.commit(0, u);
      for (std::uint32_t w = 0; w < 3; ++w)
        for (small_shard* s : {&slow, &three, &slower, &moving}) s->commit(w, u);
      REQUIRE(outer.parameters() == plain.parameters());
      for (std::size_t x = 0; x < dimensions; ++x)
        REQUIRE(slow.parameters()[x] == Approx(three.parameters()[x]).margin(1e-13));
      REQUIRE(slower.parameters() == moving.parameters());
    }
  }
}

TEST_CASE("shard: a merge with copies makes a step per commit under a barrier, too, and a worker that comes again "
          "has a copy that begins anew") {
  small_shard s(with(bsp{}, elastic{.alpha = 0.5}), 2, reals(dimensions));
  CHECK(s.read(0) == s.read(1, true));
  s.commit(0, {8, 0, 0});
  s.commit(1, {4, 0, 0});
  CHECK(s.parameters() == reals{4, 0, 0});  // x₀: 8 → 4, w: 4; x₁: 4 → 4
  CHECK(s.read(0) == reals{4, 0, 0});
  CHECK(s.read(1) == reals{4, 0, 0});

  small_shard again(easgd{.fold = {.alpha = 0.5}}, 2, reals(dimensions));
  again.commit(1, {8, 0, 0});
  CHECK(again.read(1) == reals{4, 0, 0});
  again.commit(0, {-8, 0, 0});
  CHECK(again.parameters() == reals{0, 0, 0});  // x₀: 4 − 8, which takes all of it
  (void)again.order(membership_order::kind::enlist, 1, 0);
  CHECK(again.read(1, true) == reals{0, 0, 0});
}

TEST_CASE("shard: merges by element take no runs, and those with copies answer each worker by itself") {
  auto const shard_of = [](rules p) { return test::lone_shard(std::move(p), dense<double>{.rows = 4}); };
  auto adaptive = shard_of(with(asp{}, adam{})), own = shard_of(easgd{}), plain = shard_of(asp{});
  CHECK(plain.server.folds_runs(0));
  CHECK(plain.server.streams(0));
  CHECK_FALSE(adaptive.server.folds_runs(0));
  CHECK(adaptive.server.streams(0));
  CHECK_FALSE(own.server.folds_runs(0));
  CHECK_FALSE(own.server.streams(0));
}

TEST_CASE("shard: what a merge keeps counts as memory") {
  small_shard s(easgd{}, 2, reals(dimensions));
  CHECK(s.server.memory().parameters == dimensions * sizeof(double));
  (void)s.read(1);
  CHECK(s.server.memory().parameters >= 2 * dimensions * sizeof(double));
  small_shard a(fed_adam{}, 1, reals(dimensions));
  a.commit(0, {1, 1, 1});
  CHECK(a.server.memory().parameters >= 3 * dimensions * sizeof(double));
}
