// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/discount.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/fed_buff.hpp>
#include <rubato/protocol/k_async.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/staleness_aware.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>

#include "server/lone_number.hpp"

using namespace rubato;
using test::lone_number;
using test::numbers;

namespace {

/// Nobody is drawn for any but the first round.
struct first_round_only : unbounded {
  static constexpr bool by_round = true;
  [[nodiscard]] bool takes_part(worker_id, version_index round) const noexcept { return round.value() < 1; }
};

/// Worker 2 sits out every other round.
struct even_rounds_of_two : unbounded {
  static constexpr bool by_round = true;
  [[nodiscard]] bool takes_part(worker_id w, version_index round) const noexcept {
    return w.value() != 2 || round.value() % 2 == 0;
  }
};

}  // namespace

TEST_CASE("K-sync folds the mean of the first K, leaves the others out, and lets no one wait for them",
          "[server][rounds]") {
  lone_number s(k_sync{.k = 2}, 3);
  for (std::uint32_t w = 0; w < 3; ++w) CHECK(s.read(w));
  s.push(0, 2, 0);
  CHECK(s.value() == 0);
  CHECK_FALSE(s.read(0));
  s.push(2, 4, 0);
  CHECK(s.freed() == numbers{0});
  CHECK(s.value() == 3);
  CHECK(s.read(2));
  CHECK(s.round() == 1);
  s.push(1, 100, 0);
  CHECK(s.value() == 3);
  CHECK(s.read(1));
  s.server.inspect([](shard_control const& c) {
    CHECK(c.counters().late == 1);
    CHECK(c.counters().rounds == 1);
    CHECK(c.counters().commits == 3);
  });
}

TEST_CASE("a worker makes one commit of a round, also where it has not read since",
          "[server][rounds]") {
  lone_number s(k_sync{.k = 2}, 3);
  s.push(0, 2, 0);
  s.push(0, 2, 0);
  CHECK(s.value() == 0);
  lone_number batches(with(k_sync{.k = 2}, unbounded{}), 3);
  batches.push(0, 2, 0);
  CHECK(batches.read(0));
  batches.push(0, 4, 0);
  CHECK(batches.value() == 3);
}

TEST_CASE("a round is over without those that are gone", "[server][rounds]") {
  lone_number s(k_sync{.k = 3}, 3);
  s.push(0, 2, 0);
  s.push(1, 4, 0);
  CHECK_FALSE(s.read(0));
  CHECK_FALSE(s.read(1));
  s.order(membership_order::kind::freeze, 2, 0);
  s.order(membership_order::kind::drop, 2, 0);
  CHECK(s.freed().size() == 2);
  CHECK(s.value() == 3);
  s.order(membership_order::kind::drop, 0, 1);
  CHECK(s.read(1));
  s.push(1, 5, 1);
  CHECK(s.value() == 8);
}

TEST_CASE("a commit of a round before the first, or far ahead, is none", "[server][rounds]") {
  lone_number s(k_async{.k = 2}, 3);
  s.server.inspect([&](shard_control const& c) {
    auto const answer = [&](std::int64_t round) {
      return c.check({worker_id{0}, {}, c.stage()}, clock_index{0}, version_index{round});
    };
    CHECK(answer(0) == refusal::none);
    CHECK(answer(-1) == refusal::order);
    CHECK(answer(std::numeric_limits<std::int64_t>::min()) == refusal::order);
    CHECK(answer(std::numeric_limits<std::int64_t>::max()) == refusal::order);
  });
}

TEST_CASE("K-async folds late updates, too, and FedBuff by how late they are", "[server][rounds]") {
  lone_number s(k_async{.k = 2}, 3);
  s.push(0, 2, 0);
  s.push(1, 4, 0);
  CHECK(s.value() == 3);
  s.push(2, 10, 0);
  CHECK(s.read(2));  // what it has committed is not in, but there is something new
  CHECK(s.round() == 1);
  s.push(0, 2, 1);
  CHECK(s.value() == 9);

  lone_number b(fed_buff{.k = 1}, 2);
  for (std::int64_t i = 0; i < 3; ++i) b.push(0, 1, i);
  CHECK(b.value() == 3);
  b.push(1, 8, 0);  // three rounds old
  CHECK(b.value() == 3 + 8 / 2.0);

  lone_number two(fed_buff{.k = 2}, 2);
  two.push(0, 2, 0);
  two.push(0, 4, 0);  // a mean, also where one worker has sent all
  CHECK(two.value() == 3);
}

