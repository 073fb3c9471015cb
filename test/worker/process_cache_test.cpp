// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/process_cache.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>

#include "failing_memory.hpp"
#include "worker/cached_process.hpp"

using namespace rubato;
using test::at;
using test::counts;

namespace {

/// The workers of a process, and one of another, before one server.
class process : public test::cached_process {
 public:
  explicit process(rules const& p, std::uint32_t here = 2, std::uint64_t cached_rows = 0)
      : cached_process(p, {.here = here, .abroad = 1, .servers = 1, .cached_rows = cached_rows}) {}

  void commit(worker& w) {
    commit(w, [] {});
  }
  /// What others commit is at the server at once.
  template <class F>
  void commit(worker& w, F meanwhile) {
    cached_process::commit(w, meanwhile);
    net.serve_abroad();
  }
  /// Until it is at this clock; and the server has the commits.
  void advance(worker& w, std::int64_t to) {
    while (w.clock < at(to)) commit(w);
    settle();
  }

  void ask(worker& w, selection what = selection::all, std::vector<std::uint64_t> some = {}) {
    staleness const most = plan.protocol().admission.bound();
    cached_process::ask(w, what, std::move(some), most, test::first_server);
  }
  void ask_rows(worker& w, std::vector<std::uint64_t> some) { ask(w, selection::rows, std::move(some)); }
  /// Whether it asked the server.
  bool asks(worker& w, selection what = selection::all, std::vector<std::uint64_t> some = {}) {
    std::size_t const before = net.asked;
    ask(w, what, std::move(some));
    return net.asked != before;
  }

  void serve() {
    while (net.serve()) {}
  }
  /// Everything under way arrives, and what comes of it.
  void settle() {
    while (net.serve() || net.hear()) {}
  }
};


void write(read_slot& slot, counts const& values) {
  slot.values.clear();
  slot.values.append(std::as_bytes(std::span(values)));
}
counts written(read_slot const& slot) {
  auto const values = slot.values.as<std::int64_t>();
  return {values.begin(), values.end()};
}

}  // namespace

// ---- requests under way

TEST_CASE("process cache: many that miss the same issue one request") {
  process p(ssp{.staleness = 2}, 3);
  auto &a = p.workers[0], &b = p.workers[1], &c = p.workers[2];
  p.advance(p.workers[3], 2);
  SECTION("rows") {
    p.ask_rows(a, {1, 2});
    p.ask_rows(b, {2, 1, 2});
    p.ask_rows(c, {2});
  }
  SECTION("the whole table") {
    for (auto* w : {&a, &b, &c}) p.ask(*w);
  }
  CHECK(p.net.asked == 1);
  p.settle();
  CHECK_FALSE((a.waits() || b.waits() || c.waits()));
  CHECK(p.row(a, 1) == counts{0, 0, 0, 2, 0});
  CHECK(p.row(b) == p.row(a));
  CHECK(p.row(c) == p.row(a));
}

TEST_CASE("process cache: who needs more or less than a request does not wait for its answer") {
  process p(ssp{.staleness = 2});
  auto &near = p.workers[0], &far = p.workers[1];
  p.advance(far, 3);
  bool const far_first = GENERATE(false, true);
  p.ask_rows(far_first ? far : near, {0});
  p.ask_rows(far_first ? near : far, {0});
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK_FALSE(near.waits());
  p.advance(near, 1);
  CHECK(far.waits());
  p.advance(p.workers[2], 1);
  CHECK_FALSE(far.waits());
  CHECK(far.slot().stamp.server_clock == at(1));
}

TEST_CASE("process cache: who would be let in at once joins a request of another need") {
  process p(ssp{.staleness = 2});
  auto &a = p.workers[0], &b = p.workers[1];
  for (auto& w : p.workers) p.advance(w, 4);
  p.ask_rows(a, {1});
  p.settle();  // now it is known that all are at clock 4
  p.advance(a, 5);
  p.advance(b, 6);
  p.ask_rows(a, {0});
  p.ask_rows(b, {0});
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK(a.slot().stamp.included == at(5));
  CHECK(b.slot().stamp.included == at(6));
  CHECK(p.row(b) == counts{5, 6, 4, 0});
}

