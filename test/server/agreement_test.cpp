// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/agreement.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/async_diloco.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/diloco.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/fed_adam.hpp>
#include <rubato/protocol/slow_mo.hpp>
#include <rubato/protocol/fixed_ada_comm.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

/// What processes say of this protocol.
std::string said_of(rules const& p) {
  dense<double> const table{.rows = 4};
  return blueprint(p, 2, {p.merge.versioned() ? describe(multi_version{table}) : describe(table)}).agreement();
}

/// An update that is late counts less: `1/(1 + τ)^p`.
struct less_when_late {
  double p = 1;
  double weight(commit_info const& c) const noexcept {
    return std::pow(1.0 + static_cast<double>(distance(c.stamp, c.c_max)), -p);
  }
};

/// SSP from a clock on; before it everybody waits for all.
struct bounded_from {
  std::int64_t first = 0;
  staleness bound() const noexcept { return 3; }
  clock_index need(clock_index c, staleness s) const noexcept { return c.value() < first ? c : c - s; }
  clock_index cache_need(clock_index c, staleness s) const noexcept { return need(c, s); }
};

/// Sees some clocks more, from a clock on.
struct wider_from {
  std::int64_t first = 0;
  static constexpr bool holds_back = true;
  clock_index horizon(fold_window const& w) const noexcept {
    return w.c_min.value() < first ? w.c_min : w.c_min + w.bound;
  }
};

/// Nothing but a weight, by what it is told.
struct weighed_by {
  std::function<double(commit_info const&)> f;
  double weight(commit_info const& c) const noexcept { return f(c); }
};

std::uint64_t of_weights(merge_rule const& m) { return fingerprint(m, staleness::infinite()); }

}  // namespace

TEST_CASE("agreement: each shipped protocol says the same twice, and another thing for other parameters") {
  std::vector<rules> const different{
      bsp{}, asp{}, ssp{.staleness = 0}, ssp{.staleness = 1}, ssp{.staleness = 3}, ssp{.staleness = 1'000'000},
      ssp{.staleness = 1'000'001}, ssp{.staleness = staleness::infinite()}, con_sgd{.staleness = 3},
      con_sgd{.staleness = 4}, con_sgd{.fold = {.lambda = 0.1}},
      con_sgd{.fold = {.lambda = std::nextafter(0.1, 1.0)}}, dyn_sgd{.staleness = 3}, dyn_sgd{.staleness = 4},
      dyn_sgd{.fold = {versions::capped}}, adsp{}, adsp{.global_rate = 0.25}, ada_comm{},
      with(ssp{}, strict{}), with(ssp{}, stable_cut{}), with(ssp{}, momentum{.mu = 0.5}),
      with(ssp{}, momentum{.mu = std::nextafter(0.5, 1.0)}), with(ssp{}, momentum{.mu = 0.5, .eta = 1.0}),
      fed_adam{}, fed_adam{.optimizer = {.rate = 0.2}}, fed_adam{.optimizer = {.tau = 1e-4}}, with(fed_adam{}, yogi{}),
      with(fed_adam{}, adagrad{}), diloco{}, diloco{.optimizer = {.mu = 0.8}}, async_diloco{},
      async_diloco{.optimizer = {.buffer = 3}}, slow_mo{}, slow_mo{.optimizer = {.alpha = 0.5}}, dc_asgd{},
      dc_asgd{.fold = {.lambda = 0.1}}, dc_asgd{.fold = {.rate = 0.5}}, with(dc_asgd{}, compensate_adaptive{}), easgd{},
      easgd{.fold = {.beta = 0.8}}, easgd{.fold = {.alpha = 0.1}}};
  std::set<std::string> all;
  for (rules const& p : different) {
    INFO(p.name);
    CHECK(said_of(p) == said_of(rules(p)));
    CHECK(all.insert(said_of(p)).second);
  }
  // When to commit is each worker's own business.
  CHECK(said_of(fixed_ada_comm{.steps = 5}) == said_of(fixed_ada_comm{.steps = 7}));
  CHECK(said_of(adsp{.check_period = 5s}) == said_of(adsp{}));
  CHECK(said_of(diloco{.steps = 5}) == said_of(diloco{}));
}

