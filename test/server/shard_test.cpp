// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/shard.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>

#include "at.hpp"
#include "server/lone_shard.hpp"
#include "storage/updates.hpp"

using namespace rubato;
using test::at;

namespace {

/// A shard with four rows of zeros and some workers.
class four_rows : public test::lone_shard {
 public:
  four_rows(rules protocol, std::uint32_t workers)
      : lone_shard(std::move(protocol), dense<double>{.rows = 4}) {
    for (std::uint32_t w = 0; w < workers; ++w) order(membership_order::kind::enlist, w, 0);
  }

  refusal commit(std::uint32_t w, std::int64_t stamp, std::vector<double> const& values) {
    return lone_shard::commit(w, stamp, {}, values.empty() ? update{} : test::whole(values));
  }

  std::vector<double> parameters() const {
    std::vector<double> out(4);
    std::vector<std::uint64_t> const rows{0, 1, 2, 3};
    server.host(0).read(rows, reinterpret_cast<std::byte*>(out.data()), {});
    return out;
  }
};

using worker_ids = std::vector<worker_id>;
using report = membership_report;

}  // namespace

TEST_CASE("shard: under BSP nothing is folded before the clock is complete, then the mean of all") {
  four_rows s(bsp{}, 2);
  CHECK(s.commit(1, 0, {2, 4, 6, 8}) == refusal::none);
  CHECK(s.parameters() == std::vector<double>(4));
  auto const [refused, admitted] =
      s.admit({{worker_id{1}, {}, stage_id{1}}, at(1), staleness{0}, {}});
  CHECK(refused == refusal::none);
  CHECK_FALSE(admitted);
  CHECK(s.commit(0, 0, {0, 0, 2, 2}) == refusal::none);
  CHECK(s.parameters() == std::vector<double>{1, 2, 4, 5});
  CHECK(s.released == worker_ids{worker_id{1}});
}

TEST_CASE("shard: under SSP each commit is folded as it comes") {
  four_rows s(ssp{.staleness = 1}, 2);
  s.commit(0, 0, {1, 1, 1, 1});
  CHECK(s.parameters() == std::vector<double>{1, 1, 1, 1});
  s.commit(0, 1, {1, 0, 0, 0});
  CHECK(s.parameters() == std::vector<double>{2, 1, 1, 1});
  auto const [refused, admitted] =
      s.admit({{worker_id{0}, {}, stage_id{1}}, at(2), staleness{1}, {}});
  CHECK(refused == refusal::none);
  CHECK_FALSE(admitted);
  s.commit(1, 0, {});
  CHECK(s.released == worker_ids{worker_id{0}});
  read_stamp stamp;
  s.server.read_released(0, {{worker_id{0}, {}, stage_id{1}}, at(2), staleness{1}, {}}, s.slot);
  stamp = s.slot.stamp;
  CHECK(stamp.server_clock == at(1));
  CHECK(stamp.included == at(2));
}

TEST_CASE("shard: a refused commit changes nothing but a counter") {
  four_rows s(ssp{}, 1);
  CHECK(s.commit(0, 3, {1, 1, 1, 1}) == refusal::order);
  CHECK(s.commit(7, 0, {1, 1, 1, 1}) == refusal::stranger);
  CHECK(s.parameters() == std::vector<double>(4));
  CHECK(s.released.empty());
  s.server.inspect([](auto const& control) {
    CHECK(control.counters().refused == 2);
    CHECK(control.counters().commits == 0);
  });
  CHECK(s.admit({{worker_id{7}, {}, stage_id{1}}, at(0), staleness{0}, {}}).first ==
        refusal::stranger);
  CHECK(s.admit({{worker_id{0}, {}, stage_id{9}}, at(0), staleness{0}, {}}).first ==
        refusal::stage);
}

TEST_CASE("shard: a leave folds what it completes and releases who waited for it") {
  four_rows s(bsp{}, 3);
  s.commit(0, 0, {3, 0, 0, 0});
  s.commit(2, 0, {1, 0, 0, 0});
  CHECK_FALSE(s.admit({{worker_id{2}, {}, stage_id{1}}, at(1), staleness{0}, {}}).second);
  CHECK_FALSE(s.order(membership_order::kind::drop, 1, 0));
  CHECK(s.parameters() == std::vector<double>{2, 0, 0, 0});  // M = 2
  CHECK(s.released == worker_ids{worker_id{2}});
}

