// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Whole runs over Unix-domain sockets, with all roles in threads of this process: what reads see and
// where they are written, what threads share, and what becomes of large updates when connections
// break.
#include <catch2/catch.hpp>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <rubato/net/log.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/tcp.hpp>

#include "net/ends.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

using counting = dense<std::int64_t, sum>;
using keyed_counting = sparse<std::int64_t, sum>;

/// Connections that tests break are no news.
struct silence_in_log {
  silence_in_log() { net::set_log([](net::log_level, std::string_view) {}); }
  ~silence_in_log() { net::set_log({}); }
};

/// A coordinator and servers in threads of their own, and what workers need to find them.
template <protocol P, table_spec... Tables>
class serving {
 public:
  serving(net::deployment const& shape, P p, Tables... tables) : place_(shape) {
    place_.coordinator.path = folder_.file("coordinator");
    place_.silence = 60s;
    place_.reconnect = 20s;
    coordinator_ = std::make_unique<part<detail::coordinator_node>>(p, place_, tables...);
    auto& c = *coordinator_;
    c.node = std::make_unique<detail::coordinator_node>(
        c.place, detail::control_options<plan>(c.tables, c.place), detail::agreement(c.tables));
    c.start();
    for (std::uint32_t i = 0; i < place_.servers; ++i) {
      auto& s = *servers_.emplace_back(std::make_unique<part<server>>(p, place_, tables...));
      s.place.as = net::role::server;
      s.place.rank = i;
      s.place.listen = {.host = {}, .path = folder_.file("server-" + std::to_string(i))};
      s.node = std::make_unique<server>(s.tables, detail::agreement(s.tables), s.place, sparse_max);
      s.start();
    }
  }

  /// For a worker process.
  [[nodiscard]] tcp process(std::uint32_t rank, std::uint32_t threads) const {
    tcp options{.place = place_, .threads = threads};
    options.place.rank = rank;
    return options;
  }
  /// Links that were lost, on the servers' side.
  [[nodiscard]] std::uint64_t losses() const {
    std::uint64_t all = 0;
    for (auto const& s : servers_) all += s->node->stats().connections_lost;
    return all;
  }
  /// Reads of all kinds that the servers have answered.
  [[nodiscard]] std::uint64_t reads() const {
    std::uint64_t all = 0;
    for (auto const& s : servers_) all += s->node->stats().reads;
    return all;
  }

 private:
  using plan = blueprint<null_mutex, P, Tables...>;
  using server = detail::server_node<plan>;
  static constexpr std::uint64_t sparse_max = std::uint64_t{1} << 30;

  /// A process's own copy of everything. Ends when all workers have left.
  template <class Node>
  struct part {
    part(P p, net::deployment const& where, Tables... t)
        : place(where), tables(std::move(p), where.servers, std::move(t)...) {
      place.as = net::role::coordinator;
    }
    void start() {
      thread = std::jthread([this] {
        try {
          node->run();
        } catch (error const&) {  // the workers say so
        }
      });
    }
    net::deployment place;
    plan tables;
    std::unique_ptr<Node> node;
    std::jthread thread;
  };

  test::temporary_folder folder_;
  net::deployment place_;
  std::unique_ptr<part<detail::coordinator_node>> coordinator_;
  std::vector<std::unique_ptr<part<server>>> servers_;
};

/// Catch is not for several threads: what is wrong in a body ends the run.
void expect(bool fine, std::string const& sentence) {
  if (!fine) throw std::logic_error(sentence);
}

/// Runs `f(process)` for so many worker processes, side by side; rethrows what one has thrown.
template <class F>
void in_processes(std::uint32_t count, F f) {
  std::vector<std::exception_ptr> thrown(count);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < count; ++i)
      threads.emplace_back([&f, &thrown, i] {
        try {
          f(i);
        } catch (...) {
          thrown[i] = std::current_exception();
        }
      });
  }
  for (auto const& e : thrown)
    if (e) std::rethrow_exception(e);
}

std::vector<std::int64_t> ones(std::size_t n) { return std::vector<std::int64_t>(n, 1); }

bool are_all(std::span<std::int64_t const> values, std::int64_t expected) {
  return std::ranges::all_of(values, [&](auto x) { return x == expected; });
}

constexpr std::uint32_t processes = 2;
net::deployment two_by_two() { return {.workers = processes, .servers = 2}; }

}  // namespace

// ---- answers that are too large

