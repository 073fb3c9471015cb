// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "rubato/core/random.hpp"
#include "rubato/peer/mailboxes.hpp"
#include "rubato/peer/token_queue.hpp"
#include "rubato/peer/update_queue.hpp"
#include "seeds.hpp"

using namespace rubato;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

namespace {

constexpr iteration_index it(std::int64_t k) { return iteration_index{k}; }
constexpr worker_id from(std::uint32_t w) { return worker_id{w}; }

// (iteration, sender, payload)
using tagged = std::tuple<std::int64_t, std::uint32_t, int>;
using entries = std::vector<tagged>;

entries read(std::vector<queued_update<int>> const& taken) {
  entries all;
  for (auto const& e : taken) all.emplace_back(e.made.value(), e.from.value(), e.parameters);
  return all;
}

// A payload that tells which update it is.
constexpr int payload(std::int64_t k, std::uint32_t w) { return static_cast<int>(100 * k + w); }

void put(update_queue<int>& q, std::int64_t k, std::uint32_t w) {
  q.enqueue(it(k), from(w), payload(k, w));
}

// Iterations 0, 1 and 2 of the senders 7, 3 and 5, in an order that is sorted in no way.
update_queue<int> nine_updates() {
  update_queue<int> q(4, 3);
  put(q, 1, 7), put(q, 0, 7), put(q, 1, 3), put(q, 2, 5), put(q, 0, 5);
  put(q, 2, 7), put(q, 0, 3), put(q, 1, 5), put(q, 2, 3);
  return q;
}

}  // namespace

TEST_CASE("update_queue: a new one is empty and begins at iteration 0", "[peer][queues]") {
  update_queue<int> q(3, 2);
  CHECK(q.first() == it(0));
  CHECK(q.slots() == 3);
  CHECK(q.size() == 0);
  CHECK(q.size(it(0)) == 0);
  CHECK(q.size({}, from(0)) == 0);
  CHECK(q.peak() == 0);
  CHECK(q.dequeue(0).empty());
  CHECK_FALSE(q.in_range(it(-1)));
  CHECK(q.in_range(it(0)));
  CHECK(q.in_range(it(2)));
  CHECK_FALSE(q.in_range(it(3)));
  CHECK_FALSE(q.contains(it(0), from(0)));
}

TEST_CASE("update_queue: size counts what matches the tags given", "[peer][queues]") {
  update_queue<int> q = nine_updates();
  q.enqueue(it(3), from(5), 305);
  CHECK(q.size() == 10);
  CHECK(q.size(it(0)) == 3);
  CHECK(q.size(it(3)) == 1);
  CHECK(q.size(it(4)) == 0);   // out of range, though its slot is that of iteration 0
  CHECK(q.size(it(-4)) == 0);
  CHECK(q.size({}, from(5)) == 4);
  CHECK(q.size({}, from(7)) == 3);
  CHECK(q.size({}, from(6)) == 0);
  CHECK(q.size(it(3), from(5)) == 1);
  CHECK(q.size(it(3), from(7)) == 0);
  CHECK(q.size(it(4), from(7)) == 0);
  CHECK(q.contains(it(3), from(5)));
  CHECK_FALSE(q.contains(it(3), from(7)));
  CHECK_FALSE(q.contains(it(4), from(7)));
}

TEST_CASE("update_queue: dequeue goes by both tags, by one and by none", "[peer][queues]") {
  update_queue<int> q = nine_updates();
  SECTION("iteration and sender") {
    CHECK(read(q.dequeue(1, it(1), from(5))) == entries{{1, 5, 105}});
    CHECK(q.size(it(1)) == 2);
    CHECK(q.size({}, from(5)) == 2);
    CHECK_FALSE(q.contains(it(1), from(5)));
  }
  SECTION("iteration alone: in order of arrival") {
    CHECK(read(q.dequeue(2, it(1))) == entries{{1, 7, 107}, {1, 3, 103}});
    CHECK(read(q.dequeue(1, it(1))) == entries{{1, 5, 105}});
    CHECK(q.size(it(1)) == 0);
  }
  SECTION("sender alone: the oldest first, whatever came first") {
    CHECK(read(q.dequeue(2, {}, from(7))) == entries{{0, 7, 7}, {1, 7, 107}});
    CHECK(read(q.dequeue(1, {}, from(7))) == entries{{2, 7, 207}});
    CHECK(q.size({}, from(7)) == 0);
  }
  SECTION("no tag") {
    CHECK(read(q.dequeue(4)) == entries{{0, 7, 7}, {0, 5, 5}, {0, 3, 3}, {1, 7, 107}});
    CHECK(q.size() == 5);
    CHECK(read(q.dequeue(5)) ==
          entries{{1, 3, 103}, {1, 5, 105}, {2, 5, 205}, {2, 7, 207}, {2, 3, 203}});
    CHECK(q.size() == 0);
  }
  SECTION("none of them") {
    CHECK(q.dequeue(0, it(1), from(5)).empty());
    CHECK(q.dequeue(0).empty());
    CHECK(q.size() == 9);
  }
  CHECK(q.peak() == 9);  // taking lowers nothing
}