TEST_CASE("FedAvg lets those read that are drawn, and waits for no one else", "[server][rounds]") {
  sampled const draw{{}, 2, 5, 7};
  lone_number s(fed_avg{.clients = 2, .of = 5, .seed = 7}, 5);
  // Rounds that nobody was there for are over.
  version_index const now = s.server.inspect([](shard_control const& c) { return c.round(); });
  std::vector<std::uint32_t> in;
  for (std::uint32_t w = 0; w < 5; ++w) {
    CHECK(s.read(w) == draw.takes_part(worker_id{w}, now));
    if (draw.takes_part(worker_id{w}, now)) in.push_back(w);
  }
  REQUIRE(in.size() == 2);
  s.push(in[0], 2, now.value());
  s.push(in[1], 4, now.value());
  CHECK(s.value() == 3);
  CHECK_FALSE(s.freed().empty());
  for (std::uint32_t const w : s.freed()) CHECK(draw.takes_part(worker_id{w}, version_index{now.value() + 1}));
}

TEST_CASE("one that was drawn for a round which went on without it takes part in the one under way",
          "[server][rounds]") {
  lone_number s(with(k_sync{.k = 2}, even_rounds_of_two{}), 3);
  s.push(0, 2, 0);
  s.push(1, 4, 0);
  CHECK(s.read(2));  // for round 0, as another server may have it that waits for it there
  CHECK(s.round() == 1);
  s.push(2, 1, 1);
  CHECK_FALSE(s.read(2));
  s.push(0, 3, 1);
  CHECK(s.value() == 5);
  CHECK(s.freed() == numbers{2});
}

TEST_CASE("an update's age is the number of folds since its worker has read", "[server][rounds]") {
  lone_number s(staleness_aware{}, 2);
  CHECK(s.read(0));
  CHECK(s.read(1));
  s.push(0, 1, 0);
  s.push(0, 1, 0);
  CHECK(s.read(0));
  s.push(0, 1, 0);
  CHECK(s.value() == 3);
  s.push(1, 6, 0);
  CHECK(s.value() == 5);
  CHECK(s.read(1));
  s.push(1, 6, 0);
  CHECK(s.value() == 11);
}

TEST_CASE("an admission by which nobody takes part any more is an error, and no end of rounds", "[server][rounds]") {
  lone_number s(with(rules(fed_avg{.clients = 1, .of = 2}), first_round_only{}), 2);
  for (std::uint32_t w = 0; w < 2; ++w) CHECK(s.read(w));
  std::vector<worker_id> released;
  CHECK_THROWS_WITH(
      s.server.commit({.from = {worker_id{0}, {}, stage_id{1}}, .stamp = {}, .version = {}, .parts = {{}}, .arrived = {}},
                      released),
      Catch::Contains("none of the workers takes part in any of 65536 rounds from round 1 on"));
}

TEST_CASE("rounds go with what knows them only", "[server][rounds]") {
  dense<double> const table{.rows = 1};
  auto const refused = [&](rules const& p, char const* why) {
    CHECK_THROWS_WITH((test::lone_shard{p, table}), Catch::Contains(why));
  };
  refused(with(rules(k_sync{}), eager{}), "its visibility knows none");
  refused(with(rules(k_sync{.k = 2}), bounded_staleness{staleness{2}}), "rounds may leave out");
  refused(k_sync{.k = 0}, "a round of 0 commits");
  CHECK_THROWS_WITH((test::lone_shard{with(rules(dyn_sgd{}), unbounded{}, quorum{}), multi_version{table}}),
                    Catch::Contains("rounds do, too"));
}
