// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/adam.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;
using rb::key;

TEST_CASE("tables: BSP averages weights while counts are summed, each in its own type (rules §4)") {
  constexpr std::int64_t much = (std::int64_t{1} << 58) + 1;  // no double holds it
  float const start[] = {1, 2, 3};
  rb::cluster cluster{rb::in_process{.workers = 4, .servers = 3}, rb::bsp{},
                      rb::dense<float>{.rows = 3, .init = start},
                      rb::dense<std::int64_t, rb::sum>{.rows = 2},
                      rb::sparse<double, rb::scale>{.width = 2, .merge = {.lambda = 0.5}}};
  cluster.run([](auto& worker) {
    auto const weights = worker[rb::table<0>];
    auto const counts = worker[rb::table<1>];
    auto const rare = worker[rb::table<2>];
    std::vector<std::uint64_t> const own{worker.rank() * std::uint64_t{1'000'000'007}};
    Eigen::VectorXf w(3);
    for (int c = 0; c < 5; ++c) {
      weights.pull(w);
      weights.push(Eigen::Vector3f(4, 8, static_cast<float>(worker.rank())));
      counts.push(std::vector<std::int64_t>{1, much});
      rare.push(own, std::vector<double>{2.0, 4.0});
      worker.step();
    }
  });
  CHECK(cluster.parameters() == std::vector<float>{1 + 20, 2 + 40, 3 + 5 * 1.5F});
  CHECK(cluster.parameters<1>() == std::vector<std::int64_t>{20, 20 * much});
  auto const& rare = cluster.parameters<2>();
  CHECK(rare.keys ==
        std::vector<std::uint64_t>{0, 1'000'000'007, 2'000'000'014, 3'000'000'021});
  CHECK(rare.values == std::vector<double>{5, 10, 5, 10, 5, 10, 5, 10});
}

TEST_CASE("tables: Eigen vectors, maps and blocks go in and out as spans do") {
  rb::cluster cluster{rb::simulated{.servers = 2}, rb::ssp{}, rb::dense<float>{.rows = 4}};
  cluster.run([](auto& worker) {
    Eigen::MatrixXf m = Eigen::MatrixXf::Zero(4, 2);
    m.col(1) << 1, 2, 3, 4;
    worker.push(m.col(1));
    worker.pull(m.col(0));
    CHECK(m.col(0) == m.col(1));
    float raw[4] = {};
    worker.pull(Eigen::Map<Eigen::ArrayXf>(raw, 4));
    CHECK(raw[3] == 4.0F);
    std::vector<std::uint32_t> const keys{2, 0};
    Eigen::Vector2f two;
    worker.pull(keys, two);
    CHECK(two == Eigen::Vector2f(3, 1));
  });
}

TEST_CASE("tables: a merge that is lazy leaves rows alone that are not pushed, however many are") {
  constexpr std::size_t rows = 20;
  auto const train = [](auto const& protocol, auto const& table) {
    rb::cluster c{rb::simulated{}, protocol, table};
    c.run([](auto& worker) {
      std::vector<unsigned> keys(rows);
      std::iota(keys.begin(), keys.end(), 0U);
      std::vector<double> values(rows, 1.0);
      worker.push(keys, values);
      worker.step();
      keys.resize(15);
      values.resize(15);
      for (int i = 0; i < 3; ++i) {
        worker.push(keys, values);
        worker.step();
      }
    });
    if constexpr (requires { c.parameters().values; }) return c.parameters().values;
    else return c.parameters();
  };
  auto const adam = with(rb::bsp{}, rb::adam{});
  std::vector<double> const moved = train(adam, rb::sparse<double>{.rows = rows});
  CHECK(moved.front() > moved.back());
  CHECK(train(adam, rb::dense<double>{.rows = rows}) == moved);
  CHECK(train(with(adam, rb::significance{.threshold = 0}), rb::dense<double>{.rows = rows}) == moved);
  rb::table_codec const exact{.updates = rb::bfloat16{}};  // of ones
  CHECK(train(adam, rb::dense<double>{.rows = rows, .codec = exact}) == moved);
}

TEST_CASE("sparse table: rows exist once they are pushed to, and all others read as zero") {
  rb::cluster cluster{rb::simulated{.servers = 3}, rb::ssp{}, rb::sparse<float>{.width = 2}};
  cluster.run([](auto& worker) {
    std::vector<key> const some{key{~std::uint64_t{0}}, key{5}};
    std::vector<float> out(4, 9.0F);
    worker.pull(some, out);
    CHECK(out == std::vector<float>(4));
    worker.push(some, std::vector<float>{1, 2, 3, 4});
    worker.pull(some, out);
    CHECK(out == std::vector<float>{1, 2, 3, 4});
    worker.step();
    worker.push(std::vector<key>{key{5}, key{5}}, std::vector<float>{10, 10, 100, 100});
    worker.pull(some, out);
    CHECK(out == std::vector<float>{1, 2, 113, 114});
  });
  auto const& rows = cluster.parameters();
  CHECK(rows.keys == std::vector<std::uint64_t>{5, ~std::uint64_t{0}});
  CHECK(rows.values == std::vector<float>{113, 114, 1, 2});
}

TEST_CASE("sparse table: a whole pull gives all touched rows by key, own pushes included") {
  key const keys[] = {key{40}, key{7}};
  double const values[] = {4.0, 0.5};
  rb::cluster cluster{rb::simulated{.workers = 2, .servers = 3}, rb::bsp{},
                      rb::sparse<double, rb::sum>{.rows = 100, .init_keys = keys, .init = values}};
  cluster.run([](auto& worker) {
    rb::sparse_snapshot<double> all;
    worker[rb::table<0>].pull(all);
    CHECK(all.keys == std::vector<std::uint64_t>{7, 40});
    CHECK(all.values == std::vector<double>{0.5, 4.0});
    std::uint64_t const own = 10 + worker.rank();
    worker.push(std::vector<std::uint64_t>{own, 40}, std::vector<double>{1.0, 1.0});
    worker[rb::table<0>].pull(all);
    CHECK(all.keys == std::vector<std::uint64_t>{7, own, 40});
    CHECK(all.values == std::vector<double>{0.5, 1.0, 5.0});
    worker.step();
    worker[rb::table<0>].pull(all);
    CHECK(all.keys == std::vector<std::uint64_t>{7, 10, 11, 40});
    CHECK(all.values == std::vector<double>{0.5, 1.0, 1.0, 6.0});
  });
}

TEST_CASE("sparse table: under SSP a cached row shows others' updates by the rules, own ones "
          "at once") {
  rb::cluster cluster{
      rb::simulated{.workers = 2, .scenario = {.speed = {.slowness = {10.0, 1.0}}}},
      rb::ssp{.staleness = 3}, rb::sparse<double>{}};
  std::vector<double> own;
  std::vector<double> others;
  auto const report = cluster.run([&](auto& worker) {
    std::vector<std::uint64_t> const keys{worker.rank(), 1U - worker.rank()};
    std::vector<double> row(2);
    for (int c = 0; c < 12; ++c) {
      worker.pull(keys, row);
      if (worker.rank() == 0) {
        own.push_back(row[0]);
        others.push_back(row[1]);
      }
      worker.push(std::vector<std::uint64_t>{worker.rank()}, std::vector<double>{1.0});
      worker.step(1000.0);
    }
  });
  for (std::size_t c = 0; c < 12; ++c) {
    CHECK(own[c] == static_cast<double>(c));
    CHECK(others[c] == others[c - c % 4]);  // fetched every s + 1 clocks
    CHECK(others[c] >= static_cast<double>(c) - 3);
  }
  CHECK(report.workers[0].fetches == 3);
}