TEST_CASE("shard: enlist reports c_min and freeze what has been received") {
  four_rows s(ssp{}, 1);
  s.commit(0, 0, {});
  s.commit(0, 1, {});
  CHECK(s.order(membership_order::kind::enlist, 1, 0) == report{at(2)});
  CHECK_FALSE(s.order(membership_order::kind::start, 1, 4));
  CHECK(s.commit(1, 4, {}) == refusal::none);
  CHECK(s.order(membership_order::kind::freeze, 1, 0) == report{at(5)});
  CHECK_FALSE(s.order(membership_order::kind::drop, 1, 5));
}

TEST_CASE("shard: momentum makes one velocity step per clock under the barrier, one per commit "
          "otherwise (003 Eq. 1, rules §4)") {
  auto const step_twice = [](auto& s) {
    for (std::int64_t stamp = 0; stamp < 2; ++stamp)
      for (std::uint32_t w = 0; w < 2; ++w) s.commit(w, stamp, {4, 0, 0, 0});
    return s.parameters()[0];
  };
  momentum const m{.mu = 0.5, .eta = 0.5};
  four_rows barred(with(bsp{}, m), 2);
  CHECK(step_twice(barred) == 4 + 6);  // v: 4, 2 + 4
  four_rows loose(with(ssp{}, m), 2);
  CHECK(step_twice(loose) == 2 + 3 + 3.5 + 3.75);  // v: 2, 1 + 2, …
}

TEST_CASE("shard: a commit without updates still makes a velocity step, and else costs nothing") {
  momentum const m{.mu = 0.5, .eta = 1.0};
  four_rows s(with(ssp{}, m), 1);
  s.commit(0, 0, {8, 0, 0, 0});
  s.commit(0, 1, {});
  CHECK(s.parameters()[0] == 12);
}

TEST_CASE("a shard carries out an order once, in its turn, and of this stage and life only (rules 1)",
          "[server]") {
  four_rows s(ssp{.staleness = 1}, 2);
  auto const send = [&](membership_order o) {
    s.released.clear();
    return s.server.order(o, s.released);
  };
  auto const refused = [&] {
    return s.server.inspect([](auto const& control) { return control.counters().refused; });
  };
  using kind = membership_order::kind;
  epoch_id const next{s.epoch + 1};

  CHECK_FALSE(send({kind::freeze, worker_id{0}, {}, {}, epoch_id{s.epoch}, stage_id{1}}));  // again
  CHECK_FALSE(send({kind::freeze, worker_id{0}, {}, {}, next, stage_id{2}}));
  CHECK_FALSE(send({kind::freeze, worker_id{0}, incarnation_id{1}, {}, next, stage_id{1}}));
  CHECK_FALSE(send({kind::freeze, worker_id{9}, {}, {}, next, stage_id{1}}));
  CHECK(refused() == 4);
  CHECK(send({kind::freeze, worker_id{0}, {}, {}, next, stage_id{1}}) == report{at(0)});
  CHECK(refused() == 4);
}

TEST_CASE("shard: a read that was withdrawn is released to nobody, and may be asked again") {
  four_rows s(bsp{}, 2);
  read_header const read{{worker_id{1}, {}, stage_id{1}}, at(1), staleness{0}, {}};
  CHECK(s.commit(1, 0, {1, 1, 1, 1}) == refusal::none);
  CHECK_FALSE(s.admit(read).second);
  s.server.withdraw(worker_id{1});
  CHECK_FALSE(s.admit(read).second);
  CHECK(s.commit(0, 0, {1, 1, 1, 1}) == refusal::none);
  CHECK(s.released == worker_ids{worker_id{1}});
}

