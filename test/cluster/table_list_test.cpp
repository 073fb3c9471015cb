// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Clusters whose tables are chosen while the program runs.
#include <rubato/storage/table_list.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;
using Catch::Contains;

namespace {

/// The k-th of some layers, each of another size.
std::vector<float> layer(std::size_t k) {
  std::vector<float> values(3 + 2 * k);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1F * static_cast<float>(i + k);
  return values;
}

/// A step on a layer that depends on what is there.
void move(std::vector<float>& x, std::uint32_t rank) {
  for (float& v : x) v = 0.37F * (static_cast<float>(rank + 1) - v) / 3.0F;
}

template <class Transport>
std::vector<std::vector<float>> trained_as_listed(Transport const& where, std::size_t layers) {
  rb::table_list tables;
  std::vector<std::vector<float>> start;
  for (std::size_t k = 0; k < layers; ++k) start.push_back(layer(k));
  for (auto const& one : start) tables.add(rb::dense<float>{.rows = one.size(), .init = one});
  rb::cluster c{where, rb::bsp{}, tables};
  c.run([&](auto& w) {
    for (int i = 0; i < 4; ++i) {
      for (std::size_t k = 0; k < w.tables(); ++k) {
        auto const handle = w.template dense<float>(k);
        std::vector<float> x(start[k].size());
        handle.pull(x);
        move(x, w.rank());
        handle.push(x);
      }
      w.step();
    }
  });
  std::vector<std::vector<float>> end;
  for (std::size_t k = 0; k < layers; ++k) end.push_back(c.template dense<float>(k));
  return end;
}

}  // namespace

TEST_CASE("table list: as many tables as a program asks for, trained as if their types were known") {
  std::vector<float> const a = layer(0), b = layer(1);
  rb::cluster typed{rb::in_process{.workers = 3, .servers = 2}, rb::bsp{},
                    rb::dense<float>{.rows = a.size(), .init = a}, rb::dense<float>{.rows = b.size(), .init = b}};
  typed.run([&](auto& w) {
    for (int i = 0; i < 4; ++i) {
      std::vector<float> x(a.size()), y(b.size());
      w.pull(x);
      move(x, w.rank());
      w.push(x);
      w[rb::table<1>].pull(y);
      move(y, w.rank());
      w[rb::table<1>].push(y);
      w.step();
    }
  });
  std::vector<std::vector<float>> const expected{typed.parameters<0>(), typed.parameters<1>()};
  CHECK(trained_as_listed(rb::in_process{.workers = 3, .servers = 2}, 2) == expected);
  CHECK(trained_as_listed(rb::simulated{.workers = 3, .servers = 2}, 2) == expected);
  auto const many = trained_as_listed(rb::in_process{.workers = 3, .servers = 2}, 40);
  REQUIRE(many.size() == 40);
  CHECK(many[1] == expected[1]);
  CHECK(many[39].size() == 3 + 2 * 39);
}

TEST_CASE("table list: dense and sparse, of any elements, and what a pace asks the loss of") {
  rb::table_list tables;
  std::size_t const counts = tables.add(rb::sparse<std::int64_t, rb::sum>{.rows = 100});
  std::size_t const weights = tables.add(rb::dense<double>{.rows = 4, .width = 2});
  CHECK(tables.size() == 2);
  int asked = 0;
  rb::simulated where{.workers = 2};
  rb::cluster c{where, rb::rules(rb::ada_comm{.first_steps = 2, .interval = std::chrono::milliseconds(10)}), tables};
  c.run(
      [&](rb::table_list_worker& w) {
        std::vector<double> x(8, 0.5);
        for (int i = 0; i < 200; ++i) {
          w.sparse<std::int64_t>(counts).push(std::vector{rb::key{7}}, std::vector<std::int64_t>{1});
          w.dense<double>(weights).push(x);
          w.step(1000);
        }
      },
      [&] { return 1.0 / ++asked; });
  CHECK(asked > 0);
  auto const end = c.sparse<std::int64_t>(counts);
  CHECK(end.keys == std::vector<std::uint64_t>{7});
  CHECK(end.values == std::vector<std::int64_t>{400});
  CHECK(c.dense<double>(weights).size() == 8);
}

TEST_CASE("table list: a table that is asked for as what it is not is named") {
  rb::table_list tables;
  tables.add(rb::dense<float>{.rows = 4});
  tables.add(rb::sparse<std::int32_t, rb::sum>{});
  rb::cluster c{rb::in_process{}, rb::bsp{}, tables};
  CHECK_THROWS_WITH(c.dense<double>(0), Contains("table 0: it is asked for as dense double, expected dense float"));
  CHECK_THROWS_WITH(c.sparse<float>(0), Contains("expected dense float"));
  CHECK_THROWS_WITH(c.dense<float>(2), Contains("table 2: there is none, expected a number below 2"));
  c.run([](auto& w) {
    CHECK_THROWS_WITH(w.template dense<std::int32_t>(1), Contains("asked for as dense int32, expected sparse int32"));
    CHECK_THROWS_AS(w.template sparse<float>(7), rb::usage_error);
    CHECK_NOTHROW(w.template sparse<std::int32_t>(1));
  });
}

TEST_CASE("table list: what cannot go together is an option_error when the cluster is made") {
  CHECK_THROWS_WITH((rb::cluster{rb::in_process{}, rb::bsp{}, rb::table_list{}}), Contains("at least one"));
  rb::table_list counts, plain, versions;
  counts.add(rb::dense<std::int64_t>{.rows = 4});
  CHECK_THROWS_WITH((rb::cluster{rb::in_process{}, rb::bsp{}, counts}), Contains("exact merge"));
  plain.add(rb::dense<float>{.rows = 4});
  CHECK_THROWS_WITH((rb::cluster{rb::in_process{}, rb::dyn_sgd{}, plain}), Contains("multi_version"));
  versions.add(rb::multi_version{rb::dense<float>{.rows = 4}});
  CHECK_NOTHROW((rb::cluster{rb::in_process{}, rb::dyn_sgd{}, versions}));
}
