// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/shard_control.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <rubato/protocol/admission.hpp>
#include <rubato/protocol/visibility.hpp>

#include "at.hpp"

using namespace rubato;
using test::at;

namespace {

constexpr stage_id now{3};

sender from(std::uint32_t worker, std::uint32_t incarnation = 0, stage_id stage = now) {
  return {worker_id{worker}, incarnation_id{incarnation}, stage};
}

using list = std::vector<std::string>;
using worker_numbers = std::vector<std::uint32_t>;

/// A shard's control with some workers at clock 0, driven as a shard drives it.
class bench {
 public:
  bench(admission_rule a, visibility_rule v, std::uint32_t workers)
      : control(std::move(a), std::move(v)) {
    control.begin_stage(now);
    for (std::uint32_t w = 0; w < workers; ++w) control.enlist(worker_id{w}, {});
  }

  refusal receive(std::uint32_t w, std::int64_t stamp) {
    refusal const r = control.accept(from(w), at(stamp));
    if (r != refusal::none) return r;
    if (control.holds_back()) control.hold({.from = from(w), .stamp = at(stamp)});
    control.complete(from(w), at(stamp));
    return r;
  }

  /// One group a string: "stamp/worker stamp/worker … M=…".
  list fold() {
    list out;
    for (auto const& group : control.take_ready()) {
      std::string all;
      std::uint32_t m = 0;
      for (auto const& [info, message, computed_at] : group.commits) {
        CHECK(message.stamp == info.stamp);
        CHECK(message.from.worker == info.from);
        all += std::to_string(info.stamp.value()) + "/" + std::to_string(info.from.value()) + " ";
        m = info.workers;
      }
      out.push_back(all + "M=" + std::to_string(m));
    }
    return out;
  }

  worker_numbers publish() {
    std::vector<worker_id> released;
    control.publish(released);
    worker_numbers out;
    for (worker_id const w : released) out.push_back(w.value());
    return out;
  }

  bool admit(std::uint32_t w, std::int64_t c) {
    return control.admit({from(w), at(c), control.admission().bound()});
  }

  shard_control control;
};

struct bsp_bench : bench {
  explicit bsp_bench(std::uint32_t workers) : bench(barrier{}, strict{}, workers) {}
};
struct strict_bench : bench {
  strict_bench(bounded_staleness s, std::uint32_t workers) : bench(s, strict{}, workers) {}
};
struct eager_bench : bench {
  eager_bench(bounded_staleness s, std::uint32_t workers) : bench(s, eager{}, workers) {}
};

}  // namespace

TEST_CASE("shard_control: a commit is accepted exactly once and in order; each refusal is "
          "counted") {
  eager_bench b({3}, 2);
  CHECK(b.control.accept(from(0, 0, stage_id{2}), at(0)) == refusal::stage);
  CHECK(b.control.accept(from(0, 0, stage_id{4}), at(0)) == refusal::stage);
  CHECK(b.control.accept(from(2), at(0)) == refusal::stranger);
  CHECK(b.control.accept(from(0, 1), at(0)) == refusal::incarnation);
  CHECK(b.control.accept(from(0), at(1)) == refusal::order);
  CHECK(b.control.counters().refused == 5);

  CHECK(b.receive(0, 0) == refusal::none);
  CHECK(b.receive(0, 0) == refusal::order);  // twice
  CHECK(b.receive(0, 1) == refusal::none);
  CHECK(b.control.counters().refused == 6);
  CHECK(b.control.counters().commits == 2);
  CHECK(b.control.workers().of(worker_id{0}) == at(2));
  CHECK(b.control.workers().of(worker_id{1}) == at(0));
}

