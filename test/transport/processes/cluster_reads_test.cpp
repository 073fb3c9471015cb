// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Whole runs over Unix-domain sockets, with all roles in threads of this process: what reads see and
// where they are written, what threads share, and who waits for what.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/tcp.hpp>

#include "patience.hpp"
#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;

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
  serving const run(shape, asp{}, {describe(other), describe(keyed)});
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

// ---- what pulls see

namespace {

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

void check_pulls(rules const& p, std::int64_t slack) {
  counting const table{.rows = busy_worker::rows, .width = processes};
  serving const run(two_by_two(), p, {describe(table)});
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

// ---- several tables in one read

namespace {

constexpr std::uint32_t readers = 2;
using reads_of_all = std::array<std::vector<std::uint32_t>, readers>;

dense<float> plain_weights() { return {.rows = 5000}; }
dense<float> coded_weights() { return {.rows = 900, .width = 3, .codec = {.answers = bfloat16{}}}; }
sparse<float> embedding() { return {.width = 2}; }

/// A body that reads three tables in each clock, and what it has seen of them, bit for bit.
template <class Worker>
void read_three_tables(Worker& w, bool together, std::vector<std::uint32_t>& seen) {
  std::vector<float> first(5000), second(2700), rows(6);
  for (unsigned clock = 0; clock < 12; ++clock) {
    std::vector<unsigned> const keys{clock, 1'000'000 + w.rank(), 7};
    if (together) {
      if (clock % 4 == 3) w[table<2>].prefetch(keys);
      w.pull_together({w[table<1>].into(second), w[table<2>].into(keys, rows), w[table<0>].into(first)});
    } else {
      w.pull(first);
      w[table<1>].pull(second);
      w[table<2>].pull(keys, rows);
    }
    for (auto const* const read : {&first, &second, &rows})
      for (float const x : *read) seen.push_back(std::bit_cast<std::uint32_t>(x));
    for (std::size_t i = 0; i < first.size(); ++i) first[i] = 0.3F + 0.1F * first[i] + static_cast<float>(w.rank());
    for (float& x : second) x = 0.7F - 0.2F * x;
    for (float& x : rows) x = 1.1F + 0.3F * x;
    w.push(first);
    w[table<1>].push(second);
    w[table<2>].push(keys, rows);
    w.step();
  }
}

}  // namespace

TEST_CASE("tcp: several tables in one read are bit for bit what they are in process, one by one", "[tcp]") {
  reads_of_all expected;
  cluster here{in_process{.workers = readers}, bsp{}, plain_weights(), coded_weights(), embedding()};
  here.run([&](auto& w) { read_three_tables(w, false, expected[w.rank()]); });
  std::uint32_t const threads = GENERATE(1U, 2U);
  reads_of_all seen;
  serving const run({.workers = readers / threads, .servers = 2}, bsp{},
                    {describe(plain_weights()), describe(coded_weights()), describe(embedding())});
  in_processes(readers / threads, [&](std::uint32_t rank) {
    cluster c{run.process(rank, threads), bsp{}, plain_weights(), coded_weights(), embedding()};
    c.run([&](auto& w) { read_three_tables(w, true, seen[w.rank()]); });
  });
  CHECK(seen == expected);
}

// ---- what threads share

namespace {

void check_sharing(rules const& p) {
  constexpr std::uint32_t threads = 3;
  constexpr std::int64_t clocks = 40;
  counting const table{.rows = 300, .width = threads};
  serving const run({.workers = 1, .servers = 1}, p, {describe(table)});
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
  auto const end = std::chrono::steady_clock::now() + test::patience;
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
  serving const run({.workers = processes_here, .servers = 1}, p, {describe(table)});
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
