// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Whole runs over Unix-domain sockets, with all roles in threads of this process: who joins, how runs
// end, and what becomes of large updates when connections break.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/transport/processes/windowed_body.hpp>
#include <rubato/transport/tcp.hpp>

#include "no_more_threads.hpp"
#include "seeds.hpp"
#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;

TEST_CASE("tcp: early finishers do not raise the others' weights (rules §4)", "[tcp]") {
  rules const p = with(ssp{.staleness = 2}, average{});
  dense<double> const table{.rows = 2};
  serving const run(two_by_two(), p, {describe(table)});
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, 1), p, table};
    c.run([](auto& w) {  // workers of 2 and 8 steps
      std::vector<double> seen(2);
      for (std::uint32_t s = 0; s < (w.rank() == 0 ? 2 : 8); ++s) {
        w.pull(seen);
        w.push(std::array{2.0, 2.0});
        w.step();
      }
    });
    expect(c.parameters() == std::vector<double>{10, 10}, "an update was worth other than 1/2");
  });
}

// ---- joining

namespace {

/// Worker 0 has one more worker join at clock 5; every one counts its steps in a column of its own.
void check_join(rules const& p, std::uint32_t threads) {
  constexpr std::size_t rows = 4;
  constexpr std::size_t columns = 8;
  constexpr std::int64_t clocks = 30;
  counting const table{.rows = rows, .width = columns};
  serving const run(two_by_two(), p, {describe(table)});
  std::array<std::atomic<std::int64_t>, columns> made{};
  std::atomic<std::uint32_t> joined = 0;
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), p, table};
    auto const report = c.run([&](auto& w) {
      std::vector<std::int64_t> seen(rows * columns);
      std::vector<std::int64_t> step(rows * columns);
      for (std::size_t row = 0; row < rows; ++row) step[row * columns + w.rank()] = 1;
      std::int64_t const first = w.clock().value();
      for (; w.clock().value() < clocks; w.step()) {
        if (w.rank() == 0 && w.clock().value() == 5) joined = c.add_worker();
        w.pull(seen);
        expect(seen[w.rank()] == made[w.rank()], "an own step is missing, or is there twice");
        w.push(step);
        ++made[w.rank()];
      }
      expect(made[w.rank()] == clocks - first, "clocks were left out");
    });
    expect(report.workers.size() == processes * threads + 1, "the joiner is not in the report");
    auto const& counts = c.parameters();
    for (std::size_t i = 0; i < counts.size(); ++i)
      expect(counts[i] == made[i % columns], "a step was lost, or counts twice");
  });
  CHECK(joined == processes * threads);
  CHECK(made[joined] > 0);
}

}  // namespace

TEST_CASE("tcp: a worker is added to a run under way", "[tcp]") {
  std::uint32_t const threads = GENERATE(1U, 2U);
  SECTION("bsp") { check_join(bsp{}, threads); }
  SECTION("ssp") { check_join(ssp{.staleness = 2}, threads); }
  SECTION("asp") { check_join(asp{}, threads); }
}

TEST_CASE("tcp: a worker that is added as the last one ends takes part, or is said to come too late",
          "[tcp]") {
  constexpr int rounds = 50;
  counting const table{.rows = 4};
  serving const run({.workers = 1, .servers = 1}, asp{}, {describe(table)});
  cluster c{run.process(0, 1), asp{}, table};
  int added = 0;
  for (int round = 0; round < rounds; ++round) {
    int const before = added;
    std::atomic<int> bodies = 0;
    std::jthread adding;
    c.run([&](auto& w) {
      ++bodies;
      if (w.rank() != 0) return;
      w.push(ones(table.rows));
      w.step();
      adding = std::jthread([&] {
        try {
          (void)c.add_worker();
          ++added;
        } catch (usage_error const&) {  // too late
        }
      });
    });
    adding.join();
    CHECK(bodies == 1 + added - before);
  }
}

// ---- runs that end while answers are under way

namespace {

/// Memory that a body reads into and that is gone when it ends.
class lent_room {
 public:
  explicit lent_room(std::vector<std::int64_t>& room) : room_(room) {}
  lent_room(lent_room const&) = delete;
  lent_room& operator=(lent_room const&) = delete;
  ~lent_room() { std::ranges::fill(room_, gone); }
  static constexpr std::int64_t gone = -7;