TEST_CASE("shard_control: a new stage starts all clocks anew and takes nothing of the old "
          "(rules §1)") {
  eager_bench b({0}, 2);
  b.receive(0, 0);
  CHECK_FALSE(b.admit(0, 1));
  b.control.begin_stage(stage_id{4});
  CHECK(b.control.accept(from(0), at(1)) == refusal::stage);
  CHECK(b.control.accept(from(0, 0, stage_id{4}), at(1)) == refusal::stranger);
  CHECK(b.control.enlist(worker_id{0}, {}) == at(0));
  CHECK(b.control.accept(from(0, 0, stage_id{4}), at(0)) == refusal::none);
  CHECK(b.control.counters().commits == 0);
  CHECK(b.control.waiting().empty());
  CHECK(b.control.published() == at(0));
}

TEST_CASE("shard_control: a new stage drops what a run that was ended early left held back") {
  bsp_bench b(2);
  b.receive(0, 0);
  CHECK(b.control.held_back() == 1);
  b.control.begin_stage(stage_id{4});
  CHECK(b.control.held_back() == 0);
  b.control.enlist(worker_id{0}, {});
  CHECK(b.control.accept(from(0, 0, stage_id{4}), at(0)) == refusal::none);
  b.control.complete(from(0, 0, stage_id{4}), at(0));
  CHECK(b.fold().empty());
}

TEST_CASE("shard_control: the info of a commit says who, when, and how many workers there are") {
  eager_bench b({3}, 3);
  b.receive(1, 0);
  b.receive(1, 1);
  commit_info const i = b.control.info(worker_id{2}, at(0), version_index{6});
  CHECK(i.from == worker_id{2});
  CHECK(i.stamp == at(0));
  CHECK(i.c_min == at(0));
  CHECK(i.c_max == at(2));
  CHECK(i.workers == 3);
  CHECK(i.version == version_index{6});
}

TEST_CASE("shard_control: under the barrier each clock is one step, in worker order, M its "
          "commits") {
  bsp_bench b(3);
  b.receive(2, 0);
  b.receive(0, 0);
  CHECK(b.fold().empty());
  CHECK(b.control.held_back() == 2);
  b.receive(1, 0);
  CHECK(b.fold() == list{"0/0 0/1 0/2 M=3"});
  CHECK(b.fold().empty());
  CHECK(b.control.held_back() == 0);
}

TEST_CASE("shard_control: M is the number of commits of the stamp, also after a leave (rules §1)") {
  bsp_bench b(3);
  for (std::uint32_t w = 0; w < 3; ++w) b.receive(w, 0);
  CHECK(b.fold() == list{"0/0 0/1 0/2 M=3"});
  b.receive(2, 1);
  b.control.drop(worker_id{2}, at(2));  // leaves, and this commit counts
  b.receive(0, 1);
  CHECK(b.fold().empty());
  b.receive(1, 1);
  CHECK(b.fold() == list{"1/0 1/1 1/2 M=3"});
  b.receive(0, 2);
  b.receive(1, 2);
  CHECK(b.fold() == list{"2/0 2/1 M=2"});
}

TEST_CASE("shard_control: SSP(0) with strict visibility makes one step per clock, as the barrier") {
  strict_bench b({0}, 2);
  b.receive(1, 0);
  CHECK(b.fold().empty());
  b.receive(0, 0);
  CHECK(b.fold() == list{"0/0 0/1 M=2"});
}

TEST_CASE("shard_control: strict with s = 2 folds stamps below c_min + 2, one commit at a time "
          "(rules §2, SSP-4)") {
  strict_bench b({2}, 3);
  b.receive(1, 0);
  CHECK(b.fold() == list{"0/1 M=3"});
  b.receive(1, 1);
  b.receive(1, 2);  // at c_min + s
  CHECK(b.fold() == list{"1/1 M=3"});
  CHECK(b.control.held_back() == 1);
  b.receive(0, 0);
  b.receive(0, 1);
  b.receive(0, 2);
  CHECK(b.fold() == list{"0/0 M=3", "1/0 M=3"});
  b.receive(2, 0);  // c_min becomes 1
  CHECK(b.fold() == list{"0/2 M=3", "2/0 M=3", "2/1 M=3"});
}

