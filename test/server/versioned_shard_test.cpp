// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/shard.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/storage/multi_version.hpp>

#include "at.hpp"
#include "server/lone_shard.hpp"
#include "storage/updates.hpp"

using namespace rubato;
using test::at;

namespace {

/// A shard that keeps versions. Workers count from 1, as in the paper, and only row 2 is of interest.
class one_row : public test::lone_shard {
 public:
  template <table_spec Table>
  one_row(rules protocol, std::uint32_t workers, Table const& table)
      : lone_shard(std::move(protocol), table), clocks(workers + 1) {
    for (std::uint32_t w = 1; w <= workers; ++w) order(membership_order::kind::enlist, w, 0);
  }
  one_row(rules protocol, std::uint32_t workers)
      : one_row(std::move(protocol), workers, multi_version{dense<double>{.rows = 4}}) {}

  /// A worker that knows no more than this shard stamps with the version the shard holds for it.
  refusal commit(std::uint32_t w, double value) { return commit(w, value, version(w)); }
  refusal commit(std::uint32_t w, double value, std::int64_t v) {
    return lone_shard::commit(w, clocks[w]++, version_index{v}, test::keyed<double>({2}, {value}));
  }

  double pull(std::uint32_t w, shared_cut cut = nullptr) {
    slot.asked = selection::rows;
    slot.rows = {2};
    auto const [refused, done] = admit(
        {{worker_id{w}, {}, stage_id{1}}, at(clocks[w]), staleness::infinite(), std::move(cut)});
    REQUIRE(refused == refusal::none);
    REQUIRE(done);
    return slot.values.as<double>()[0];
  }
  /// What is not of a live version.
  double base() const {
    version_share const nothing = [](version_state const&) { return 0.0; };
    std::uint64_t const row = 2;
    double out = -1;
    server.host(0).read({&row, 1}, reinterpret_cast<std::byte*>(&out), {.share = &nothing});
    return out;
  }

  std::int64_t version(std::uint32_t w) const {
    return server.inspect(
        [w](auto const& control) { return control.versions().of(worker_id{w}).value(); });
  }
  std::vector<std::int64_t> versions() const {
    std::vector<std::int64_t> all;
    for (std::uint32_t w = 1; w < clocks.size(); ++w) all.push_back(version(w));
    return all;
  }
  /// The live versions with the number of their updates.
  std::vector<std::pair<std::int64_t, std::uint32_t>> live() const {
    std::vector<std::pair<std::int64_t, std::uint32_t>> all;
    server.host(0).for_each_version(
        [&](version_state const& v) { all.emplace_back(v.version.value(), v.updates); });
    return all;
  }

  std::vector<std::int64_t> clocks;
};

using clocks = std::vector<std::int64_t>;
using live_versions = std::vector<std::pair<std::int64_t, std::uint32_t>>;

constexpr double a = 12, b = 24, c = 36, d = 60, e = 84, f = 132, g = 156;

shared_cut cut(std::vector<std::int64_t> below, std::int64_t c_min) {
  std::vector<clock_index> all{at(0)};  // worker 0 is none here
  for (std::int64_t const k : below) all.push_back(at(k));
  return std::make_shared<commit_cut const>(std::move(all), at(c_min));
}

}  // namespace

TEMPLATE_TEST_CASE("vector V1: 000 App. C, step by step (rules 4)", "[server][dyn_sgd]",
                   dense<double>, sparse<double>) {
  one_row s(dyn_sgd{}, 4, multi_version{TestType{.rows = 4}});
  s.commit(1, a);
  s.commit(1, b);
  CHECK(s.versions() == clocks{2, 0, 0, 0});
  CHECK(s.live() == live_versions{{0, 1}, {1, 1}});
  s.commit(2, c);
  CHECK(s.versions() == clocks{2, 1, 0, 0});
  s.commit(3, d);
  CHECK(s.versions() == clocks{2, 1, 1, 0});
  CHECK(s.live() == live_versions{{0, 3}, {1, 1}});
  s.commit(1, e);
  CHECK(s.versions() == clocks{3, 1, 1, 0});
  CHECK(s.live() == live_versions{{0, 3}, {1, 1}, {2, 1}});

  CHECK(s.pull(2) == (a + c + d) / 3 + b + e);
  CHECK(s.versions() == clocks{3, 3, 1, 0});
  CHECK(s.slot.stamp.version == version_index{3});
  CHECK(s.slot.stamp.server_clock == at(0));

  s.commit(4, f);
  CHECK(s.live() == live_versions{{1, 1}, {2, 1}});  // version 0 has expired
  CHECK(s.server.host(0).bytes() > 0);
  CHECK(s.base() == (a + c + d + f) / 4);

  s.commit(2, g);
  CHECK(s.versions() == clocks{3, 4, 1, 1});
  CHECK(s.live() == live_versions{{1, 1}, {2, 1}, {3, 1}});
  CHECK(s.pull(1) == (a + c + d + f) / 4 + b + e + g);
  CHECK(s.version(1) == 4);
}

TEST_CASE("versioned shard: a read that asks for no rows leaves its version alone") {
  one_row s(dyn_sgd{}, 2);
  s.commit(1, a);
  s.slot.asked = selection::nothing;
  (void)s.admit({{worker_id{2}, {}, stage_id{1}}, at(0), staleness{3}, {}});
  CHECK(s.version(2) == 0);
  CHECK(s.slot.stamp.version == version_index{0});
}

