// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/row_order.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/compare/reference.hpp"
#include "bench/train/load_data.hpp"
#include "bench/train/timing.hpp"
#include "bench/train/workload.hpp"
#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;

namespace {

/// Rows whose only value is their number, every third one of class +1.
data::dataset numbered(std::size_t count) {
  data::dataset_builder rows(1);
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::uint32_t, 1> const index = {0};
    std::array<float, 1> const value = {static_cast<float>(i)};
    rows.add(i % 3 == 0 ? 1.0F : -1.0F, index, value);
  }
  return rows.build();
}

std::vector<float> numbers(data::dataset_view rows) {
  std::vector<float> all;
  for (std::size_t i = 0; i < rows.size(); ++i) all.push_back(rows[i].values[0]);
  return all;
}

double positive(data::dataset_view rows) {
  double count = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) count += rows[i].label > 0;
  return count / static_cast<double>(rows.size());
}

}  // namespace

TEST_CASE("an order of rows is read as it is written") {
  for (char const* const text : {"shuffled", "ordered", "all", "by-label:0.5", "by-label:1"})
    CHECK(name_of(parse_row_order(text)) == text);
  for (char const* const text : {"", "label", "by-label", "by-label:", "by-label:0", "by-label:-1", "by-label:2"})
    CHECK_THROWS_AS(parse_row_order(text), option_error);
}

TEST_CASE("every order has each row once") {
  data::dataset const rows = numbered(90);
  for (char const* const text : {"shuffled", "ordered", "all", "by-label:0.3", "by-label:1"}) {
    INFO(text);
    data::dataset const lain = in_order(rows, parse_row_order(text), 7);
    std::vector<float> all = numbers(lain.rows());
    CHECK((all == numbers(rows.rows())) == (text == std::string("ordered")));
    std::ranges::sort(all);
    CHECK(all == numbers(rows.rows()));
  }
}

TEST_CASE("of rows by label each shard has its part of the order, and of the rest") {
  data::dataset const rows = numbered(3000);
  auto const shares = [&](char const* text) {
    data::dataset const lain = in_order(rows, parse_row_order(text), 1);
    return std::vector{positive(lain.shard(0, 3)), positive(lain.shard(1, 3)), positive(lain.shard(2, 3))};
  };
  CHECK(shares("by-label:1") == std::vector{0.0, 0.0, 1.0});
  std::vector<double> const half = shares("by-label:0.5");
  CHECK(half[0] == Approx(1.0 / 6).margin(0.04));
  CHECK(half[1] == Approx(1.0 / 6).margin(0.04));
  CHECK(half[2] == Approx(2.0 / 3).margin(0.04));
  CHECK(shares("shuffled")[2] == Approx(1.0 / 3).margin(0.04));
}

TEST_CASE("a worker that goes over all rows begins with its shard, and goes on with the next") {
  data::dataset const rows = numbered(120);
  workload const work(model_kind::lr, 0, rows, rows);
  training job;
  job.work = &work;
  job.workers = 3;
  job.batch = 0.25;
  mini_batches const own(job, 1);
  job.shards.how = row_order::kind::all;
  mini_batches const all(job, 1);
  for (std::size_t step = 0; step < 4; ++step) CHECK(numbers(all.at_step(step)) == numbers(own.at_step(step)));
  CHECK(numbers(own.at_step(4)) == numbers(own.at_step(0)));
  CHECK(numbers(all.at_step(4)).front() == 80);
  CHECK(numbers(all.at_step(8)).front() == 0);
  CHECK(numbers(all.at_step(12)) == numbers(all.at_step(0)));
}

TEST_CASE("a target does not depend on the order of the rows") {
  auto const target = [](char const* text) {
    row_order const shards = parse_row_order(text);
    loaded_data const data = load_data({.rows = 2000, .features = 60, .nonzeros = 10, .shards = shards}, 1);
    workload const work(model_kind::lr, 1e-4, data.train, data.test);
    return find_reach(work, shards).at(0.98);
  };
  double const usual = target("shuffled");
  CHECK(target("by-label:1") == Approx(usual).epsilon(0.05));
  CHECK(target("ordered") == Approx(usual).epsilon(0.05));
}