TEST_CASE("shard: a leaver whose last commits will not come is let go, with those that have") {
  four_rows s(bsp{}, 2);
  CHECK(s.commit(1, 0, {2, 2, 2, 2}) == refusal::none);
  CHECK(s.commit(0, 0, {2, 2, 2, 2}) == refusal::none);
  (void)s.order(membership_order::kind::drop, 1, 3);  // two commits are still on their way
  CHECK(s.commit(0, 1, {4, 4, 4, 4}) == refusal::none);
  CHECK(s.parameters() == std::vector<double>(4, 2));
  s.released.clear();
  s.server.abandon(worker_id{1}, s.released);
  CHECK(s.parameters() == std::vector<double>(4, 6));
  CHECK(s.commit(1, 1, {1, 1, 1, 1}) == refusal::stranger);
  // Only leavers: a worker that is live stays.
  s.server.abandon(worker_id{0}, s.released);
  CHECK(s.commit(0, 2, {}) == refusal::none);
}

TEST_CASE("shard: whole updates may be folded run by run where nothing is held back and none has "
          "velocity") {
  auto const folds = [](rules p, auto const& table) {
    return test::lone_shard(std::move(p), table).server.folds_runs(0);
  };
  dense<double> const table{.rows = 4};
  CHECK(folds(ssp{}, table));
  CHECK_FALSE(folds(bsp{}, table));
  CHECK_FALSE(folds(with(ssp{}, momentum{}), table));
  CHECK_FALSE(folds(ssp{}, sparse<double>{}));

  four_rows s(with(ssp{}, average{}), 2);
  sender const from{worker_id{1}, {}, stage_id{1}};
  CHECK(s.server.check(from, at(0), {}) == refusal::none);
  CHECK(s.server.check(from, at(1), {}) == refusal::order);
  double const weight = s.server.weigh(0, from, at(0), {});
  CHECK(weight == 0.5);
  std::vector<double> const run{2, 4};
  s.server.fold_run(0, 1, std::as_bytes(std::span(run)), weight);
  CHECK(s.parameters() == std::vector<double>{0, 1, 2, 0});
  CHECK(s.commit(1, 0, {}) == refusal::none);  // which lets the clock move
  CHECK(s.parameters() == std::vector<double>{0, 1, 2, 0});
}

TEST_CASE("shard: says what it holds, and shows all that is folded to whoever is no worker") {
  four_rows s(bsp{}, 2);
  CHECK(s.server.memory().parameters == 4 * sizeof(double));
  CHECK(s.commit(1, 0, {2, 4, 6, 8}) == refusal::none);
  CHECK(s.server.memory().log == 4 * sizeof(double));
  table_state state;
  s.server.observe(0, state);
  CHECK(test::elements_of<double>(state, 0, 4) == std::vector<double>(4));
  s.commit(0, 0, {});
  CHECK(s.server.memory().log == 0);
  s.server.observe(0, state);
  CHECK(test::elements_of<double>(state, 0, 4) == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("shard: values that it has been given and is to forget are gone") {
  four_rows s(ssp{}, 1);
  s.server.host(0).assign(test::whole(std::vector<double>{1, 2, 3, 4}));
  REQUIRE(s.parameters() == std::vector<double>{1, 2, 3, 4});
  s.server.forget_values();
  CHECK(s.parameters() == std::vector<double>(4));
}

TEST_CASE("shard: a stage that is begun again finds what it found when it began, however often") {
  four_rows s(ssp{}, 2);
  CHECK(s.commit(0, 0, {1, 2, 3, 4}) == refusal::none);
  std::vector<double> const begun = s.parameters();
  s.server.begin_stage(stage_id{2}, 0, false, recovery::keep);
  for (int again = 0; again < 3; ++again) {
    std::vector<double> const run{5, 6};
    s.server.fold_run(0, 2, std::as_bytes(std::span(run)), 1.0);
    CHECK(s.parameters() != begun);
    s.server.begin_stage(stage_id{3}, 0, false, recovery::restore);
    CHECK(s.parameters() == begun);
  }
  std::vector<double> const run{5, 6};
  s.server.fold_run(0, 2, std::as_bytes(std::span(run)), 1.0);
  std::vector<double> const later = s.parameters();
  s.server.begin_stage(stage_id{4});
  CHECK(s.parameters() == later);
  s.server.begin_stage(stage_id{5}, 0, false, recovery::restore);  // nothing is kept any more: it stays as it is
  CHECK(s.parameters() == later);
}