TEST_CASE("shard_control: readers learn of a clock only when it has been folded and published") {
  bsp_bench b(2);
  CHECK(b.admit(0, 0));
  b.receive(0, 0);
  CHECK_FALSE(b.admit(0, 1));
  b.receive(1, 0);
  CHECK(b.control.published() == at(0));
  CHECK_FALSE(b.admit(1, 1));
  CHECK(b.fold().size() == 1);
  CHECK(b.control.published() == at(0));
  CHECK(b.publish() == worker_numbers{0, 1});
  CHECK(b.control.published() == at(1));
  CHECK(b.admit(0, 1));
  CHECK(b.publish().empty());
}

TEST_CASE("shard_control: a read says as included only what has been folded and published") {
  bsp_bench b(2);
  auto const included = [&](std::uint32_t w) { return b.control.stamp_for(worker_id{w}).included; };
  CHECK(included(0) == at(0));
  b.receive(0, 0);
  CHECK(included(0) == at(0));  // received, but held back
  b.receive(1, 0);
  (void)b.control.take_ready();
  CHECK(included(0) == at(0));  // taken, but not folded yet
  b.publish();
  CHECK(included(0) == at(1));
  CHECK(included(1) == at(1));
  CHECK(b.control.stamp_for(worker_id{0}).server_clock == at(1));
}

TEST_CASE("shard_control: under eager visibility all that was received is included") {
  eager_bench b({3}, 2);
  b.receive(0, 0);
  b.receive(0, 1);
  CHECK(b.control.stamp_for(worker_id{0}).included == at(2));
  CHECK(b.control.stamp_for(worker_id{1}).included == at(0));
  CHECK(b.control.stamp_for(worker_id{0}).server_clock == at(0));
}

TEST_CASE("shard_control: a commit held back after everybody had left is not said to be included") {
  bsp_bench b(1);
  b.receive(0, 0);
  b.control.drop(worker_id{0}, at(1));
  (void)b.control.take_ready();
  b.publish();
  CHECK(b.control.enlist(worker_id{1}, {}) == at(1));
  CHECK(b.control.enlist(worker_id{2}, {}) == at(1));
  b.receive(1, 1);
  CHECK(b.fold().empty());
  b.publish();
  CHECK(b.control.held_back() == 1);
  CHECK(b.control.stamp_for(worker_id{1}).included == at(1));
}

TEST_CASE("shard_control: a leave that lets c_min jump releases everybody whose need is met "
          "(rules §1)") {
  eager_bench b({0}, 4);
  for (std::int64_t stamp = 0; stamp < 3; ++stamp)
    for (std::uint32_t w = 0; w < 3; ++w) b.receive(w, stamp);
  CHECK_FALSE(b.admit(2, 3));
  CHECK_FALSE(b.admit(0, 1));
  CHECK_FALSE(b.admit(1, 2));
  CHECK(b.publish().empty());
  b.control.drop(worker_id{3}, at(0));
  CHECK(b.publish() == worker_numbers{0, 1, 2});
  CHECK(b.control.published() == at(3));
}

TEST_CASE("shard_control: a read may ask for less staleness than the protocol's (rules §2)") {
  eager_bench b({3}, 2);
  for (std::int64_t stamp = 0; stamp < 3; ++stamp) b.receive(0, stamp);
  CHECK(b.control.admit({from(0), at(3), staleness{3}}));
  CHECK_FALSE(b.control.admit({from(0), at(3), staleness{1}}));
  b.receive(1, 0);
  CHECK(b.publish().empty());
  b.receive(1, 1);
  CHECK(b.publish() == worker_numbers{0});
}