TEST_CASE("tcp: a sparse table with more rows than one message may have is read by key, not as a whole",
          "[tcp]") {
  constexpr std::size_t columns = 4;
  constexpr std::uint64_t row = sizeof(std::uint64_t) + columns * sizeof(std::int64_t);
  constexpr std::uint64_t few = 10;
  constexpr std::uint64_t many = 300;
  counting const other{.rows = 4};
  keyed_counting const keyed{.width = columns};
  std::uint32_t const threads = GENERATE(1U, 2U);
  net::deployment const shape{.workers = 1, .servers = 1};
  serving const run(shape, asp{}, other, keyed);
  tcp options = run.process(0, threads);
  options.sparse_max = 2 * few * row;
  cluster c{options, asp{}, other, keyed};
  std::atomic<std::uint64_t> lost = 0;
  auto const is_too_large = [](auto read) {
    try {
      read();
    } catch (error const& e) {
      return e.code() == errc::bad_option &&
             e.what() == "table 1 cannot be read as a whole: its rows on server 0 take " +
                             std::to_string(many * row) + " bytes, and tcp::sparse_max allows " +
                             std::to_string(2 * few * row) + " in one message";
    }
    return false;
  };
  c.run([&](auto& w) {
    std::vector<std::uint64_t> keys(few);
    std::vector<std::int64_t> values(few * columns);
    for (std::uint64_t first = 0; first < many; first += few) {
      for (std::uint64_t i = 0; i < few; ++i) keys[i] = first + i;
      w[table<1>].push(keys, ones(few * columns));
      w.step();
    }
    sparse_snapshot<std::int64_t> all;
    expect(is_too_large([&] { w[table<1>].pull(all); }), "the table was read");
    w[table<1>].pull(keys, values);
    expect(are_all(values, threads) || threads == 2, "a push is missing");
    expect(is_too_large([&] { w[table<1>].pull(all); }), "the table was read the second time");
    w.step();
    lost += run.losses();
  });
  CHECK(is_too_large([&] { (void)c.parameters<1>(); }));
  CHECK(are_all(c.parameters<0>(), 0));
  CHECK(lost == 0);
}

// ---- joining

namespace {

/// Worker 0 has one more worker join at clock 5; every one counts its steps in a column of its own.
template <protocol P>
void check_join(P p, std::uint32_t threads) {
  constexpr std::size_t rows = 4;
  constexpr std::size_t columns = 8;
  constexpr std::int64_t clocks = 30;
  counting const table{.rows = rows, .width = columns};
  serving run(two_by_two(), p, table);
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
  serving run({.workers = 1, .servers = 1}, asp{}, table);
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

// ---- what pulls see

namespace {

/// Room for a pull, with marks on both sides that nothing may touch.
class marked_room {
 public:
  explicit marked_room(std::size_t n) : all_(n + 2 * margin, mark) {}
  [[nodiscard]] std::span<std::int64_t> room() {
    return std::span(all_).subspan(margin, all_.size() - 2 * margin);
  }
  [[nodiscard]] bool is_intact() const {
    auto const all = std::span(all_);
    return are_all(all.first(margin), mark) && are_all(all.last(margin), mark);
  }

 private:
  static constexpr std::size_t margin = 64;
  static constexpr std::int64_t mark = -7;
  std::vector<std::int64_t> all_;
};

/// A worker that pushes in some clocks before it pulls, in some only a few rows, and in some pulls
/// twice; so that anybody knows what it has pushed by which clock.
class busy_worker {
 public:
  static constexpr std::size_t rows = 700;
  static constexpr std::int64_t clocks = 60;

  /// What others have pushed may be missing, or there already, for `slack` clocks; less than 0: there
  /// is no limit.
  explicit busy_worker(std::int64_t slack) : slack_(slack) {}

  /// What a worker has pushed to a row in its first so many clocks.
  [[nodiscard]] static std::int64_t pushed(std::size_t row, std::int64_t until) {
    std::int64_t all = 0;
    for (std::int64_t c = 0; c < until; ++c)
      all += 1 + pushes_early(c) + (pushes_few(c) && is_one_of_few(row));
    return all;
  }

  template <class Worker>
  void operator()(Worker& w) {
    std::vector<std::uint64_t> const few{1, rows / 2, rows - 1};
    std::vector<std::int64_t> step(rows * processes);
    for (std::size_t row = 0; row < rows; ++row) step[row * processes + w.rank()] = 1;
    std::vector<std::int64_t> const few_steps(step.begin(), step.begin() + 3 * processes);
    for (; w.clock().value() < clocks; w.step()) {
      std::int64_t const now = w.clock().value();
      if (pushes_early(now)) w.push(step);
      if (pushes_few(now)) w.push(few, few_steps);
      read(w, 0);
      w.push(step);
      if (now % 5 == 4) read(w, 1);
    }
  }

 private:
  static bool pushes_early(std::int64_t clock) { return clock % 3 == 1; }
  static bool pushes_few(std::int64_t clock) { return clock % 3 == 2; }
  static bool is_one_of_few(std::size_t row) {
    return row == 1 || row == rows / 2 || row == rows - 1;
  }

  /// `late`: what it has pushed in this clock after the first read.
  template <class Worker>
  void read(Worker& w, std::int64_t late) {
    w.pull(seen_.room());
    expect(seen_.is_intact(), "a pull wrote where it should not");
    std::int64_t const now = w.clock().value();
    std::size_t const other = 1 - w.rank();
    std::int64_t const least = slack_ < 0 ? 0 : std::max<std::int64_t>(now - slack_, 0);
    std::int64_t const most = slack_ < 0 ? clocks : std::min(now + slack_ + (slack_ != 0), clocks);
    for (std::size_t row = 0; row < rows; ++row) {
      std::int64_t const own = pushed(row, now + 1) - 1 + late;
      std::int64_t const theirs = seen_.room()[row * processes + other];
      expect(seen_.room()[row * processes + w.rank()] == own, "own pushes are missing, or there twice");
      expect(theirs >= pushed(row, least) && theirs <= pushed(row, most), "others' are out of bounds");
      expect(theirs >= before_[row], "others' pushes are gone again");
      before_[row] = theirs;
    }
  }

  std::int64_t slack_;
  marked_room seen_{rows * processes};
  std::vector<std::int64_t> before_ = std::vector<std::int64_t>(rows);
};

template <protocol P>
void check_pulls(P p, std::int64_t slack) {
  counting const table{.rows = busy_worker::rows, .width = processes};
  serving run(two_by_two(), p, table);
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, 1), p, table};
    c.run([&](auto& w) { busy_worker{slack}(w); });
    auto const& all = c.parameters();
    for (std::size_t i = 0; i < all.size(); ++i)
      expect(all[i] == busy_worker::pushed(i / processes, busy_worker::clocks), "a push was lost");
  });
}

}  // namespace