TEST_CASE("process cache: under eager visibility own commits that left since want a request anew") {
  process p(ssp{.staleness = 2});
  auto &a = p.workers[0], &b = p.workers[1];
  auto const what = GENERATE(selection::all, selection::rows);
  std::vector<std::uint64_t> const rows(what == selection::all ? 0 : 1);
  p.ask(a, what, rows);
  p.commit(b);
  p.ask(b, what, rows);
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK(b.slot().stamp.included == at(1));
  CHECK(p.row(b)[1] == 1);
}

TEST_CASE("process cache: under the barrier own commits that left since are in the answer") {
  process p(with(bsp{}, sum{}));
  auto &a = p.workers[0], &b = p.workers[1];
  auto const what = GENERATE(selection::all, selection::rows);
  p.advance(a, 1);
  p.ask(a, what, {0});
  p.serve();
  p.commit(b);
  p.ask(b, what, {0});
  CHECK(p.net.asked == 1);
  p.settle();
  CHECK((a.waits() && b.waits()));
  p.advance(p.workers[2], 1);
  CHECK_FALSE((a.waits() || b.waits()));
  CHECK(b.slot().stamp.included == at(1));
  CHECK(p.row(b) == counts{1, 1, 1, 0});
}

TEST_CASE("process cache: strict visibility with staleness, own commits left since") {
  process p(with(ssp{.staleness = 1}, strict{}));
  auto &a = p.workers[0], &b = p.workers[1];
  p.ask_rows(a, {1});
  p.settle();  // now it is known that both would be let in
  p.ask_rows(a, {0});
  p.commit(b);
  p.ask_rows(b, {0});
  SECTION("the answer says which are in") {
    p.settle();
    CHECK_FALSE(b.waits());
    CHECK(p.row(b)[1] == b.slot().stamp.included.value());
  }
  SECTION("nobody waits for another's answer that cannot be of use") {
    p.serve();
    while (p.net.hear()) {}
    CHECK_FALSE(b.waits());
  }
}

TEST_CASE("process cache: rows partly here, partly under way, partly missing") {
  process p(ssp{.staleness = 5});
  auto &a = p.workers[0], &b = p.workers[1], &other = p.workers[2];
  p.ask_rows(a, {0});
  p.settle();
  p.commit(other);
  p.ask_rows(b, {1, 5});
  p.serve();
  p.commit(other);
  CHECK(p.asks(a, selection::rows, {2, 1, 0, 3}));
  p.net.hear();
  CHECK_FALSE(b.waits());
  CHECK(a.waits());
  p.settle();
  CHECK_FALSE(a.waits());
  for (std::size_t const i : {0u, 1u, 2u, 3u}) CHECK(p.row(a, i)[2] == counts{2, 1, 0, 2}[i]);
  CHECK(p.net.asked == 3);
  CHECK_FALSE(p.asks(b, selection::rows, {3, 2}));  // the third question was for these
  CHECK(p.asks(b, selection::rows, {4}));
}

// ---- what is here

namespace {

/// The clocks, from that of the first fetch on, at which another worker asks a server.
std::vector<std::int64_t> clocks_that_ask(rules const& used, selection what) {
  process p(used);
  auto &a = p.workers[0], &b = p.workers[1];
  std::vector<std::int64_t> asking;
  p.ask(a, what, {3});
  p.settle();
  for (std::int64_t c = 0; c < 6; ++c) {
    if (p.asks(b, what, {3})) asking.push_back(c);
    p.settle();
    REQUIRE_FALSE(b.waits());
    CHECK(p.row(b)[1] == b.slot().stamp.included.value());
    for (auto& w : p.workers) p.advance(w, c + 1);
  }
  return asking;
}

}  // namespace

TEST_CASE("process cache: what another has fetched is used while the cache column allows it") {
  using clocks = std::vector<std::int64_t>;
  auto const what = GENERATE(selection::all, selection::rows);
  CHECK(clocks_that_ask(with(bsp{}, sum{}), what) == clocks{1, 2, 3, 4, 5});
  CHECK(clocks_that_ask(ssp{.staleness = 0}, what) == clocks{1, 2, 3, 4, 5});
  CHECK(clocks_that_ask(ssp{.staleness = 2}, what) == clocks{3});
  CHECK(clocks_that_ask(ssp{.staleness = 9}, what).empty());
  CHECK(clocks_that_ask(asp{}, what) == clocks{0, 1, 2, 3, 4, 5});
}

