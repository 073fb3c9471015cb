// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/stable_cuts.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

#include "at.hpp"

using namespace rubato;
using test::at;

namespace {

constexpr worker_id w(std::uint32_t value) { return worker_id{value}; }
constexpr server_id s(std::uint32_t value) { return server_id{value}; }

stable_cuts with_workers(std::uint32_t workers, std::uint32_t servers) {
  stable_cuts cuts(servers);
  for (std::uint32_t i = 0; i < workers; ++i) {
    cuts.join(w(i));
    cuts.start(w(i), at(0));
  }
  return cuts;
}

std::vector<std::int64_t> entries(shared_cut const& cut) {
  std::vector<std::int64_t> out;
  for (std::uint32_t i = 0; i < cut->size(); ++i) out.push_back(cut->of(w(i)).value());
  return out;
}

using clocks = std::vector<std::int64_t>;
using worker_ids = std::vector<worker_id>;

}  // namespace

TEST_CASE("stable_cuts: a commit is in the cut once all servers have received it") {
  stable_cuts cuts = with_workers(2, 3);
  cuts.report(s(0), w(0), at(1));
  cuts.report(s(1), w(0), at(2));
  CHECK(entries(cuts.grant(w(0), false)) == clocks{0, 0});
  cuts.report(s(2), w(0), at(2));
  CHECK(entries(cuts.grant(w(0), false)) == clocks{1, 0});
  cuts.report(s(0), w(0), at(2));
  CHECK(entries(cuts.grant(w(0), false)) == clocks{2, 0});
  CHECK(cuts.grant(w(0), false)->c_min() == at(0));
}

TEST_CASE("stable_cuts: a read waits until the least entry meets its need") {
  stable_cuts cuts = with_workers(2, 2);
  CHECK(cuts.admit(w(0), at(1), at(0)));
  CHECK_FALSE(cuts.admit(w(0), at(1), at(1)));
  for (std::uint32_t n = 0; n < 2; ++n) cuts.report(s(n), w(0), at(1));
  CHECK(cuts.take_released().empty());
  cuts.report(s(0), w(1), at(1));
  CHECK(cuts.take_released().empty());  // server 1 has not seen it
  cuts.report(s(1), w(1), at(1));
  CHECK(cuts.take_released() == worker_ids{w(0)});
  CHECK(cuts.take_released().empty());
}

TEST_CASE("stable_cuts: the mark is the cut of the oldest read under way") {
  stable_cuts cuts = with_workers(2, 1);
  cuts.report(s(0), w(0), at(1));
  auto const first = cuts.grant(w(0), true);
  cuts.report(s(0), w(1), at(1));
  auto const mark = cuts.take_mark();
  REQUIRE(mark);
  CHECK(entries(mark) == clocks{1, 0});
  auto const second = cuts.grant(w(1), true);
  cuts.report(s(0), w(0), at(2));
  cuts.report(s(0), w(1), at(2));
  CHECK_FALSE(cuts.take_mark());  // the oldest one still reads
  cuts.release(w(0));
  auto const next = cuts.take_mark();
  REQUIRE(next);
  CHECK(entries(next) == clocks{1, 1});
  cuts.release(w(1));
  cuts.report(s(0), w(0), at(3));
  cuts.report(s(0), w(1), at(3));
  auto const last = cuts.take_mark();
  REQUIRE(last);
  CHECK(entries(last) == clocks{3, 3});
}

TEST_CASE("stable_cuts: marks come once for as many commits as there are workers") {
  stable_cuts cuts = with_workers(3, 1);
  cuts.report(s(0), w(0), at(1));
  CHECK_FALSE(cuts.take_mark());
  cuts.report(s(0), w(1), at(1));
  CHECK_FALSE(cuts.take_mark());
  cuts.report(s(0), w(2), at(1));
  CHECK(cuts.take_mark());
  CHECK_FALSE(cuts.take_mark());
}

TEST_CASE("stable_cuts: a joiner holds c_min where it is, and starts where the shards say") {
  stable_cuts cuts = with_workers(1, 1);
  cuts.report(s(0), w(0), at(3));
  cuts.join(w(1));
  cuts.report(s(0), w(0), at(6));
  CHECK(cuts.c_min() == at(3));
  CHECK_FALSE(cuts.admit(w(0), at(6), at(4)));
  cuts.start(w(1), at(4));
  CHECK(cuts.take_released() == worker_ids{w(0)});
  CHECK(cuts.c_min() == at(4));
  CHECK(entries(cuts.grant(w(1), false)) == clocks{6, 4});
  CHECK(cuts.grant(w(1), false)->of(w(7)) == clock_index::lowest());
}

TEST_CASE("stable_cuts: a leaver counts until all of its commits have arrived everywhere") {
  stable_cuts cuts = with_workers(2, 2);
  for (std::uint32_t n = 0; n < 2; ++n) cuts.report(s(n), w(0), at(5));
  CHECK_FALSE(cuts.admit(w(0), at(5), at(4)));
  cuts.report(s(0), w(1), at(2));
  cuts.leave(w(1), at(2));
  CHECK(cuts.take_released().empty());
  CHECK(cuts.c_min() == at(0));
  cuts.report(s(1), w(1), at(2));
  CHECK(cuts.take_released() == worker_ids{w(0)});
  CHECK(entries(cuts.grant(w(0), false)) == clocks{5, 2});
}

TEST_CASE("stable_cuts: a lost worker's cut is where the servers agreed, and its read is over") {
  stable_cuts cuts = with_workers(2, 2);
  (void)cuts.grant(w(1), true);
  cuts.report(s(0), w(1), at(3));
  cuts.report(s(1), w(1), at(2));
  cuts.forget(w(1));
  CHECK(cuts.under_way() == 0);
  cuts.lose(w(1), at(2));
  cuts.report(s(1), w(1), at(3));  // late, and of no consequence
  CHECK(entries(cuts.grant(w(0), false)) == clocks{0, 2});
  CHECK(cuts.workers().live() == 1);
}

TEST_CASE("stable_cuts: with the last leaver everything may be folded") {
  stable_cuts cuts = with_workers(1, 1);
  cuts.report(s(0), w(0), at(2));
  CHECK(cuts.take_mark());
  cuts.leave(w(0), at(3));
  CHECK_FALSE(cuts.take_mark());
  cuts.report(s(0), w(0), at(3));
  auto const mark = cuts.take_mark();
  REQUIRE(mark);
  CHECK(entries(mark) == clocks{3});
}