TEST_CASE("agreement: the numbers are the same with every compiler") {
  CHECK(fingerprint(admission_rule(barrier{})) == 0x7064ffca7d21cf5c);
  CHECK(fingerprint(admission_rule(bounded_staleness{3})) == 0x51f0cd4c2e1acf94);
  CHECK(fingerprint(visibility_rule(strict{}), 3) == 0x595dbdc64098b264);
  CHECK(fingerprint(merge_rule(average{}), 3) == 0x28ccce9999b41191);
  CHECK(fingerprint(merge_rule(revise{}), 3) == 0xc14d6bd81f1de678);
}

TEST_CASE("agreement: policies that differ in a number that shows late differ") {
  CHECK(of_weights(less_when_late{0.5}) == of_weights(less_when_late{0.5}));
  CHECK(of_weights(less_when_late{0.5}) != of_weights(less_when_late{3}));
  // In step they count the same, and an update that is three clocks late is the first that does not.
  auto const beyond = [](std::int64_t lag, double worth) {
    return weighed_by{[=](commit_info const& c) { return distance(c.stamp, c.c_max) < lag ? 1.0 : worth; }};
  };
  for (std::int64_t const lag : {1, 3, 100, 1000, 1'000'000}) {
    INFO(lag);
    CHECK(of_weights(beyond(lag, 0.5)) != of_weights(beyond(lag, 0.25)));
  }
  // Under a bound of 3 nobody is 100 clocks behind.
  CHECK(fingerprint(merge_rule(beyond(100, 0.5)), 3) == fingerprint(merge_rule(beyond(100, 0.25)), 3));
  for (std::uint32_t const workers : {2U, 30U, 1000U}) {
    auto const of_many = [workers](double worth) {
      return weighed_by{[=](commit_info const& c) { return c.workers == workers ? worth : 1.0; }};
    };
    CHECK(of_weights(of_many(0.5)) != of_weights(of_many(0.25)));
  }
  for (std::uint32_t const worker : {0U, 1U, 31U, 512U}) {
    auto const of_one = [worker](double worth) {
      return weighed_by{[=](commit_info const& c) { return c.from.value() == worker ? worth : 1.0; }};
    };
    CHECK(of_weights(of_one(0.5)) != of_weights(of_one(0.25)));
  }
  auto const from_clock = [](double worth) {
    return weighed_by{[=](commit_info const& c) { return c.stamp < clock_index{500} ? 1.0 : worth; }};
  };
  CHECK(of_weights(from_clock(0.5)) != of_weights(from_clock(0.25)));
  auto const before_c_min = [](double worth) {
    return weighed_by{[=](commit_info const& c) { return c.c_min > c.stamp ? worth : 1.0; }};
  };
  CHECK(of_weights(before_c_min(0.5)) != of_weights(before_c_min(0.25)));
  for (std::int64_t const first : {1, 12, 1000, 100'000}) {
    INFO(first);
    CHECK(fingerprint(admission_rule(bounded_from{first})) != fingerprint(admission_rule(bounded_from{2 * first})));
    CHECK(fingerprint(visibility_rule(wider_from{first}), 3) != fingerprint(visibility_rule(wider_from{2 * first}), 3));
  }
}

TEST_CASE("agreement: no number is like another, whatever its bits") {
  auto const always = [](double x) { return weighed_by{[x](commit_info const&) { return x; }}; };
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(of_weights(always(nan)) == of_weights(always(-nan)));
  CHECK(of_weights(always(nan)) != of_weights(always(0)));
}

namespace {

/// Whose answers depend on how often it was asked, which it must not: it has a fingerprint, or is copied.
struct counts_calls {
  std::shared_ptr<int> elsewhere = std::make_shared<int>(0);
  mutable int here = 0;
  double weight(commit_info const&) const noexcept { return ++here; }
};
struct says_who_it_is : counts_calls {
  std::uint64_t number = 7;
  double weight(commit_info const&) const noexcept { return ++*elsewhere; }
  std::uint64_t fingerprint() const noexcept { return number; }
};
struct named_pace : every {
  std::uint64_t fingerprint() const noexcept { return static_cast<std::uint64_t>(steps); }
};
struct named_admission : barrier {
  std::uint64_t number;
  std::uint64_t fingerprint() const noexcept { return number; }
};
struct named_visibility : strict {
  std::uint64_t number;
  std::uint64_t fingerprint() const noexcept { return number; }
};
static_assert(fingerprinted_policy<named_pace> && !fingerprinted_policy<every>);

}  // namespace

TEST_CASE("agreement: copies are asked, and a policy with a fingerprint is asked nothing") {
  merge_rule const counting{counts_calls{}};
  CHECK(said_of(with(rules(ssp{}), counts_calls{})) == said_of(with(rules(ssp{}), counts_calls{})));
  (void)of_weights(counting);
  CHECK(counting.weight({}) == 1);

  says_who_it_is const mine;
  says_who_it_is other;
  other.number = 8;
  std::string const said = said_of(with(rules(ssp{}), mine));
  CHECK(*mine.elsewhere == 0);
  CHECK(of_weights(mine) == 7);
  CHECK(said == said_of(with(rules(ssp{}), says_who_it_is{})));
  CHECK(said != said_of(with(rules(ssp{}), other)));
  CHECK(said_of(with(rules(ssp{}), named_pace{{5}})) != said_of(with(rules(ssp{}), named_pace{{6}})));
  CHECK(said_of(with(rules(ssp{}), named_admission{{}, 1})) != said_of(with(rules(ssp{}), named_admission{{}, 2})));
  CHECK(said_of(with(rules(ssp{}), named_visibility{{}, 1})) != said_of(with(rules(ssp{}), named_visibility{{}, 2})));
  // Copies of a pace say the same.
  pace_rule const pace = named_pace{{5}};
  pace_rule copy = every_step{};
  copy = pace;
  CHECK(copy.fingerprint() == 5);
}

TEST_CASE("agreement: figures that differ look different") {
  std::string const less = said_of(con_sgd{.fold = {.lambda = 0.25}});
  std::string const more = said_of(con_sgd{.fold = {.lambda = 0.2500001}});
  CHECK_THAT(less, Catch::Contains("(of 8 workers: 0.25, "));
  CHECK_THAT(more, Catch::Contains("(of 8 workers: 0.2500001, "));
}

TEST_CASE("agreement: the parts are named, and only what differs differs") {
  using Catch::Contains;
  CHECK_THAT(said_of(ssp{.staleness = 2}),
             Contains("servers: 2; admission: reads at clock 10 need 8") && Contains("; visibility: eager (") &&
                 Contains("; table 0: dense ") && Contains("; merge of table 0: sum (") && !Contains("pace: "));
  CHECK_THAT(said_of(with(rules(ssp{}), named_pace{{5}})), Contains("; pace: 0000000000000005"));
  auto const before_merge = [](rules const& p) {
    std::string const said = said_of(p);
    return said.substr(0, said.find("merge of"));
  };
  CHECK(before_merge(with(ssp{}, less_when_late{0.5})) == before_merge(with(ssp{}, less_when_late{3})));
  CHECK_THAT(blueprint({bsp{}, ssp{}}, 2, {describe(dense<double>{.rows = 4})}).agreement(),
             Contains("; protocol 0 admission: ") && Contains("; protocol 1 merge of table 0: sum"));
}
