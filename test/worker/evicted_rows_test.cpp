// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A worker that keeps few of the rows it has fetched never reads an older state of one than before.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

namespace rb = rubato;

namespace {

using counts = rb::dense<std::int64_t>;

constexpr double work = 1000.0;  // long beside the latency

}  // namespace

TEST_CASE(
    "evicted rows: what has been read of a row is not older when it is read again, although an old "
    "copy of the whole table would do") {
  constexpr std::size_t rows = 3;
  rb::simulated const where{
      .workers = 2, .servers = 1, .scenario = {.speed = {.slowness = {0.1, 1.0}}}};
  rb::cluster cluster{where, rb::ssp{.staleness = 3}, counts{.rows = rows, .cached_rows = 1}};
  std::array<std::int64_t, 2> seen{-1, -1};
  cluster.run([&](auto& worker) {
    bool const looks = worker.rank() == 0;  // and is faster than the other one, who pushes
    std::vector<std::int64_t> all(rows);
    std::int64_t one = 0;
    for (int c = 0; c < 8; ++c) {
      if (looks) worker.pull(all);
      if (looks && c == 3) {
        CHECK(all == std::vector<std::int64_t>(rows, 0));
        // Only what is fetched anew is that fresh. The next row then takes its place.
        worker.pull(std::array{1U}, std::span(&one, 1), rb::staleness{2});
        seen[0] = one;
        worker.pull(std::array{2U}, std::span(&one, 1), rb::staleness{2});
        auto const fetches = worker.metrics().fetches;
        worker.pull(std::array{1U}, std::span(&one, 1));
        seen[1] = one;
        CHECK(worker.metrics().fetches == fetches + 1);
        worker.pull(std::array{1U}, std::span(&one, 1));
        CHECK(one == seen[1]);
        CHECK(worker.metrics().fetches == fetches + 1);
      }
      if (!looks) worker.push(std::vector<std::int64_t>(rows, 1));
      worker.step(work);
    }
  });
  CHECK(seen[0] >= 1);
  CHECK(seen[1] >= seen[0]);
}

namespace {

/// What a worker reads and pushes, drawn at random; each worker counts in a column of its own.
class forgetful_worker {
 public:
  static constexpr std::size_t rows = 12;
  static constexpr std::int64_t clocks = 25;

  /// Reads may be as stale as `bound`.
  forgetful_worker(std::uint64_t seed, std::size_t columns, std::int64_t bound)
      : random_(seed),
        columns_(columns),
        bound_(bound),
        pushed_(rows * columns),
        least_(rows * columns),
        least_whole_(rows * columns) {}

  template <class Worker>
  void operator()(Worker& worker) {
    self_ = worker.rank();
    for (std::int64_t c = 0; c < clocks; ++c) {
      for (std::size_t left = random_() % 6; left > 0; --left) do_something(worker);
      worker.step(work * static_cast<double>(random_() % 4));
    }
  }

  /// So many of a row's counts were less than they had been.
  std::size_t steps_back = 0;
  /// So many of its own were not all that it had pushed, and nothing else.
  std::size_t own_wrong = 0;

 private:
  template <class Worker>
  void do_something(Worker& worker) {
    switch (random_() % 8) {
      case 0:
        read_whole(worker);
        break;
      case 1:
        worker.prefetch(some_rows());
        break;
      case 2:
        worker.prefetch();
        break;
      case 3:
        push(worker);
        break;
      default:
        read_rows(worker);
    }
  }

  std::vector<std::uint64_t> some_rows() {
    std::vector<std::uint64_t> some;
    for (std::uint64_t row = 0; row < rows; ++row)
      if (random_() % 3 == 0) some.push_back(row);
    if (random_() % 2 == 0) std::ranges::shuffle(some, random_);
    if (!some.empty() && random_() % 4 == 0) some.push_back(some.front());  // then they are kept in another way
    return some;
  }
  rb::staleness staleness() {
    return rb::staleness{
        static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound_ + 1))};
  }

  template <class Worker>
  void push(Worker& worker) {
    auto const some = random_() % 2 == 0 ? last_read_ : some_rows();
    std::vector<std::int64_t> steps(some.size() * columns_);
    for (std::size_t i = 0; i < some.size(); ++i) {
      steps[i * columns_ + self_] = 1;
      ++pushed_[some[i] * columns_ + self_];
    }
    worker.push(some, steps);
  }

  template <class Worker>
  void read_rows(Worker& worker) {
    auto const& some = last_read_ = some_rows();
    std::vector<std::int64_t> out(some.size() * columns_);
    if (random_() % 2 == 0)
      worker.pull(some, out);
    else
      worker.pull(some, out, staleness());
    for (std::size_t i = 0; i < some.size(); ++i)
      check(some[i], std::span(out).subspan(i * columns_, columns_), least_);
  }

  /// A whole table is one state, which may be older than some rows have been since.
  template <class Worker>
  void read_whole(Worker& worker) {
    std::vector<std::int64_t> out(rows * columns_);
    if (random_() % 2 == 0)
      worker.pull(out);
    else
      worker.pull(out, staleness());
    for (std::size_t row = 0; row < rows; ++row)
      check(row, std::span(out).subspan(row * columns_, columns_), least_whole_);
    for (std::size_t i = 0; i < out.size(); ++i) least_[i] = std::max(least_[i], least_whole_[i]);
  }

  void check(std::size_t row, std::span<std::int64_t const> read,
             std::vector<std::int64_t>& least) {
    for (std::size_t column = 0; column < columns_; ++column) {
      std::size_t const at = row * columns_ + column;
      if (read[column] < least[at]) ++steps_back;
      if (column == self_ && read[column] != pushed_[at]) ++own_wrong;
      least[at] = read[column];
    }
  }

  std::mt19937_64 random_;
  std::size_t columns_;
  std::int64_t bound_;
  std::size_t self_ = 0;
  std::vector<std::uint64_t> last_read_;
  std::vector<std::int64_t> pushed_;       // by itself
  std::vector<std::int64_t> least_;        // of each count, what a read of rows must show
  std::vector<std::int64_t> least_whole_;  // the same for a read of the whole table
};

template <rb::protocol P>
void check_monotonic(P p, std::int64_t bound, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto const workers = static_cast<std::uint32_t>(2 + random() % 3);
  rb::simulated where{.workers = workers, .servers = static_cast<std::uint32_t>(1 + random() % 3)};
  for (std::uint32_t w = 0; w < workers; ++w)
    where.scenario.speed.slowness.push_back(0.1 * static_cast<double>(1 + random() % 30));
  rb::cluster cluster{
      where, p,
      counts{.rows = forgetful_worker::rows, .width = workers, .cached_rows = random() % 4}};
  std::size_t steps_back = 0;
  std::size_t own_wrong = 0;
  cluster.run([&](auto& worker) {
    forgetful_worker reader(seed * 100 + worker.rank(), workers, bound);
    reader(worker);
    steps_back += reader.steps_back;
    own_wrong += reader.own_wrong;
  });
  CHECK(steps_back == 0);
  CHECK(own_wrong == 0);
}

}  // namespace

TEST_CASE(
    "evicted rows: reads of a row never go back, whatever has been read and forgotten between") {
  for (std::uint64_t i = 0; i < rb::test::seed_count(600); ++i) {
    std::uint64_t const seed = rb::test::first_seed() + i;
    INFO(rb::test::repeat_by(seed));
    auto const bound = static_cast<std::int64_t>(seed % 5);
    check_monotonic(rb::ssp{.staleness = bound}, bound, seed);
    if (i % 5 == 0) check_monotonic(rb::asp{}, 8, seed);
  }
}
