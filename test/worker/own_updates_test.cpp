// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/partition/on_servers.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;

namespace {

constexpr std::uint64_t row_count = 23;
constexpr std::size_t row_width = 2;
constexpr std::size_t elements = row_count * row_width;

/// Shows a commit only once everybody has reached its clock, however large s is. So a worker's own
/// commits are still held back when it reads next, and its replica must make up for them.
struct hesitant {
  static constexpr bool holds_back = true;
  rb::clock_index horizon(rb::fold_window const& w) const noexcept { return w.c_min; }
};
static_assert(rb::visibility_policy<hesitant>);

/// Reads and pushes of one worker in every mixture; whole numbers, so that sums are exact. Returns
/// how many elements were read that differ from the sum of all that it had pushed so far.
template <class Worker>
std::size_t walk(Worker& worker, int actions) {
  std::vector<double> pushed(elements);
  std::vector<double> buffer;
  std::vector<std::uint64_t> keys;
  std::size_t wrong = 0;
  auto& random = worker.random();
  auto const some_keys = [&] {  // twice the same now and then
    keys.clear();
    for (std::uint64_t n = 1 + random.below(15); n != 0; --n) keys.push_back(random.below(row_count));
    buffer.resize(keys.size() * row_width);
  };
  auto const draw = [&] {
    for (double& x : buffer) x = static_cast<double>(random.below(9)) - 4;
  };
  auto const compare_keyed = [&] {
    for (std::size_t i = 0; i < keys.size(); ++i)
      for (std::size_t j = 0; j < row_width; ++j)
        wrong += buffer[i * row_width + j] != pushed[static_cast<std::size_t>(keys[i]) * row_width + j];
  };
  for (int i = 0; i < actions; ++i) {
    switch (random.below(7)) {
      case 0:
        buffer.resize(elements);
        draw();
        if (random.below(2) == 0) worker.push(buffer);
        else worker.push_in_place([&](std::span<double> delta) { std::ranges::copy(buffer, delta.begin()); });
        for (std::size_t e = 0; e < elements; ++e) pushed[e] += buffer[e];
        break;
      case 1:
        some_keys();
        draw();
        worker.push(keys, buffer);
        for (std::size_t k = 0; k < keys.size(); ++k)
          for (std::size_t j = 0; j < row_width; ++j)
            pushed[static_cast<std::size_t>(keys[k]) * row_width + j] += buffer[k * row_width + j];
        break;
      case 2:
        buffer.resize(elements);
        worker.pull(buffer);
        for (std::size_t e = 0; e < elements; ++e) wrong += buffer[e] != pushed[e];
        break;
      case 3:
        some_keys();
        worker.pull(keys, buffer);
        compare_keyed();
        break;
      case 4:
        some_keys();
        worker.pull(keys, buffer, rb::staleness{0});
        compare_keyed();
        break;
      default: worker.step();
    }
  }
  return wrong;
}

/// One worker walks; another keeps it company and pushes nothing, so that what the first one reads
/// is what it pushed itself.
template <class Transport, rb::protocol P, class Table>
void check_own_updates(Transport const& transport, P const& p, Table const& table) {
  rb::cluster cluster{transport, p, table};
  std::size_t wrong = 1;
  cluster.run([&](auto& worker) {
    if (worker.rank() == 0) wrong = walk(worker, 1500);
    else
      for (int i = 0; i < 300; ++i) worker.step();
  });
  CHECK(wrong == 0);
}

/// With rows on every server, with a server that has none, and with one that has all.
template <class Transport, rb::protocol P>
void check_own_updates(Transport const& transport, P const& p) {
  using on_some = rb::dense<double, rb::merge_of_protocol, rb::on_servers<>>;
  check_own_updates(transport, p, rb::dense<double>{.rows = row_count, .width = row_width});
  check_own_updates(transport, p,
                    on_some{.rows = row_count, .width = row_width, .partition = rb::on_servers{{0, 2}}});
  check_own_updates(transport, p, on_some{.rows = row_count, .width = row_width, .partition = rb::on_servers{{1}}});
}

template <rb::protocol P>
void check_own_updates_simulated(P p) {
  // The company is slower, then gone: the reader is ahead as far as it may, then alone.
  for (double const slowness : {5.0, 0.7})
    check_own_updates(
        rb::simulated{.workers = 2,
                      .servers = 3,
                      .scenario = {.speed = {.slowness = {1.0, slowness}},
                                   .network = {.worker_link = {.jitter = rb::sim::exponential{}}}}},
        p);
}

}  // namespace

TEST_CASE("worker: reads hold all own pushes, committed or not, exactly once: BSP (SSP-2)") {
  check_own_updates_simulated(with(rb::bsp{}, rb::sum{}));
}

TEST_CASE("worker: reads hold all own pushes, committed or not, exactly once: SSP (SSP-2)") {
  check_own_updates_simulated(rb::ssp{.staleness = 3});
}

TEST_CASE("worker: reads hold all own pushes, committed or not, exactly once: strict SSP (SSP-2)") {
  check_own_updates_simulated(with(rb::ssp{.staleness = 3}, rb::strict{}));
}

TEST_CASE("worker: reads hold all own pushes, committed or not, exactly once: ASP (SSP-2)") {
  check_own_updates_simulated(rb::asp{});
}

TEST_CASE("worker: reads hold all own pushes where visibility holds them back (SSP-2)") {
  check_own_updates_simulated(with(rb::ssp{.staleness = 3}, hesitant{}));
}

TEST_CASE("worker: reads hold all own pushes where visibility holds them back, in threads "
          "(SSP-2)") {
  check_own_updates(rb::in_process{.workers = 2, .servers = 3},
                    with(rb::ssp{.staleness = 3}, hesitant{}));
}