TEST_CASE("process cache: a state is of no use to whose commits may be in or not") {
  process p(ssp{.staleness = 9});
  auto &a = p.workers[0], &b = p.workers[1];
  auto const what = GENERATE(selection::all, selection::rows);
  p.advance(b, 2);
  p.ask(a, what, {0});
  SECTION("one left before the answer came") {
    p.serve();
    p.commit(b);
    p.settle();
    CHECK(p.asks(b, what, {0}));
    p.settle();
    CHECK(b.slot().stamp.included == at(3));
  }
  SECTION("all left before the question or after the answer") {
    p.settle();
    p.advance(b, 4);
    CHECK_FALSE(p.asks(b, what, {0}));
    CHECK(b.slot().stamp.included == at(2));
  }
  CHECK(p.row(b)[1] == b.slot().stamp.included.value());
}

TEST_CASE("process cache: a commit that is just leaving may be in an answer or not") {
  process p(ssp{.staleness = 9});
  auto &a = p.workers[0], &b = p.workers[1];
  bool const was_asked = GENERATE(false, true);
  if (was_asked) p.ask(a);
  int calls = GENERATE(0, 1);
  p.commit(b, [&] {
    if (++calls != 2) return;
    if (!was_asked) p.ask(a);
    p.settle();
  });
  CHECK(p.asks(b));
  p.settle();
  CHECK(b.slot().stamp.included == at(1));
  CHECK(p.row(b)[1] == 1);
}

TEST_CASE("process cache: the server's clock says that what left later is in, too") {
  process p(with(bsp{}, sum{}));
  auto &a = p.workers[0], &b = p.workers[1];
  p.advance(a, 1);
  p.ask(a);
  p.commit(b);
  p.advance(p.workers[2], 1);
  CHECK_FALSE(a.waits());
  CHECK_FALSE(p.asks(b));
  CHECK(b.slot().stamp.included == at(1));
  CHECK(p.row(b) == counts{1, 1, 1, 0});
}

TEST_CASE("process cache: a state without commits that the reader has given up is not used") {
  process p(ssp{.staleness = 9});
  auto& a = p.workers[0];
  p.ask_rows(a, {0});
  p.settle();
  p.advance(a, 1);
  p.ask_rows(a, {1});
  p.settle();
  REQUIRE(a.slot().stamp.included == at(1));
  CHECK(p.asks(a, selection::rows, {0}));
  p.settle();
  CHECK(a.slot().stamp.included == at(1));
}

TEST_CASE("process cache: rows are not older than the whole table that the reader has read") {
  process p(ssp{.staleness = 9});
  auto &a = p.workers[0], &b = p.workers[1], &other = p.workers[2];
  SECTION("fetched before it") {
    p.ask_rows(b, {0});
    p.settle();
    p.advance(other, 1);
    p.ask(a);
    p.settle();
    p.ask_rows(a, {0});
    p.settle();
  }
  SECTION("answered behind it, before it was read off the store") {
    p.ask(a);
    p.ask_rows(b, {0});
    p.serve();
    p.commit(other);
    p.serve();
    p.net.hear();
    REQUIRE(p.row(a)[2] == 1);
    REQUIRE(b.waits());
    if (GENERATE(false, true)) p.settle();  // it is kept; else it can be joined
    p.ask_rows(a, {0});
    p.settle();
  }
  CHECK_FALSE(a.waits());
  CHECK(p.row(a)[2] == 1);
}

TEST_CASE("process cache: the least recently used rows go first") {
  process p(ssp{.staleness = 9}, 2, 2);
  auto& a = p.workers[0];
  p.ask_rows(a, {0});
  p.ask_rows(a, {1});  // a worker would wait for the other first
  p.settle();
  CHECK_FALSE(p.asks(a, selection::rows, {0}));
  CHECK(p.asks(a, selection::rows, {2}));
  p.settle();
  CHECK_FALSE(p.asks(a, selection::rows, {0, 2}));
  CHECK(p.asks(a, selection::rows, {1}));
}

TEST_CASE("process cache: who has fallen far behind its own commits fetches anew") {
  process p(ssp{.staleness = 1000});
  auto& a = p.workers[0];
  p.ask(a);
  p.settle();
  p.advance(a, 64);
  CHECK_FALSE(p.asks(a));
  p.commit(a);
  CHECK(p.asks(a));
}

// ---- questions that cannot be asked

namespace {
[[noreturn]] void no_memory() { throw std::bad_alloc(); }
}  // namespace

