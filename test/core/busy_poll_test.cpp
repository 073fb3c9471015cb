// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/busy_poll.hpp>

#include <catch2/catch.hpp>

using rubato::busy_poll;
using namespace std::chrono_literals;

namespace {

/// Time that passes only where one gives way, so long each time.
struct played_machine {
  static inline std::chrono::steady_clock::time_point at{};
  static inline std::chrono::steady_clock::duration gives_way_for{};

  static std::chrono::steady_clock::time_point now() { return at; }
  static void yield() { at += gives_way_for; }
};

/// Counts what becomes of waits on that machine.
struct waiter {
  using duration = std::chrono::steady_clock::duration;
  explicit waiter(duration gives_way_for, duration most = 50us) : polls(most) {
    played_machine::gives_way_for = gives_way_for;
  }

  /// It is over when it has been looked at so often; who sleeps is woken so much later.
  void wait(int looks, duration sleeps = 1us) {
    int seen = 0;
    polls.wait([&] { return ++looked, ++seen == looks; },
               [&] {
                 ++slept;
                 played_machine::at += sleeps;
               });
  }

  rubato::basic_busy_poll<played_machine> polls;
  int looked = 0, slept = 0;
};

}  // namespace

TEST_CASE("busy_poll: to look pays until four waits in a row were long, and again once one is short") {
  busy_poll polls(50us);
  for (int i = 0; i < 3; ++i) polls.waited(10ms);
  CHECK(polls.pays());
  polls.waited(10ms);
  CHECK_FALSE(polls.pays());
  polls.waited(101us);
  CHECK_FALSE(polls.pays());
  polls.waited(100us);  // of which up to half may have been to wake up
  CHECK(polls.pays());
  for (int i = 0; i < 3; ++i) polls.waited(10ms);
  polls.waited(1us);
  for (int i = 0; i < 3; ++i) polls.waited(10ms);
  CHECK(polls.pays());
  CHECK(polls.length() == 50us);
}

TEST_CASE("busy_poll: it looks for what comes, and sleeps when it has looked for long enough") {
  waiter w(1us);
  w.wait(3);
  CHECK(w.looked == 3);
  CHECK(w.slept == 0);
  w.wait(51);
  CHECK(w.looked == 3 + 50);
  CHECK(w.slept == 1);
  for (int i = 0; i < 4; ++i) w.wait(1000, 1ms);
  CHECK(w.slept == 5);
  w.wait(1, 1ms);  // at once, as waits are long
  CHECK(w.looked == 3 + 5 * 50);
  CHECK(w.slept == 6);
  w.wait(1);
  CHECK(w.slept == 7);
  w.wait(1);  // again, since that one was short
  CHECK(w.slept == 7);
}

TEST_CASE("busy_poll: it looks once at least, and not beyond the deadline") {
  waiter w(1us);
  for (auto const left : {-1ms, 0ms}) {
    w.polls.wait([&] { return ++w.looked, false; }, [&] { ++w.slept; }, played_machine::now() + left);
  }
  CHECK(w.looked == 2);
  w.polls.wait([&] { return ++w.looked, false; }, [&] { ++w.slept; }, played_machine::now() + 5us);
  CHECK(w.looked == 2 + 5);
  CHECK(w.slept == 3);
}

TEST_CASE("busy_poll: who loses the processor by giving way sleeps at once for longer and longer") {
  waiter w(3ms);  // as beside threads that only compute
  int slept = 0;
  for (int const rest : {32, 64, 128, 256, 512, 1024, 2048, 4096, 4096}) {
    int const looked = w.looked;
    w.wait(1);
    CHECK(w.looked == looked + 1);
    for (int i = 0; i < rest; ++i) w.wait(1);
    CHECK(w.looked == looked + 1);
    CHECK(w.slept == (slept += rest));
  }
}

TEST_CASE("busy_poll: after 64 looks without a loss the next one counts half") {
  waiter w(3ms);
  auto const rest_after_a_loss = [&] {
    played_machine::gives_way_for = 3ms;
    w.wait(1);
    played_machine::gives_way_for = 1us;
    int const looked = w.looked;
    int rest = 0;
    for (; w.looked == looked; ++rest) w.wait(1);
    return rest - 1;  // the last of them has looked
  };
  CHECK(rest_after_a_loss() == 32);
  CHECK(rest_after_a_loss() == 64);
  for (int i = 0; i < 62; ++i) w.wait(1);  // with the one above 63
  CHECK(rest_after_a_loss() == 128);
  for (int i = 0; i < 63; ++i) w.wait(1);
  CHECK(rest_after_a_loss() == 128);
  for (int i = 0; i < 63 + 3 * 64; ++i) w.wait(1);
  CHECK(rest_after_a_loss() == 32);
  played_machine::gives_way_for = 499us;  // no loss, or it would rest now
  w.wait(1);
  CHECK(rest_after_a_loss() == 64);
}

TEST_CASE("busy_poll: who has lost the processor looks no further") {
  waiter w(3ms, 10ms);
  w.wait(2);
  CHECK(w.looked == 1);
  CHECK(w.slept == 1);
}

TEST_CASE("busy_poll: of no length it never looks") {
  busy_poll polls(0us);
  CHECK(polls.is_off());
  polls.waited(0us);
  CHECK_FALSE(polls.pays());
  CHECK_FALSE(busy_poll(1us).is_off());
  int looked = 0, slept = 0;
  polls.wait([&] { return ++looked != 0; }, [&] { ++slept; });
  CHECK(looked == 0);
  CHECK(slept == 1);
}