TEST_CASE("versioned shard: a commit of a version that was left behind is refused, whole") {
  one_row s(dyn_sgd{}, 2);
  s.commit(1, a);
  (void)s.pull(2);
  CHECK(s.version(2) == 1);
  CHECK(s.live().empty());  // nobody needs version 0 any more
  CHECK(s.commit(2, b, 0) == refusal::old_version);
  CHECK(s.live().empty());
  CHECK(s.pull(1) == a);
  --s.clocks[2];
  CHECK(s.commit(2, b, 5) == refusal::none);  // another shard had answered with 5
  CHECK(s.versions() == clocks{1, 6});
}

TEST_CASE("versioned shard: capped, a pull raises V to the greatest clock only") {
  auto const capped = with(dyn_sgd{}, revise{.kept = versions::capped});
  one_row s(capped, 2);
  s.commit(1, a);
  s.commit(1, b, 7);  // far ahead in versions, at clock 2
  (void)s.pull(2);
  CHECK(s.version(2) == 2);
  one_row exact(dyn_sgd{}, 2);
  exact.commit(1, a);
  exact.commit(1, b, 7);
  (void)exact.pull(2);
  CHECK(exact.version(2) == 8);
}

TEST_CASE("versioned shard: versions that only waited for a leaver expire with it") {
  one_row s(dyn_sgd{}, 3);
  for (int i = 0; i < 2; ++i) {
    s.commit(1, a);
    s.commit(2, b);
  }
  CHECK(s.live() == live_versions{{0, 2}, {1, 2}});
  s.order(membership_order::kind::freeze, 3, 0);
  CHECK(s.live().size() == 2);
  s.order(membership_order::kind::drop, 3, 0);
  CHECK(s.live().empty());
  CHECK(s.pull(1) == (a + b) / 2 * 2);
}

TEST_CASE("versioned shard: a joiner starts at top, or where another shard is") {
  one_row s(dyn_sgd{}, 2);
  s.commit(1, a);
  s.commit(1, b);  // worker 2 is still at version 0
  s.clocks.push_back(0);
  auto const said = s.order(membership_order::kind::enlist, 3, 0);
  REQUIRE(said);
  CHECK(said->version == version_index{2});
  CHECK(s.versions() == clocks{2, 0, 2});
  std::vector<worker_id> released;
  s.server.order({membership_order::kind::start, worker_id{3}, {}, at(0), epoch_id{++s.epoch},
                  stage_id{1}, version_index{5}},
                 released);
  CHECK(s.version(3) == 5);
}

TEST_CASE("versioned shard: strict visibility holds commits back, and their versions live on") {
  auto const strict_dyn = with(dyn_sgd{.staleness = 1}, strict{});
  one_row s(strict_dyn, 2);
  s.commit(1, a);
  s.commit(1, b);  // stamp 1 is held back until the slowest worker is at clock 1
  CHECK(s.pull(2) == a);
  CHECK(s.version(2) == 1);  // not 2: the answer does not include version 1
  s.commit(2, c);
  CHECK(s.pull(2) == a + (b + c) / 2);
}

TEST_CASE("a synchronized read reflects exactly its cut, folded or not (PS-1)", "[server]") {
  auto const p = with(dyn_sgd{}, stable_cut{});
  one_row s(p, 2);
  s.commit(1, a);
  s.commit(1, b);
  s.commit(2, c);
  CHECK(s.pull(2, cut({0, 0}, 0)) == 0);
  CHECK(s.version(2) == 1);
  CHECK(s.pull(1, cut({1, 0}, 0)) == a);
  CHECK(s.pull(1, cut({1, 1}, 1)) == (a + c) / 2);
  CHECK(s.pull(1, cut({2, 1}, 1)) == (a + c) / 2 + b);
  CHECK(s.slot.stamp.included == at(2));
  CHECK(s.slot.stamp.server_clock == at(1));
  CHECK(s.pull(2, cut({2, 1}, 1)) == (a + c) / 2 + b);
  CHECK(s.version(2) == 2);  // top as of the cut

  std::vector<worker_id> released;
  s.server.advance(stage_id{1}, *cut({1, 0}, 0), released);
  CHECK(s.pull(2, cut({2, 1}, 1)) == (a + c) / 2 + b);
  CHECK(s.pull(2, cut({1, 1}, 1)) == (a + c) / 2);
  s.server.advance(stage_id{1}, *cut({2, 1}, 1), released);
  CHECK(s.live() == live_versions{});  // both workers are at version 2
  CHECK(s.pull(2, cut({2, 1}, 1)) == (a + c) / 2 + b);
  CHECK(s.server.memory().log == 0);
}

TEST_CASE("a synchronized read of a cut that is not there is refused", "[server]") {
  auto const p = with(dyn_sgd{}, stable_cut{});
  one_row s(p, 2);
  s.commit(1, a);
  std::vector<worker_id> released;
  s.server.advance(stage_id{1}, *cut({1, 0}, 0), released);
  auto const ask = [&](shared_cut k) {
    s.slot.asked = selection::rows;
    s.slot.rows = {2};
    return s.admit({{worker_id{2}, {}, stage_id{1}}, at(0), staleness{3}, std::move(k)}).first;
  };
  CHECK(ask(nullptr) == refusal::cut);
  CHECK(ask(cut({2, 0}, 0)) == refusal::cut);  // not received
  CHECK(ask(cut({0, 0}, 0)) == refusal::cut);  // folded already
  CHECK(ask(cut({1, 0}, 0)) == refusal::none);
}

TEST_CASE("an observer under stable_cut sees what has been received", "[server]") {
  auto const p = with(dyn_sgd{}, stable_cut{});
  one_row s(p, 2);
  s.commit(1, a);
  s.commit(2, c);
  table_state state;
  s.server.observe(0, state);
  CHECK(test::elements_of<double>(state, 0, 4) == std::vector<double>{0, 0, (a + c) / 2, 0});
}