TEST_CASE("process cache: who could not ask waits for nothing, and others ask for themselves") {
  process p(ssp{.staleness = 2}, 3);
  auto &a = p.workers[0], &b = p.workers[1], &c = p.workers[2];
  SECTION("rows, of which some are under way") {
    p.ask_rows(c, {1});
    p.net.on_ask = no_memory;
    CHECK_THROWS_AS(p.ask_rows(a, {1, 2}), std::bad_alloc);
    CHECK(a.asked.missing == 0);
    write(a.slot(), {-1});
    p.net.on_ask = nullptr;
    CHECK(p.asks(b, selection::rows, {2}));
    p.settle();
    CHECK_FALSE(c.waits());
    CHECK(written(a.slot()) == counts{-1});  // nothing is written for it
  }
  SECTION("the whole table") {
    p.net.on_ask = no_memory;
    CHECK_THROWS_AS(p.ask(a), std::bad_alloc);
    p.net.on_ask = nullptr;
    CHECK(p.asks(b));
    p.settle();
  }
  CHECK(a.asked.missing == 0);
  CHECK_FALSE(b.waits());
}

TEST_CASE("process cache: who has joined a question that cannot be asked hears why") {
  process p(ssp{.staleness = 2}, 3);
  auto &a = p.workers[0], &b = p.workers[1], &c = p.workers[2];
  p.ask_rows(c, {1});
  p.net.on_ask = [&] {
    p.ask_rows(b, {1, 2});
    CHECK(p.net.asked == 1);
    no_memory();
  };
  CHECK_THROWS_AS(p.ask_rows(a, {2}), std::bad_alloc);
  CHECK(b.waits());  // for what is under way
  p.settle();
  CHECK(b.asked.missing == 0);
  REQUIRE(b.asked.failure != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(b.asked.failure), std::bad_alloc);
  CHECK(a.asked.failure == nullptr);
  CHECK(c.asked.failure == nullptr);
}

TEST_CASE("process cache: where memory ends as an answer comes, who waits for it hears, and may ask again") {
  std::size_t heard = 0;
  test::for_each_end_of_memory([&](auto attempt) {
    process p(ssp{.staleness = 2});
    auto &a = p.workers[0], &b = p.workers[1];
    p.ask_rows(a, {1, 2});
    p.ask_rows(b, {2, 1});
    REQUIRE(p.net.asked == 1);
    p.commit(b);  // so that it has to ask for itself when the answer comes
    p.serve();
    REQUIRE((attempt([&] {
      while (p.net.hear()) {
      }
      if (a.asked.failure || b.asked.failure) throw std::bad_alloc();  // once more, with more memory
    }) || a.asked.failure || b.asked.failure));
    p.settle();
    for (auto* const w : {&a, &b}) {
      REQUIRE(w->asked.missing == 0);
      if (std::exchange(w->asked.failure, nullptr)) {
        ++heard;
        p.ask_rows(*w, {1, 2});
        p.settle();
      }
      REQUIRE(w->asked.missing == 0);
      REQUIRE(w->asked.failure == nullptr);
    }
    REQUIRE(p.row(b)[1] == 1);
    REQUIRE(p.row(b, 1)[1] == 1);
  });
  CHECK((heard > 4 || !test::memory_can_end()));
}

TEST_CASE("process cache: who could not ask again, as an answer came, hears why, and asks for itself later") {
  process p(ssp{.staleness = 2});
  auto &a = p.workers[0], &b = p.workers[1];
  p.ask_rows(a, {1});
  p.ask_rows(b, {1});
  p.commit(b);
  p.net.on_ask_in_turn = no_memory;
  p.settle();
  CHECK(a.asked.missing == 0);
  CHECK(a.asked.failure == nullptr);
  CHECK(b.asked.missing == 0);
  REQUIRE(b.asked.failure != nullptr);
  CHECK_THROWS_AS(std::rethrow_exception(std::exchange(b.asked.failure, nullptr)), std::bad_alloc);
  CHECK(p.asks(b, selection::rows, {1}));
  p.settle();
  CHECK(b.asked.missing == 0);
  CHECK(p.row(b)[1] == 1);
}

// ---- only to be let in

