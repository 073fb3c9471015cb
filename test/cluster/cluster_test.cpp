// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/cluster/cluster.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include <rubato/partition/by_function.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/run/runtime.hpp>
#include <rubato/transport/concepts.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;
using Catch::Contains;

namespace {

using doubles = std::vector<double>;
using dense_doubles = rb::dense<double>;

void make(rb::simulated transport, dense_doubles table) {
  rb::cluster const made{transport, rb::asp{}, table};
  (void)made;
}

}  // namespace

TEST_CASE("cluster: options that cannot be meant are option_errors that say what was expected") {
  dense_doubles const good{.rows = 4};
  CHECK_NOTHROW(make({}, good));
  CHECK_THROWS_AS(make({.workers = 0}, good), rb::option_error);
  CHECK_THROWS_WITH(make({.workers = 0}, good), Contains("workers must be"));
  CHECK_THROWS_AS(make({.servers = 0}, good), rb::option_error);
  CHECK_THROWS_WITH(make({.servers = 0}, good), Contains("servers must be"));
  CHECK_THROWS_WITH(make({.scenario = {.speed = {.work_cost = rb::duration(-1)}}}, good),
                    Contains("work_cost"));
  CHECK_THROWS_WITH(make({.scenario = {.speed = {.heterogeneity = {.slow_fraction = -1}}}}, good),
                    Contains("slow_fraction"));
}

namespace {

/// Opens nothing.
struct closed {
  using runtime_type = rb::runtime;
  static std::unique_ptr<runtime_type> open(rb::run_setup const&) { return nullptr; }
};
static_assert(rb::transport<closed>);

}  // namespace

TEST_CASE("cluster: a transport that opens nothing is an option_error") {
  using table = rb::dense<float>;
  auto const open = [] { rb::cluster const c{closed{}, rb::asp{}, table{.rows = 1}}; };
  CHECK_THROWS_AS(open(), rb::option_error);
  CHECK_THROWS_WITH(open(), "a transport's open() or open_peers() gives nothing, expected a runtime");
}

TEST_CASE("cluster: initial values are copied, whatever the partition, and may be gone "
          "afterwards") {
  auto swapped = rb::by_function([](rb::key k, rb::table_shape shape) {
    return rb::server_id{static_cast<std::uint32_t>((k.value() + 1) % shape.servers)};
  });
  doubles start(20'003 * 2);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<double>(i);
  doubles const expected = start;
  rb::cluster cluster{
      rb::simulated{.servers = 3}, rb::asp{},
      rb::dense<double, rb::merge_of_protocol, decltype(swapped)>{
          .rows = 20'003, .width = 2, .init = start, .partition = swapped}};
  start.assign(start.size(), -1.0);
  CHECK(cluster.parameters() == expected);
}

TEST_CASE("cluster: more servers than rows, and one row only, work as others do") {
  rb::cluster cluster{rb::simulated{.workers = 2, .servers = 7}, with(rb::bsp{}, rb::sum{}),
                      rb::dense<double>{.rows = 1}};
  cluster.run([](auto& worker) {
    doubles w(1);
    for (int c = 0; c < 5; ++c) {
      worker.pull(w);
      CHECK(w[0] == 2.0 * c);
      worker.push(doubles{1.0});
      worker.step();
    }
  });
  CHECK(cluster.parameters() == doubles{10.0});
}

TEST_CASE("cluster: momentum makes one velocity step per clock under the barrier, with the mean of "
          "the updates (003 Eq. 1, rules §4)") {
  rb::cluster cluster{rb::simulated{.workers = 3, .servers = 2},
                      with(rb::bsp{}, rb::momentum{.mu = 0.5}), rb::dense<double>{.rows = 2}};
  double w = 0;
  double v = 0;
  std::vector<double> expected;
  for (int t = 0; t < 6; ++t) {
    expected.push_back(w);
    v = 0.5 * v + (3.0 + 6.0 + 9.0) / 3.0;
    w += v;
  }
  cluster.run([&](auto& worker) {
    doubles seen(2);
    for (std::size_t c = 0; c < 6; ++c) {
      worker.pull(seen);
      CHECK(seen[0] == Approx(expected[c]).epsilon(1e-14));
      worker.push(doubles{3.0 * (worker.rank() + 1), 0.0});
      worker.step();
    }
  });
  CHECK(cluster.parameters()[0] == Approx(w).epsilon(1e-14));
  CHECK(cluster.parameters()[1] == 0.0);
}

TEST_CASE("cluster: momentum makes one velocity step per commit without a barrier (003 Eq. 1)") {
  rb::cluster cluster{rb::simulated{.workers = 2, .servers = 2},
                      with(rb::asp{}, rb::momentum{.mu = 0.5, .eta = 1.0}),
                      rb::dense<double>{.rows = 1}};
  cluster.run([](auto& worker) {
    for (int c = 0; c < 2; ++c) {
      worker.push(doubles{8.0});
      worker.step();
    }
  });
  // v: 8, 12, 14, 15 in whatever order the commits come.
  CHECK(cluster.parameters() == doubles{8.0 + 12.0 + 14.0 + 15.0});
}
