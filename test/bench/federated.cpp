// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/federated.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "bench/train/load_data.hpp"

using namespace rubato;
using namespace rubato::bench;

namespace {

/// `per_label` rows of each of ten labels.
data::dataset rows_of_ten_labels(std::size_t per_label) {
  data::dataset_builder rows;
  for (std::size_t i = 0; i < 10 * per_label; ++i) {
    std::array<std::uint32_t, 1> const index = {static_cast<std::uint32_t>(i)};
    std::array<float, 1> const value = {1};
    rows.add(static_cast<float>(i % 10), index, value);
  }
  return rows.build();
}

}  // namespace

TEST_CASE("by label in two pieces each, clients have two labels or so, and all rows are dealt out once") {
  data::dataset const all = rows_of_ten_labels(100);
  data::dataset const dealt = deal_by_label(all, 200, 7);
  REQUIRE(dealt.size() == all.size());
  std::set<std::uint32_t> seen;
  for (std::size_t i = 0; i < dealt.size(); ++i) seen.insert(dealt[i].indices[0]);
  CHECK(seen.size() == all.size());
  std::size_t together = 0;
  for (std::size_t c = 0; c < 100; ++c) {
    auto const shard = dealt.shard(c, 100);
    std::set<float> labels;
    for (std::size_t i = 0; i < shard.size(); ++i) labels.insert(shard[i].label);
    CHECK(labels.size() <= 2);
    together += labels.size();
  }
  CHECK(together > 150);  // and not one each, as they would have in the order of the labels
  CHECK(std::ranges::equal(dealt.labels(), deal_by_label(all, 200, 7).labels()));
  CHECK_FALSE(std::ranges::equal(dealt.labels(), deal_by_label(all, 200, 8).labels()));
}

TEST_CASE("clients have a hundred images each, and a step of theirs takes a millisecond") {
  clients const from({.data_dir = "/no/such/directory"}, 20, 2);
  training const job = from.job(0.5);
  CHECK(job.work->train().size() == 2'000);
  CHECK(job.workers == 20);
  CHECK(*job.target == Approx(0.1 * job.work->objective(job.start())));
  double const values = static_cast<double>(job.work->train().nonzeros()) / 20 * job.batch;
  CHECK(to_seconds(job.scenario.speed.work_cost) * values == Approx(1e-3).epsilon(0.01));
}