 private:
  std::vector<std::int64_t>& room_;
};

/// Everybody reads on and on until one ends the run, in one round by a throw, in the next by a stop.
template <class Cluster>
void unwind(Cluster& c, std::uint32_t round, std::vector<std::vector<std::int64_t>>& rooms) {
  bool const throws = round % 2 == 0;
  try {
    c.run([&](auto& w) {
      auto& room = rooms.at(w.rank());
      lent_room const until_end(room);
      bool const ends = w.rank() == round % rooms.size();
      for (std::uint64_t left = 1 + w.random().below(3);; --left) {
        if (ends && left == 0) {
          if (throws) throw std::runtime_error("enough");
          c.stop();
        }
        w.pull(room);
        w.step();
      }
    });
    expect(!throws, "nobody heard that a body has thrown");
  } catch (std::runtime_error const& e) {
    expect(throws && std::string(e.what()).find("enough") != std::string::npos, e.what());
  }
  for (auto const& room : rooms)
    expect(room.empty() || are_all(room, lent_room::gone), "a pull went on after its body");
}

void check_unwinding(std::uint32_t processes_here, std::uint32_t threads, std::uint32_t rounds) {
  counting const table{.rows = 1 << 18};
  serving const run({.workers = processes_here, .servers = 2}, asp{}, {describe(table)});
  std::uint32_t const workers = processes_here * threads;
  in_processes(processes_here, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), asp{}, table};
    std::vector<std::vector<std::int64_t>> rooms(workers);
    for (std::uint32_t i = rank * threads; i < (rank + 1) * threads; ++i) rooms[i].resize(table.rows);
    for (std::uint32_t round = 0; round < rounds; ++round) unwind(c, round, rooms);
    c.run([&](auto& w) {
      for (int i = 0; i < 5; ++i, w.step()) w.push(ones(table.rows));
    });
    expect(are_all(c.parameters(), 5 * workers), "a run after those that were ended is not exact");
  });
}

}  // namespace

TEST_CASE("tcp: nothing is written to what a body read into once the body is over", "[tcp]") {
  silence_in_log const quiet;
  std::uint32_t const rounds = test::sanitized() ? 16 : 50;
  SECTION("right into its memory") { check_unwinding(2, 1, rounds); }
  SECTION("through what threads share") { check_unwinding(1, 3, rounds); }
}

namespace {

/// Sockets that say when they are first waited for, once somebody wants to hear of it.
class watched_network final : public net::network_decorator {
 public:
  watched_network(std::atomic<bool> const& listening, std::latch& waited_for)
      : network_decorator(std::make_unique<net::asio_network>()),
        listening_(listening),
        waited_for_(waited_for) {}

  void run_one(clock::time_point deadline) override {
    if (listening_ && !std::exchange(said_, true)) waited_for_.count_down();
    inner().run_one(deadline);
  }

 private:
  std::atomic<bool> const& listening_;
  std::latch& waited_for_;
  bool said_ = false;
};

}  // namespace

