// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/shard.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <rubato/core/null_mutex.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/storage/multi_version.hpp>

using namespace rubato;

namespace {

constexpr clock_index at(std::int64_t value) { return clock_index{value}; }

/// One shard with one row of zeros, without any transport. Workers count from 1, as in the paper.
template <protocol Protocol, class Table>
class lone_shard {
 public:
  using store_type = typename Table::template store<null_mutex>;
  using shard_type = shard<null_mutex, Protocol, Table>;

  struct make_store {
    operator store_type() const {
      if constexpr (Table::bounded)
        return store_type(4, 1,
                          [](std::size_t, std::size_t n, double* out) { std::fill_n(out, n, 0.0); });
      else
        return store_type(1);
    }
  };

  lone_shard(Protocol const& p, std::uint32_t workers)
      : server(p, typename shard_type::merges(p.merge()), make_store{}), clocks(workers + 1) {
    server.begin_stage(stage_id{1});
    for (std::uint32_t w = 1; w <= workers; ++w) order(membership_order::kind::enlist, w, 0);
  }

  std::optional<membership_report> order(membership_order::kind what, std::uint32_t w,
                                         std::int64_t c) {
    std::vector<worker_id> released;
    return server.order({what, worker_id{w}, {}, at(c), epoch_id{++epoch}, stage_id{1}, {}},
                        released);
  }

  /// A worker that knows no more than this shard stamps with the version the shard holds for it.
  refusal commit(std::uint32_t w, double value) { return commit(w, value, version(w)); }
  refusal commit(std::uint32_t w, double value, std::int64_t v) {
    std::vector<worker_id> released;
    auto part = std::make_shared<update<double>>();
    part->rows = {2};
    part->values = {value};
    return server.commit(
        {{worker_id{w}, {}, stage_id{1}}, at(clocks[w]++), version_index{v}, {part}}, released);
  }

  double pull(std::uint32_t w, shared_cut cut = nullptr) {
    slot.asked = selection::rows;
    slot.rows = {2};
    read_header const header{
        {worker_id{w}, {}, stage_id{1}}, at(clocks[w]), staleness::infinite(), std::move(cut)};
    auto const [refused, done] = server.template admit<0>(header, slot);
    REQUIRE(refused == refusal::none);
    REQUIRE(done);
    return slot.values[0];
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
    for (auto const& v : server.template store<0>().versions())
      all.emplace_back(v.version.value(), v.updates);
    return all;
  }

  shard_type server;
  read_slot<store_type> slot;
  std::vector<std::int64_t> clocks;
  std::uint64_t epoch = 0;
};

using table = multi_version<dense<double>>;
using sparse_table = multi_version<sparse<double>>;
using clocks = std::vector<std::int64_t>;
using live_versions = std::vector<std::pair<std::int64_t, std::uint32_t>>;

constexpr double a = 12, b = 24, c = 36, d = 60, e = 84, f = 132, g = 156;

shared_cut cut(std::vector<std::int64_t> below, std::int64_t c_min) {
  std::vector<clock_index> all{at(0)};  // worker 0 is none here
  for (std::int64_t const k : below) all.push_back(at(k));
  return std::make_shared<commit_cut const>(std::move(all), at(c_min));
}

}  // namespace

TEMPLATE_TEST_CASE("vector V1: 000 App. C, step by step (rules 4)", "[server][dyn_sgd]", table,
                   sparse_table) {
  lone_shard<dyn_sgd, TestType> s(dyn_sgd{}, 4);
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
  CHECK(s.server.template store<0>().bytes() > 0);
  double in_base = -1;
  std::uint64_t const row = 2;
  s.server.template store<0>().base().read({&row, 1}, &in_base);
  CHECK(in_base == (a + c + d + f) / 4);

  s.commit(2, g);
  CHECK(s.versions() == clocks{3, 4, 1, 1});
  CHECK(s.live() == live_versions{{1, 1}, {2, 1}, {3, 1}});
  CHECK(s.pull(1) == (a + c + d + f) / 4 + b + e + g);
  CHECK(s.version(1) == 4);
}