TEST_CASE("shard_control: a frozen worker's commits are refused, and those from the cut on are "
          "dropped where they are not folded (rules §1)") {
  bsp_bench b(2);
  b.receive(0, 0);
  b.receive(1, 0);
  (void)b.fold();
  b.publish();
  b.receive(1, 1);  // received here, not everywhere
  CHECK(b.control.freeze(worker_id{1}) == at(2));
  CHECK(b.receive(1, 2) == refusal::stranger);
  CHECK(b.control.counters().refused == 1);
  b.receive(0, 1);
  CHECK_FALSE(b.admit(0, 2));
  b.control.drop(worker_id{1}, at(1));
  CHECK(b.control.counters().dropped == 1);
  CHECK(b.control.counters().partly_folded == 0);
  CHECK(b.fold() == list{"1/0 M=1"});
  CHECK(b.publish() == worker_numbers{0});
  CHECK(b.control.workers().live() == 1);
}

TEST_CASE("shard_control: a lost worker's commit that is folded here only is counted (rules §1)") {
  eager_bench b({3}, 2);
  b.receive(1, 0);
  b.receive(1, 1);
  CHECK(b.control.freeze(worker_id{1}) == at(2));
  b.control.drop(worker_id{1}, at(1));
  CHECK(b.control.counters().dropped == 0);
  CHECK(b.control.counters().partly_folded == 1);
}

TEST_CASE("shard_control: who has returned still counts in M, the lost do not (rules §4)") {
  eager_bench b({3}, 4);
  auto const m = [&b] { return b.control.info(worker_id{0}, at(0), {}).workers; };
  b.control.drop(worker_id{1}, at(0));
  CHECK(m() == 4);
  b.control.freeze(worker_id{2});
  CHECK(m() == 4);
  b.control.drop(worker_id{2}, at(0));
  CHECK(m() == 3);
  b.control.drop(worker_id{3}, at(1));  // the goodbye overtook a commit
  CHECK(m() == 3);
  b.receive(3, 0);
  CHECK(m() == 3);
  b.control.enlist(worker_id{1}, incarnation_id{1});  // it comes back, and is one worker as before
  CHECK(m() == 3);
  b.control.freeze(worker_id{1});
  b.control.drop(worker_id{1}, at(0));
  CHECK(m() == 2);
  b.control.begin_stage(stage_id{4});
  b.control.enlist(worker_id{0}, {});
  CHECK(m() == 1);
}

TEST_CASE("shard_control: who returned and was lost with commits under way still counts in M, as where they came") {
  eager_bench b({3}, 2);
  b.control.drop(worker_id{1}, at(2));
  REQUIRE(b.control.abandon(worker_id{1}));
  CHECK(b.control.info(worker_id{0}, at(0), {}).workers == 2);
}

TEST_CASE("shard_control: who waits and is lost is not released later") {
  eager_bench b({0}, 3);
  b.receive(0, 0);
  CHECK_FALSE(b.admit(0, 1));
  b.control.freeze(worker_id{0});
  b.control.drop(worker_id{0}, at(1));
  b.receive(1, 0);
  b.receive(2, 0);
  CHECK(b.publish().empty());
}

TEST_CASE("shard_control: a leaver with commits under way stays until they have come (rules §1)") {
  bsp_bench b(2);
  b.control.drop(worker_id{1}, at(2));  // the goodbye overtook two commits
  CHECK(b.control.workers().live() == 2);
  b.receive(0, 0);
  CHECK(b.fold().empty());
  CHECK(b.receive(1, 0) == refusal::none);
  CHECK(b.fold() == list{"0/0 0/1 M=2"});
  CHECK(b.receive(1, 1) == refusal::none);
  CHECK(b.control.workers().live() == 1);
  CHECK(b.receive(1, 2) == refusal::stranger);
  b.receive(0, 1);
  CHECK(b.fold() == list{"1/0 1/1 M=2"});
}

TEST_CASE("shard_control: dropping somebody who is not here changes nothing") {
  eager_bench b({3}, 1);
  b.control.drop(worker_id{5}, at(0));
  b.control.drop(worker_id{0}, at(0));
  b.control.drop(worker_id{0}, at(0));
  CHECK(b.control.workers().live() == 0);
  CHECK(b.control.counters().dropped == 0);
}