TEST_CASE("tcp: stop() ends a run for all also where it has not begun yet", "[tcp]") {
  serving const run(two_by_two(), asp{}, {describe(counting{.rows = 8})});
  std::atomic<bool> is_called = false;
  std::latch waits(1);
  std::latch asked(1);
  std::atomic<int> ended = 0;
  std::atomic<bool> held = true;
  in_processes(processes, [&](std::uint32_t rank) {
    tcp options = run.process(rank, 1);
    if (rank == 1)
      options.network = [&] { return std::make_unique<watched_network>(is_called, waits); };
    cluster c{options, asp{}, counting{.rows = 8}};
    auto const goes_on = [](auto& worker) {
      while (true) worker.step();
    };
    if (rank == 0) asked.wait();  // it is the other that waits for this one
    std::jthread stopping;
    if (rank == 1) {
      is_called = true;
      stopping = std::jthread([&] {
        waits.wait();
        c.stop();
        asked.count_down();
        for (int i = 0; i < 2'000 && ended == 0; ++i) std::this_thread::sleep_for(10ms);
        held = ended != 0;
        if (!held) c.stop();  // so that nobody hangs
      });
    }
    (void)c.run(goes_on);
    ++ended;
  });
  CHECK(held);
}

TEST_CASE("tcp: who leaves by an exception after a run has failed, and has not just left", "[tcp]") {
  serving const run(two_by_two(), asp{}, {describe(counting{.rows = 8})});
  std::string said;
  auto const step = [](auto& w) { w.step(); };
  auto const play = [&](std::uint32_t rank) {
    cluster c{run.process(rank, 1), asp{}, counting{.rows = 8}};
    c.run(step);
    if (rank == 1) throw std::out_of_range("after the run");
    try {
      c.run(step);
    } catch (error const& e) {
      said = e.what();
    }
  };
  CHECK_THROWS_WITH(in_processes(processes, play), "after the run");
  CHECK_THAT(said, Catch::Contains("worker 1 (process ") &&
                       Catch::Contains(" was lost: it was left by an exception after a run"));
}

namespace {

/// Sockets from which nothing is heard while `is_deaf`; they say when that is so.
class deaf_network final : public net::network_decorator {
 public:
  deaf_network(std::atomic<bool> const& is_deaf, std::latch& hears_nothing)
      : network_decorator(std::make_unique<net::asio_network>()), is_deaf_(is_deaf), hears_nothing_(hears_nothing) {}

  void run_one(clock::time_point deadline) override {
    wait_while_deaf();
    inner().run_one(std::min(deadline, now() + 1ms));
  }
  void poll() override {
    wait_while_deaf();
    inner().poll();
  }

 private:
  void wait_while_deaf() {
    if (!is_deaf_) return;
    if (!std::exchange(said_, true)) hears_nothing_.count_down();
    is_deaf_.wait(true);
  }

  std::atomic<bool> const& is_deaf_;
  std::latch& hears_nothing_;
  bool said_ = false;
};

}  // namespace

TEST_CASE("tcp: a run that was over has not failed, although somebody is lost before a process has heard either",
          "[tcp]") {
  counting const table{.rows = 8};
  auto const servers = GENERATE(1U, 2U);  // sockets are read in another order
  serving const run({.workers = processes, .servers = servers}, bsp{}, {describe(table)});
  std::atomic<bool> is_deaf = false;
  std::latch hears_nothing(1);
  std::atomic<bool> came_to_the_end = false;
  std::string said;
  auto const step = [](auto& w) { w.step(); };
  auto const play = [&](std::uint32_t rank) {
    tcp options = run.process(rank, 1);
    if (rank == 0) options.network = [&] { return std::make_unique<deaf_network>(is_deaf, hears_nothing); };
    struct hears_again {
      std::atomic<bool>& is_deaf;
      bool is_meant;
      ~hears_again() {
        if (!is_meant) return;
        std::this_thread::sleep_for(50ms);  // both are under way
        is_deaf = false;
        is_deaf.notify_all();
      }
    } const once_it_has_left{is_deaf, rank == 1};
    cluster c{options, bsp{}, table};
    c.run([&](auto& w) {
      w.step();
      if (rank == 0) return;
      std::vector<std::int64_t> seen(8);
      w.step();
      w.pull(seen);  // waits until all know that worker 0 has ended
      is_deaf = true;
      auto const end = std::chrono::steady_clock::now() + patience;
      while (!hears_nothing.try_wait() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    });
    if (rank == 1) throw std::out_of_range("after the run");
    came_to_the_end = true;
    try {
      c.run(step);
    } catch (error const& e) {
      said = e.what();
    }
  };
  CHECK_THROWS_WITH(in_processes(processes, play), "after the run");
  CHECK(came_to_the_end);
  CHECK(hears_nothing.try_wait());  // else it has heard one after the other
  CHECK_THAT(said, Catch::Contains(" was lost: it was left by an exception after a run"));
}

namespace {

/// Who keeps a question: a test sees those that wait at servers.
enum class keeper { servers, coordinator };

/// Process 0 asks for what never comes, since process 1 ends the run. Returns for how long its workers waited for that.
duration waited_in_vain(rules const& p, std::uint32_t threads, keeper at = keeper::servers) {
  serving const run(two_by_two(), p, {describe(counting{.rows = 8})});
  std::atomic<bool> asks = false, has_ended = false;
  std::atomic<duration::rep> waited = 0;
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), p, counting{.rows = 8}};
    c.run([&](auto& w) {
      std::vector<std::int64_t> seen(8);
      w.pull(seen);
      if (rank == 1) {
        // Another thread of this process may have ended it before this one looks.
        auto const is_kept = [&] { return has_ended || (at == keeper::servers ? run.reads_waiting() > 0 : asks.load()); };
        while (!is_kept()) std::this_thread::sleep_for(1ms);
        c.stop();
        while (!has_ended) std::this_thread::sleep_for(1ms);  // who leaves holds nobody up any more
        return;
      }
      struct at_end {
        std::atomic<bool>& has_come;
        ~at_end() { has_come = true; }
      } const end{has_ended};
      w.step();
      duration const before = w.metrics().wait;
      asks = true;
      try {
        w.pull(seen);
      } catch (...) {
        waited += (w.metrics().wait - before).count();
        throw;
      }
    });
  });
  return duration(waited);
}

}  // namespace