TEST_CASE("tcp: pulls into the user's memory see own pushes once, and others' as far as the protocol says",
          "[tcp]") {
  SECTION("bsp") { check_pulls(bsp{}, 0); }
  SECTION("ssp") { check_pulls(ssp{.staleness = 2}, 2); }
  SECTION("asp") { check_pulls(asp{}, -1); }
}

// ---- what threads share

namespace {

template <protocol P>
void check_sharing(P p) {
  constexpr std::uint32_t threads = 3;
  constexpr std::int64_t clocks = 40;
  counting const table{.rows = 300, .width = threads};
  serving run({.workers = 1, .servers = 1}, p, table);
  cluster c{run.process(0, threads), p, table};
  auto const report = c.run([&](auto& w) {
    std::vector<std::int64_t> seen(table.rows * threads);
    std::vector<std::int64_t> step(seen.size());
    for (std::size_t i = w.rank(); i < step.size(); i += threads) step[i] = 1;
    for (; w.clock().value() < clocks; w.step()) {
      w.pull(seen);
      for (std::size_t i = w.rank(); i < seen.size(); i += threads)
        expect(seen[i] == w.clock().value(), "own pushes are missing, or there twice");
      w.push(step);
    }
  });
  std::uint64_t const pulls = report.total().pulls;
  CHECK(pulls == threads * clocks);
  CHECK(run.reads() < pulls);
  CHECK(run.reads() >= clocks / 4);
  CHECK(are_all(c.parameters(), clocks));
}

}  // namespace

TEST_CASE("tcp: threads that read the same ask the server less often than they read", "[tcp]") {
  SECTION("bsp") { check_sharing(bsp{}); }
  SECTION("ssp") { check_sharing(ssp{.staleness = 2}); }
}

// ---- commits that nobody waits for