TEST_CASE("versioned shard: a read that asks for no rows leaves its version alone") {
  lone_shard<dyn_sgd, table> s(dyn_sgd{}, 2);
  s.commit(1, a);
  s.slot.asked = selection::nothing;
  (void)s.server.admit<0>({{worker_id{2}, {}, stage_id{1}}, at(0), staleness{3}, {}}, s.slot);
  CHECK(s.version(2) == 0);
  CHECK(s.slot.stamp.version == version_index{0});
}

TEST_CASE("versioned shard: a commit of a version that was left behind is refused, whole") {
  lone_shard<dyn_sgd, table> s(dyn_sgd{}, 2);
  s.commit(1, a);
  (void)s.pull(2);
  CHECK(s.version(2) == 1);
  CHECK(s.live().empty());  // nobody needs version 0 any more
  CHECK(s.commit(2, b, 0) == refusal::version);
  CHECK(s.live().empty());
  CHECK(s.pull(1) == a);
  --s.clocks[2];
  CHECK(s.commit(2, b, 5) == refusal::none);  // another shard had answered with 5
  CHECK(s.versions() == clocks{1, 6});
}

TEST_CASE("versioned shard: capped, a pull raises V to the greatest clock only") {
  auto const capped = with(dyn_sgd{}, revise{.kept = versions::capped});
  lone_shard<std::remove_cv_t<decltype(capped)>, table> s(capped, 2);
  s.commit(1, a);
  s.commit(1, b, 7);  // far ahead in versions, at clock 2
  (void)s.pull(2);
  CHECK(s.version(2) == 2);
  lone_shard<dyn_sgd, table> exact(dyn_sgd{}, 2);
  exact.commit(1, a);
  exact.commit(1, b, 7);
  (void)exact.pull(2);
  CHECK(exact.version(2) == 8);
}

TEST_CASE("versioned shard: versions that only waited for a leaver expire with it") {
  lone_shard<dyn_sgd, table> s(dyn_sgd{}, 3);
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
  lone_shard<dyn_sgd, table> s(dyn_sgd{}, 2);
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
  lone_shard<std::remove_cv_t<decltype(strict_dyn)>, table> s(strict_dyn, 2);
  s.commit(1, a);
  s.commit(1, b);  // stamp 1 is held back until the slowest worker is at clock 1
  CHECK(s.pull(2) == a);
  CHECK(s.version(2) == 1);  // not 2: the answer does not include version 1
  s.commit(2, c);
  CHECK(s.pull(2) == a + (b + c) / 2);
}

TEST_CASE("a synchronized read reflects exactly its cut, folded or not (PS-1)", "[server]") {
  auto const p = with(dyn_sgd{}, stable_cut{});
  lone_shard<std::remove_cv_t<decltype(p)>, table> s(p, 2);
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
  lone_shard<std::remove_cv_t<decltype(p)>, table> s(p, 2);
  s.commit(1, a);
  std::vector<worker_id> released;
  s.server.advance(stage_id{1}, *cut({1, 0}, 0), released);
  auto const ask = [&](shared_cut k) {
    s.slot.asked = selection::rows;
    s.slot.rows = {2};
    return s.server
        .admit<0>({{worker_id{2}, {}, stage_id{1}}, at(0), staleness{3}, std::move(k)}, s.slot)
        .first;
  };
  CHECK(ask(nullptr) == refusal::cut);
  CHECK(ask(cut({2, 0}, 0)) == refusal::cut);  // not received
  CHECK(ask(cut({0, 0}, 0)) == refusal::cut);  // folded already
  CHECK(ask(cut({1, 0}, 0)) == refusal::none);
}

TEST_CASE("an observer under stable_cut sees what has been received", "[server]") {
  auto const p = with(dyn_sgd{}, stable_cut{});
  lone_shard<std::remove_cv_t<decltype(p)>, table> s(p, 2);
  s.commit(1, a);
  s.commit(2, c);
  table::store<null_mutex>::snapshot_type state;
  s.server.observe<0>(state);
  std::vector<double> out(4);
  state.copy(0, 4, out.data());
  CHECK(out == std::vector<double>{0, 0, (a + c) / 2, 0});
}