TEST_CASE("tcp: a worker waits for an answer that never comes", "[tcp]") {
  CHECK(waited_in_vain(bsp{}, 1) > 0ns);
  CHECK(waited_in_vain(bsp{}, 2) > 0ns);
  duration for_cut{};  // it may be told of the end before it asks
  for (auto const end = std::chrono::steady_clock::now() + patience;
       for_cut == 0ns && std::chrono::steady_clock::now() < end;)
    for_cut = waited_in_vain(with(bsp{}, stable_cut{}), 1, keeper::coordinator);
  CHECK(for_cut > 0ns);
}

TEST_CASE("tcp: a process that gets no thread for a worker ends the run with that error", "[tcp]") {
  serving const run({.workers = 1, .servers = 1}, asp{}, {describe(counting{.rows = 8})});
  cluster c{run.process(0, 2), asp{}, counting{.rows = 8}};
  {
    no_more_threads const limit;
    CHECK_THROWS_AS(c.run([](auto&) {}), std::system_error);
    CHECK_THROWS_WITH(c.run([](auto&) {}), Catch::Contains("a thread for a process of a run cannot be started"));
  }
  CHECK(c.run([](auto& w) { w.step(); }).updates == 2);
}

// ---- connections that break

namespace {

/// Breaks a process's connections at random moments, so many times.
template <class Cluster>
class cutter {
 public:
  cutter(Cluster& c, int cuts)
      : thread_([this, &c, cuts](std::stop_token const& over) {
          random_stream random(c.runtime().rank(), 0xc07);
          for (int i = 0; i < cuts && !over.stop_requested(); ++i) {
            std::this_thread::sleep_for(std::chrono::microseconds(random.below(12'000)));
            c.runtime().cut(server_id{static_cast<std::uint32_t>(random.below(2))});
          }
          done_ = true;
        }) {}
  [[nodiscard]] bool is_done() const noexcept { return done_; }

 private:
  std::atomic<bool> done_ = false;
  std::jthread thread_;
};

/// Updates of all kinds, of which the large ones are folded in pieces where the protocol lets them.
void check_cuts(rules const& p, std::uint32_t threads) {
  constexpr std::size_t large = 1 << 20;  // 8 MB
  static_assert(large * sizeof(std::int64_t) / 2 > detail::windowed_body::window_size);
  constexpr std::size_t small = 100;
  std::vector<std::uint64_t> const keys{2, 1'000'000'007, 5'000'000'021};
  counting const large_table{.rows = large};
  counting const small_table{.rows = small};
  keyed_counting const keyed_table{};
  silence_in_log const quiet;
  serving const run(two_by_two(), p,
                    {describe(large_table), describe(small_table), describe(keyed_table)});
  std::atomic<std::int64_t> made = 0;
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), p, large_table, small_table, keyed_table};
    cutter foe(c, test::sanitized() ? 20 : 50);
    c.run([&](auto& w) {
      marked_room seen(large);
      auto const step = ones(large);
      std::int64_t own = 0;
      while (own < 5 || !foe.is_done()) {
        w[table<0>].pull(seen.room());
        expect(seen.is_intact(), "a pull wrote where it should not");
        expect(std::ranges::min(seen.room()) >= own, "an own push is missing");
        w[table<0>].push(step);
        w[table<1>].push(std::span(step).first(small));
        w[table<2>].push(keys, std::span(step).first(keys.size()));
        ++own;
        ++made;
        w.step();
      }
    });
    std::int64_t const all = made;
    expect(are_all(c.template parameters<0>(), all), "a large update was lost, or counts twice");
    expect(are_all(c.template parameters<1>(), all), "a small update was lost, or counts twice");
    expect(c.template parameters<2>().keys.size() == keys.size() &&
               are_all(c.template parameters<2>().values, all),
           "an update of keys was lost, or counts twice");
  });
}

}  // namespace

TEST_CASE("tcp: large reads and updates that are cut arrive once", "[tcp]") {
  SECTION("bsp") { check_cuts(bsp{}, 1); }
  SECTION("ssp") { check_cuts(ssp{.staleness = 2}, 1); }
  SECTION("asp") { check_cuts(asp{}, 1); }
  SECTION("asp, two threads") { check_cuts(asp{}, 2); }
}