TEST_CASE("process cache: nobody asks to be let in where the known clock suffices") {
  process p(ssp{.staleness = 2});
  auto &a = p.workers[0], &b = p.workers[1];
  CHECK(p.asks(a, selection::nothing));
  p.settle();
  SECTION("after a read") {
    p.advance(a, 2);
    CHECK_FALSE(p.asks(a, selection::nothing));
    CHECK(a.slot().stamp.server_clock == at(0));
    CHECK(a.slot().stamp.included == at(0));
    p.advance(a, 3);
    CHECK(p.asks(a, selection::nothing));
  }
  SECTION("as the first thing") {
    p.advance(b, 2);
    CHECK_FALSE(p.asks(b, selection::nothing));
    CHECK(b.slot().stamp.included == at(0));
  }
}

TEST_CASE("process cache: who only pushes is told now and then which commits are in") {
  process p(asp{});
  auto& a = p.workers[0];
  p.advance(a, 33);
  CHECK(p.asks(a, selection::nothing));
  p.settle();
  CHECK_FALSE(a.waits());
  CHECK(a.slot().stamp.included == at(33));
  p.advance(a, 65);
  CHECK_FALSE(p.asks(a, selection::nothing));
  p.advance(a, 66);
  CHECK(p.asks(a, selection::nothing));
}

// ---- who comes and goes

TEST_CASE("process cache: a refusal reaches all who wait") {
  process p(ssp{.staleness = 2}, 3);
  auto &a = p.workers[0], &b = p.workers[1], &c = p.workers[2];
  p.ask_rows(a, {0});
  p.ask_rows(b, {0, 1});
  p.net.refuse(refusal::stranger);
  p.settle();
  CHECK_FALSE((a.waits() || b.waits()));
  CHECK(a.asked.refused == refusal::stranger);
  CHECK(b.asked.refused == refusal::stranger);
  CHECK(p.asks(c, selection::rows, {0}));
  p.settle();
  CHECK_FALSE(c.waits());
}

TEST_CASE("process cache: nothing is written for who has been forgotten") {
  process p(ssp{.staleness = 2});
  auto const gone = static_cast<std::size_t>(GENERATE(0, 1));
  auto const what = GENERATE(selection::all, selection::rows);
  auto &a = p.workers[gone], &b = p.workers[1 - gone];
  p.ask(p.workers[0], what, {0});
  p.ask(p.workers[1], what, {0});
  p.serve();
  p.cache.forget(a.number);
  write(a.slot(), {-1});
  a.slot().stamp.version = version_index{-1};
  p.settle();
  CHECK(written(a.slot()) == counts{-1});
  CHECK(a.slot().stamp.version == version_index{-1});
  CHECK(a.slot().state.empty());
  CHECK_FALSE(b.waits());
  CHECK(p.row(b) == counts{0, 0, 0, 0});
}

TEST_CASE("process cache: states from before a worker came are not for it") {
  SECTION("eager") {
    process p(ssp{.staleness = 2});
    p.ask(p.workers[0]);
    p.settle();
    p.ask_rows(p.workers[0], {0});
    auto& late = p.add(true);
    CHECK(p.asks(late));
    p.settle();
    CHECK(p.asks(late, selection::rows, {1}));
  }
  SECTION("a request under way, under the barrier") {
    process p(with(bsp{}, sum{}));
    p.advance(p.workers[0], 1);
    p.ask(p.workers[0]);
    auto& late = p.add(true);
    p.commit(late);
    p.ask(late);
    p.advance(p.workers[1], 1);
    p.advance(p.workers[2], 1);
    CHECK_FALSE(late.waits());
    CHECK(late.slot().stamp.included == at(1));
    CHECK(p.row(late) == counts{1, 1, 1, 1});
  }
}

TEST_CASE("process cache: a stage begins with nothing") {
  process p(ssp{.staleness = 2});
  for (auto& w : p.workers) p.advance(w, 5);
  p.ask(p.workers[0]);
  p.ask_rows(p.workers[1], {0});
  p.settle();
  p.ask_rows(p.workers[0], {1});
  p.begin_stage();
  CHECK_FALSE(p.net.serve());
  for (bool const here : {true, true, false}) p.add(here);
  CHECK(p.asks(p.workers[0]));
  CHECK(p.asks(p.workers[1], selection::rows, {0, 1}));
  p.settle();
  CHECK(p.row(p.workers[0]) == counts{5, 5, 5, 0});  // the parameters stay
  CHECK(p.workers[0].slot().stamp.included == at(0));
}