TEST_CASE("shard_control: a joiner is registered at c_min, holds it there, then starts (rules "
          "§1)") {
  eager_bench b({0}, 2);
  for (std::int64_t stamp = 0; stamp < 4; ++stamp)
    for (std::uint32_t w = 0; w < 2; ++w) b.receive(w, stamp);
  b.publish();
  CHECK(b.control.enlist(worker_id{2}, {}) == at(4));
  b.receive(0, 4);
  b.receive(1, 4);
  CHECK(b.publish().empty());
  CHECK(b.control.published() == at(4));
  CHECK_FALSE(b.admit(0, 5));
  b.control.start(worker_id{2}, at(5));  // another shard was further on
  CHECK(b.publish() == worker_numbers{0});
  CHECK(b.control.published() == at(5));
  CHECK(b.receive(2, 4) == refusal::order);
  CHECK(b.receive(2, 5) == refusal::none);
}

TEST_CASE("shard_control: who comes back begins after the commits of its earlier life that count") {
  bsp_bench b(2);
  b.receive(1, 0);  // and waits for worker 0
  CHECK(b.control.freeze(worker_id{1}) == at(1));
  b.control.drop(worker_id{1}, at(1));
  CHECK(b.control.enlist(worker_id{1}, incarnation_id{1}) == at(1));
  b.control.start(worker_id{1}, at(1));
  CHECK(b.control.check({worker_id{1}, incarnation_id{1}, b.control.stage()}, at(0), {}) ==
        refusal::order);
  b.receive(0, 0);
  CHECK(b.fold() == list{"0/0 0/1 M=2"});
  // Lost before it has sent anything, it takes nothing of its earlier life with it.
  b.receive(0, 1);
  b.control.freeze(worker_id{1});
  b.control.drop(worker_id{1}, at(0));
  CHECK(b.control.counters().dropped == 0);
  CHECK(b.control.counters().partly_folded == 0);
  CHECK(b.control.enlist(worker_id{1}, incarnation_id{2}) == at(2));
}

TEST_CASE("shard_control: a goodbye from before a joiner's first clock drops no earlier commit") {
  bsp_bench b(2);
  b.receive(1, 0);
  b.control.freeze(worker_id{1});
  b.control.drop(worker_id{1}, at(1));
  b.control.enlist(worker_id{1}, incarnation_id{1});
  b.control.start(worker_id{1}, at(1));
  b.control.drop(worker_id{1}, at(0));
  CHECK(b.control.held_back() == 1);
  b.receive(0, 0);
  CHECK(b.fold() == list{"0/0 0/1 M=2"});
}

TEST_CASE("shard_control: what is published never falls, also when everybody leaves and joins") {
  eager_bench b({0}, 2);
  for (std::int64_t stamp = 0; stamp < 4; ++stamp)
    for (std::uint32_t w = 0; w < 2; ++w) b.receive(w, stamp);
  b.publish();
  b.control.drop(worker_id{0}, at(4));
  b.control.drop(worker_id{1}, at(4));
  b.publish();
  CHECK(b.control.published() == at(4));
  CHECK(b.control.enlist(worker_id{2}, {}) == at(4));
  b.publish();
  CHECK(b.control.published() == at(4));
}

TEST_CASE("shard_control: starting a joiner that was lost meanwhile does nothing") {
  eager_bench b({0}, 1);
  b.control.enlist(worker_id{1}, {});
  b.control.freeze(worker_id{1});
  b.control.start(worker_id{1}, at(7));
  CHECK(b.control.workers().of(worker_id{1}) == at(0));
}

TEST_CASE("refusal: each has a sentence of its own") {
  CHECK(std::string(to_string(refusal::none)) == "none");
  CHECK_THAT(to_string(refusal::stage), Catch::Contains("stage"));
  CHECK_THAT(to_string(refusal::stranger), Catch::Contains("not in the run"));
  CHECK_THAT(to_string(refusal::incarnation), Catch::Contains("incarnation"));
  CHECK_THAT(to_string(refusal::order), Catch::Contains("come next"));
}