namespace {

/// Waits without a call to the library, as a worker does that computes.
template <class Condition>
void compute_until(Condition condition, std::string const& otherwise) {
  auto const end = std::chrono::steady_clock::now() + 10s;
  while (!condition()) {
    expect(std::chrono::steady_clock::now() < end, otherwise);
    std::this_thread::sleep_for(100us);
  }
}

/// One worker commits many times and then computes for long; the other one, which is as far, reads all
/// of it meanwhile.
void check_last_commits(std::uint32_t processes_here, std::uint32_t threads) {
  constexpr std::int64_t rounds = 20;
  constexpr std::int64_t burst = 30;
  ssp const p{.staleness = burst};
  counting const table{.rows = 4, .width = 2};
  serving run({.workers = processes_here, .servers = 1}, p, table);
  std::atomic<std::int64_t> waiting = 0;
  std::atomic<std::int64_t> released = 0;
  in_processes(processes_here, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), p, table};
    c.run([&](auto& w) {
      std::vector<std::int64_t> step(table.rows * table.width);
      for (std::size_t i = w.rank(); i < step.size(); i += table.width) step[i] = 1;
      std::vector<std::int64_t> seen(step.size());
      for (std::int64_t round = 1; round <= rounds; ++round) {
        bool const reads = w.rank() == 1;
        if (!reads) compute_until([&] { return waiting == round; }, "the reader does not go on");
        for (std::int64_t i = 0; i < burst; ++i) {
          w.push(step);
          w.step();
        }
        if (reads) {
          waiting = round;
          w.pull(seen, staleness{0});
          expect(are_all(seen, round * burst), "a read went on without commits that it needs");
          released = round;
        } else {
          compute_until([&] { return released == round; }, "the last commits do not go out");
        }
      }
    });
  });
  CHECK(released == rounds);
}

}  // namespace

TEST_CASE("tcp: who waits for the last of many commits goes on although their worker computes", "[tcp]") {
  SECTION("in a thread beside it") { check_last_commits(1, 2); }
  SECTION("in another process") { check_last_commits(2, 1); }
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
  serving run({.workers = processes_here, .servers = 2}, asp{}, table);
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
  SECTION("right into its memory") { check_unwinding(2, 1, 50); }
  SECTION("through what threads share") { check_unwinding(1, 3, 50); }
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
template <protocol P>
void check_cuts(P p, std::uint32_t threads) {
  constexpr std::size_t large = 1 << 20;  // 8 MB
  static_assert(large * sizeof(std::int64_t) / 2 > detail::pieces::window_size);
  constexpr std::size_t small = 100;
  std::vector<std::uint64_t> const keys{2, 1'000'000'007, 5'000'000'021};
  counting const large_table{.rows = large};
  counting const small_table{.rows = small};
  keyed_counting const keyed_table{};
  silence_in_log const quiet;
  serving run(two_by_two(), p, large_table, small_table, keyed_table);
  std::atomic<std::int64_t> made = 0;
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), p, large_table, small_table, keyed_table};
    cutter foe(c, 50);
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

TEST_CASE("tcp: stop() ends a run for all also where it has not begun yet", "[tcp]") {
  serving const run(two_by_two(), asp{}, counting{.rows = 8});
  std::atomic<int> ended = 0;
  std::atomic<bool> held = true;
  in_processes(processes, [&](std::uint32_t rank) {
    cluster c{run.process(rank, 1), asp{}, counting{.rows = 8}};
    auto const goes_on = [](auto& worker) {
      while (true) worker.step();
    };
    if (rank == 0) std::this_thread::sleep_for(2s);  // it is the other that waits for this one
    std::jthread stopping;
    if (rank == 1)
      stopping = std::jthread([&] {
        std::this_thread::sleep_for(1s);
        c.stop();
        for (int i = 0; i < 2'000 && ended == 0; ++i) std::this_thread::sleep_for(10ms);
        held = ended != 0;
        if (!held) c.stop();  // so that nobody hangs
      });
    (void)c.run(goes_on);
    ++ended;
  });
  CHECK(held);
}

namespace {
/// While it lives no thread can be started: its stack would not fit.
class no_more_threads {
 public:
  no_more_threads() {
    pthread_attr_t huge;
    pthread_getattr_default_np(&before_);
    pthread_getattr_default_np(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 48);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  no_more_threads(no_more_threads const&) = delete;
  no_more_threads& operator=(no_more_threads const&) = delete;
  ~no_more_threads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};
}  // namespace

TEST_CASE("tcp: a process that gets no thread for a worker ends the run with that error", "[tcp]") {
  serving const run({.workers = 1, .servers = 1}, asp{}, counting{.rows = 8});
  cluster c{run.process(0, 2), asp{}, counting{.rows = 8}};
  {
    no_more_threads const limit;
    CHECK_THROWS_AS(c.run([](auto&) {}), std::system_error);
  }
  CHECK(c.run([](auto& w) { w.step(); }).updates == 2);
}
