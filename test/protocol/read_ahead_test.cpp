// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/read_ahead.hpp>

#include <catch2/catch.hpp>

#include <concepts>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/essp.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/testing/conformance.hpp>

#include "seeds.hpp"

using namespace rubato;
using Catch::Matchers::Contains;

namespace {

/// Renews copies that lack a clock or more.
struct behind {
  [[nodiscard]] bool renews(read_point at) const noexcept { return at.age > staleness{0}; }
};
static_assert(read_policy<behind> && protocol<decltype(with(ssp{}, behind{}))>);

struct may_throw {
  bool renews(read_point) const { return true; }
};
static_assert(!read_policy<may_throw>);
static_assert(!read_policy<on_demand>);

bool renews(rules const& p, std::int64_t age) { return p.renews && p.renews({clock_index{9}, staleness{age}}); }

}  // namespace

TEST_CASE("how copies are renewed is a part of a protocol, which others leave as it is") {
  CHECK_FALSE(rules(ssp{}).renews);
  CHECK(renews(essp{}, 0));
  CHECK(renews(with(ssp{}, behind{}), 1));
  CHECK_FALSE(renews(with(ssp{}, behind{}), 0));
  CHECK_FALSE(rules(with(essp{}, on_demand{})).renews);
  CHECK(renews(with(essp{}, average{}, every{3}, strict{}, bounded_staleness{1}), 0));
  CHECK(renews(with(rules(ssp{}), behind{}), 1));
  CHECK_FALSE(with(rules(essp{}), on_demand{}).renews);
  CHECK(renews(with(rules(essp{}), average{}), 0));
  STATIC_REQUIRE(std::same_as<decltype(with(ssp{}, refreshed{}).reads()), refreshed>);
}

TEST_CASE("copies are not renewed where each read asks for itself: refused with a sentence") {
  auto const plan = [](rules p) { return blueprint(std::move(p), 1, {describe(dense<float>{.rows = 3})}); };
  CHECK_NOTHROW(plan(essp{}));
  CHECK_NOTHROW(plan(with(essp{}, strict{})));
  CHECK_THROWS_WITH(plan(with(essp{}, stable_cut{})), Contains("its visibility grants each read for itself: leave reads() out"));
  CHECK_THROWS_WITH(plan(with(k_sync{.k = 1}, refreshed{})), Contains("its visibility grants each read for itself"));
  for (rules const& p : {rules(psp{.of = 3}), rules(dssp{}), rules(vap{})})
    CHECK_THROWS_WITH(plan(with(p, refreshed{})), Contains("its admission lets in each read for itself"));
  CHECK_THROWS_WITH(plan(with(dc_asgd{}, refreshed{})), Contains("this merge goes by what a worker has read"));
  CHECK_THROWS_WITH(blueprint(with(dyn_sgd{}, refreshed{}), 1, {describe(multi_version{dense<float>{.rows = 3}})}),
                    Contains("this merge goes by what a worker has read"));
  CHECK_NOTHROW(plan(with(easgd{}, refreshed{})));
}

TEST_CASE("a protocol that renews copies conforms, and a policy of the user's, too") {
  testing::search const how{.schedules = test::seed_count(200)};
  CHECK(testing::check_protocol(essp{.staleness = 2}, how).empty());
  CHECK(testing::check_protocol(with(ssp{.staleness = 4}, behind{}), how).empty());
}