TEST_CASE("update_queue: the same sender may send an iteration again once it is taken",
          "[peer][queues]") {
  update_queue<int> q(1, 1);
  put(q, 0, 4);
  CHECK(read(q.dequeue(1, it(0))) == entries{{0, 4, 4}});
  put(q, 0, 4);
  CHECK(q.size(it(0)) == 1);
  CHECK(q.peak() == 1);
}

TEST_CASE("update_queue: drop_before moves the range and frees the slots", "[peer][queues]") {
  update_queue<int> q = nine_updates();
  SECTION("by one: the freed slot takes the next iteration, and only that") {
    q.drop_before(it(1));
    CHECK(q.first() == it(1));
    CHECK(q.size() == 6);
    CHECK(q.size(it(0)) == 0);
    CHECK_FALSE(q.in_range(it(0)));
    CHECK(q.in_range(it(4)));
    CHECK_FALSE(q.in_range(it(5)));
    put(q, 4, 3);
    CHECK(q.size(it(4)) == 1);
    CHECK(read(q.dequeue(7)).back() == tagged{4, 3, 403});  // the last slot, though number 0
  }
  SECTION("by all but one slot") {
    q.drop_before(it(3));
    CHECK(q.first() == it(3));
    CHECK(q.size() == 0);
    CHECK(q.in_range(it(6)));
  }
  SECTION("by exactly one rotation") {
    put(q, 3, 3);
    q.drop_before(it(4));
    CHECK(q.size() == 0);
    CHECK(q.first() == it(4));
    CHECK_FALSE(q.in_range(it(3)));
    put(q, 7, 3);
    CHECK(read(q.dequeue(1)) == entries{{7, 3, 703}});
  }
  SECTION("by many rotations, not by a whole number of them") {
    q.drop_before(it(1'000'000'001));
    CHECK(q.size() == 0);
    CHECK(q.first() == it(1'000'000'001));
    q.enqueue(it(1'000'000'004), from(3), 9);
    q.enqueue(it(1'000'000'001), from(3), 8);
    CHECK(read(q.dequeue(2)) == entries{{1'000'000'001, 3, 8}, {1'000'000'004, 3, 9}});
  }
  SECTION("it never goes back") {
    q.drop_before(it(2));
    q.drop_before(it(1));
    q.drop_before(it(2));
    q.drop_before(it(-5));
    CHECK(q.first() == it(2));
    CHECK(q.size() == 3);
    CHECK(q.size(it(2)) == 3);
    CHECK_FALSE(q.in_range(it(1)));
  }
  CHECK(q.peak() >= 9);
}

TEST_CASE("update_queue: what is dropped makes room, also for the count of the most held",
          "[peer][queues]") {
  update_queue<int> q(2, 2);
  put(q, 0, 0), put(q, 0, 1), put(q, 1, 0);
  CHECK(q.peak() == 3);
  q.drop_before(it(1));
  put(q, 2, 0);
  CHECK(q.size() == 2);
  CHECK(q.peak() == 3);
  put(q, 1, 1), put(q, 2, 1);
  CHECK(q.size() == 4);  // slots · senders: full
  CHECK(q.peak() == 4);
  q.drop_from(from(1));
  CHECK(q.size() == 2);
  put(q, 1, 1);
  CHECK(q.peak() == 4);
}

TEST_CASE("update_queue: drop_from takes all of one sender and nothing else", "[peer][queues]") {
  update_queue<int> q = nine_updates();
  q.drop_from(from(7));
  CHECK(q.size({}, from(7)) == 0);
  CHECK(read(q.dequeue(6)) ==
        entries{{0, 5, 5}, {0, 3, 3}, {1, 3, 103}, {1, 5, 105}, {2, 5, 205}, {2, 3, 203}});
  q.drop_from(from(7));  // a second time, and from an empty queue
  CHECK(q.size() == 0);
}

TEST_CASE("update_queue: payloads are moved, never copied", "[peer][queues]") {
  update_queue<std::unique_ptr<int>> q(2, 2);
  q.enqueue(it(1), from(0), std::make_unique<int>(10));
  q.enqueue(it(0), from(0), std::make_unique<int>(0));
  q.enqueue(it(0), from(1), std::make_unique<int>(1));
  auto const taken = q.dequeue(2, {}, from(0));
  REQUIRE(taken.size() == 2);
  REQUIRE(taken[0].parameters);
  REQUIRE(taken[1].parameters);
  CHECK(*taken[0].parameters == 0);
  CHECK(*taken[1].parameters == 10);
  auto const rest = q.dequeue(1);
  REQUIRE(rest[0].parameters);
  CHECK(*rest[0].parameters == 1);
}

TEST_CASE("update_queue: what is dropped or taken is let go of at once", "[peer][queues]") {
  // Parameters are large; a queue that keeps an update it has dropped keeps a model.
  auto const held = std::make_shared<int>(1);
  update_queue<std::shared_ptr<int>> q(3, 2);
  auto const fill = [&] {
    std::int64_t const k = q.first().value();
    q.enqueue(it(k), from(0), held), q.enqueue(it(k), from(1), held);
    q.enqueue(it(k + 1), from(0), held), q.enqueue(it(k + 2), from(1), held);
  };
  fill();
  CHECK(held.use_count() == 5);
  q.drop_before(it(1));
  CHECK(held.use_count() == 3);
  q.drop_from(from(1));
  CHECK(held.use_count() == 2);
  CHECK(q.dequeue(1).size() == 1);
  CHECK(held.use_count() == 1);
  fill();
  q.drop_before(it(50));
  CHECK(held.use_count() == 1);
}

TEST_CASE("update_queue: as a plain list does it, over random operations", "[peer][queues]") {
  for (std::uint64_t i = 0; i < test::seed_count(300); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    random_stream random(seed);
    auto const slots = static_cast<std::int64_t>(1 + random.below(5));
    auto const senders = static_cast<std::uint32_t>(1 + random.below(4));
    update_queue<int> q(static_cast<std::size_t>(slots), senders);
    entries model;  // in order of arrival
    std::int64_t first = 0;
    std::size_t peak = 0;
    int next = 0;

    using iteration_tag = std::optional<std::int64_t>;
    using sender_tag = std::optional<std::uint32_t>;
    auto const fits = [](tagged const& e, iteration_tag k, sender_tag w) {
      return (!k || std::get<0>(e) == *k) && (!w || std::get<1>(e) == *w);
    };
    auto const matching = [&](iteration_tag k, sender_tag w) {
      return static_cast<std::size_t>(
          std::ranges::count_if(model, [&](tagged const& e) { return fits(e, k, w); }));
    };
    auto const as_index = [](iteration_tag k) -> std::optional<iteration_index> {
      if (!k) return std::nullopt;
      return it(*k);
    };
    auto const as_worker = [](sender_tag w) -> std::optional<worker_id> {
      if (!w) return std::nullopt;
      return from(*w);
    };

    for (int operation = 0; operation < 150; ++operation) {
      INFO("operation " << operation);
      auto const k = first + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(slots)));
      auto const w = static_cast<std::uint32_t>(random.below(senders));
      switch (random.below(10)) {
        default: {
          if (q.contains(it(k), from(w))) break;
          q.enqueue(it(k), from(w), ++next);
          model.emplace_back(k, w, next);
          peak = std::max(peak, model.size());
          break;
        }
        case 7: {
          iteration_tag const by_k = random.chance(0.5) ? iteration_tag{k} : std::nullopt;
          sender_tag const by_w = random.chance(0.5) ? sender_tag{w} : std::nullopt;
          auto const m = static_cast<std::size_t>(random.below(matching(by_k, by_w) + 1));
          entries expected;
          std::ranges::stable_sort(model, {}, [](tagged const& e) { return std::get<0>(e); });
          std::erase_if(model, [&](tagged const& e) {
            if (expected.size() == m || !fits(e, by_k, by_w)) return false;
            expected.push_back(e);
            return true;
          });
          REQUIRE(read(q.dequeue(m, as_index(by_k), as_worker(by_w))) == expected);
          break;
        }
        case 8: {
          std::int64_t const to = first - 2 + static_cast<std::int64_t>(random.below(
                                                  random.chance(0.1) ? 20 : 5));
          q.drop_before(it(to));
          std::erase_if(model, [&](tagged const& e) { return std::get<0>(e) < to; });
          first = std::max(first, to);
          break;
        }
        case 9: {
          if (!random.chance(0.3)) break;
          q.drop_from(from(w));
          std::erase_if(model, [&](tagged const& e) { return std::get<1>(e) == w; });
          break;
        }
      }
      REQUIRE(q.first() == it(first));
      REQUIRE(q.peak() == peak);
      REQUIRE(q.size() == model.size());
      REQUIRE(q.size() <= q.slots() * senders);
      for (std::int64_t at = first - slots - 1; at <= first + 2 * slots; ++at) {
        REQUIRE(q.size(it(at)) == matching(at, {}));
        REQUIRE(q.in_range(it(at)) == (first <= at && at < first + slots));
        for (std::uint32_t s = 0; s < senders; ++s) {
          REQUIRE(q.size(it(at), from(s)) == matching(at, s));
          REQUIRE(q.contains(it(at), from(s)) == (matching(at, s) == 1));
        }
      }
      for (std::uint32_t s = 0; s < senders; ++s) REQUIRE(q.size({}, from(s)) == matching({}, s));
    }
    // What is left comes out whole.
    std::ranges::stable_sort(model, {}, [](tagged const& e) { return std::get<0>(e); });
    REQUIRE(read(q.dequeue(q.size())) == model);
  }
}

TEST_CASE("mailboxes: nothing there at first", "[peer][queues]") {
  mailboxes<int> boxes(2);
  CHECK(boxes.size() == 0);
  CHECK(boxes.peak() == 0);
  CHECK(boxes.newest(0) < it(0));
  CHECK_FALSE(boxes.fresh(0));
  CHECK(boxes.take(iteration_index::lowest()).empty());
  mailboxes<int> none(0);
  CHECK(none.take(it(0)).empty());
}

TEST_CASE("mailboxes: a newer update overwrites", "[peer][queues]") {
  mailboxes<int> boxes(2);
  boxes.put(1, it(0), from(8), 1);
  CHECK(boxes.newest(1) == it(0));
  CHECK(boxes.fresh(1));
  CHECK_FALSE(boxes.fresh(0));
  boxes.put(1, it(5), from(8), 2);
  CHECK(boxes.newest(1) == it(5));
  CHECK(boxes.size() == 1);
  CHECK(boxes.peak() == 1);
  boxes.put(0, it(3), from(4), 3);
  CHECK(boxes.size() == 2);
  CHECK(boxes.peak() == 2);
  CHECK(read(boxes.take(it(0))) == entries{{3, 4, 3}, {5, 8, 2}});  // by box
}

TEST_CASE("mailboxes: what is taken is remembered, but is fresh no more", "[peer][queues]") {
  mailboxes<int> boxes(2);
  boxes.put(0, it(2), from(0), 20);
  boxes.put(1, it(4), from(1), 41);
  CHECK(read(boxes.take(it(3))) == entries{{4, 1, 41}});  // 2 is too old, and stays
  CHECK(boxes.fresh(0));
  CHECK_FALSE(boxes.fresh(1));
  CHECK(boxes.newest(1) == it(4));
  CHECK(boxes.size() == 1);
  CHECK(boxes.take(it(3)).empty());
  CHECK(read(boxes.take(it(2))) == entries{{2, 0, 20}});
  CHECK(boxes.size() == 0);
  boxes.put(1, it(5), from(1), 51);
  CHECK(boxes.fresh(1));
  CHECK(read(boxes.take(it(2))) == entries{{5, 1, 51}});
  CHECK(boxes.peak() == 2);
}

TEST_CASE("mailboxes: drop_before and drop leave the newest known", "[peer][queues]") {
  mailboxes<int> boxes(3);
  boxes.put(0, it(2), from(0), 20);
  boxes.put(1, it(3), from(1), 31);
  boxes.put(2, it(4), from(2), 42);
  SECTION("older ones") {
    boxes.drop_before(it(3));
    CHECK_FALSE(boxes.fresh(0));
    CHECK(boxes.newest(0) == it(2));
    CHECK(boxes.size() == 2);
    boxes.drop_before(it(3));  // nothing to be dropped twice
    CHECK(boxes.size() == 2);
    CHECK(read(boxes.take(it(0))) == entries{{3, 1, 31}, {4, 2, 42}});
    boxes.drop_before(it(9));
    CHECK(boxes.size() == 0);
  }
  SECTION("all of one sender") {
    boxes.drop(1);
    boxes.drop(1);
    CHECK_FALSE(boxes.fresh(1));
    CHECK(boxes.newest(1) == it(3));
    CHECK(boxes.size() == 2);
    CHECK(read(boxes.take(it(0))) == entries{{2, 0, 20}, {4, 2, 42}});
  }
  CHECK(boxes.peak() == 3);
}

TEST_CASE("mailboxes: what is overwritten, taken or dropped is let go of at once", "[peer][queues]") {
  auto const held = std::make_shared<int>(1);
  mailboxes<std::shared_ptr<int>> boxes(2);
  boxes.put(0, it(0), from(0), held);
  boxes.put(0, it(1), from(0), held);
  CHECK(held.use_count() == 2);
  CHECK(boxes.take(it(0)).size() == 1);
  CHECK(held.use_count() == 1);
  boxes.put(0, it(2), from(0), held);
  boxes.put(1, it(3), from(1), held);
  boxes.drop_before(it(3));
  CHECK(held.use_count() == 2);
  boxes.drop(1);
  CHECK(held.use_count() == 1);
}

TEST_CASE("token_queue: a number between 0 and the capacity", "[peer][queues]") {
  token_queue q(2, 6);
  CHECK(q.size() == 2);
  CHECK(q.capacity() == 6);
  q.put(4);
  CHECK(q.size() == 6);
  q.put(0);
  q.take(0);
  CHECK(q.size() == 6);
  q.take(5);
  CHECK(q.size() == 1);
  q.take(1);
  CHECK(q.size() == 0);
  CHECK(q.capacity() == 6);

  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  token_queue endless(3, most);
  endless.put(most - 3);
  CHECK(endless.size() == most);
  endless.take(most);
  CHECK(endless.size() == 0);
}

#if !defined(SANITIZED) && (defined(RUBATO_CHECKS) || !defined(NDEBUG))
namespace {

// Whether `misuse` aborts, tried in a process of its own.
bool aborts(std::function<void()> const& misuse) {
  std::fflush(nullptr);  // or the child would write it again
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    struct rlimit const no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGABRT, SIG_DFL);  // Catch's handler would report this test as failed
    ::close(STDERR_FILENO);         // what is expected needs no message
    misuse();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace

TEST_CASE("update_queue: misuse is asserted", "[peer][queues]") {
  update_queue<int> q = nine_updates();
  q.drop_before(it(1));
  CHECK_FALSE(aborts([&] { q.enqueue(it(3), from(3), 1); }));
  CHECK(aborts([&] { q.enqueue(it(0), from(3), 1); }));  // older than awaited
  CHECK(aborts([&] { q.enqueue(it(5), from(3), 1); }));  // its slot is still in use
  CHECK(aborts([&] { q.enqueue(it(1), from(3), 1); }));  // a second time
  CHECK(aborts([&] { q.enqueue(it(1), from(9), 1); }));  // more than there are senders
  CHECK_FALSE(aborts([&] { (void)q.dequeue(3, it(1)); }));
  CHECK(aborts([&] { (void)q.dequeue(4, it(1)); }));
  CHECK(aborts([&] { (void)q.dequeue(1, it(0)); }));
  CHECK(aborts([&] { (void)q.dequeue(3, {}, from(7)); }));
  CHECK(aborts([] { update_queue<int> none(0, 1); }));
}

TEST_CASE("mailboxes: misuse is asserted", "[peer][queues]") {
  mailboxes<int> boxes(1);
  boxes.put(0, it(3), from(0), 1);
  (void)boxes.take(it(0));
  CHECK_FALSE(aborts([&] { boxes.put(0, it(4), from(0), 1); }));
  CHECK(aborts([&] { boxes.put(0, it(3), from(0), 1); }));
  CHECK(aborts([&] { boxes.put(0, it(2), from(0), 1); }));
}

TEST_CASE("token_queue: misuse is asserted", "[peer][queues]") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  token_queue q(2, 6);
  CHECK_FALSE(aborts([&] { q.put(4); }));
  CHECK(aborts([&] { q.put(5); }));
  CHECK(aborts([&] { q.put(-1); }));
  CHECK(aborts([&] { q.put(most); }));
  CHECK(aborts([&] { q.take(3); }));
  CHECK(aborts([&] { q.take(-1); }));
}
#endif
