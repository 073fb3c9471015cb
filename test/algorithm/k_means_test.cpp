// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/k_means.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/streaming_diloco.hpp>

#include "algorithm/algorithms.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rd = rubato::data;
using Catch::Contains;
using doubles = std::vector<double>;
using numbers = std::vector<std::int64_t>;

namespace {

/// Rows around so many centres, `spread` apart from them; some features are left out where they are small.
rd::dataset blobs(std::size_t n, std::size_t clusters, double spread) {
  constexpr std::size_t features = 6;
  rb::random_stream random(11);
  doubles centres(clusters * features);
  for (double& x : centres) x = 10 * random.uniform() - 5;
  rd::dataset_builder rows(features);
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const c = random.below(clusters);
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    for (std::uint32_t j = 0; j < features; ++j) {
      double const x = centres[c * features + j] + spread * random.normal();
      if (std::abs(x) < 0.5) continue;
      indices.push_back(j);
      values.push_back(static_cast<float>(x));
    }
    rows.add(1, indices, values);
  }
  return rows.build();
}

doubles full_row(rd::dataset const& rows, std::size_t i) {
  doubles x(rows.features());
  for (std::size_t k = 0; k < rows[i].indices.size(); ++k)
    x[rows[i].indices[k]] = static_cast<double>(rows[i].values[k]);
  return x;
}

struct k_means_result {
  doubles centres, sums;
  numbers counts, cluster_of;
};

template <class Transport = rb::simulated>
k_means_result k_means_of(rd::dataset const& rows, doubles const& first, ra::k_means_options const& o,
                          Transport const& where = rb::simulated{.workers = 4, .servers = 2}) {
  rb::engine engine{where};
  auto t = ra::make_k_means_task<double>(rows, first.size() / rows.features());
  ra::k_means(t, rows, first, o);
  engine.submit(t).wait();
  return {ra::k_means_centres(t, first), t.template parameters<0>(), t.template parameters<1>(),
          t.template parameters<2>()};
}

/// Sums and counts of the rows where they are; those in no cluster do not count.
k_means_result recounted(rd::dataset const& rows, std::size_t clusters, numbers const& cluster_of) {
  k_means_result r{{}, doubles(clusters * rows.features()), numbers(clusters), cluster_of};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (cluster_of[i] == 0) continue;
    auto const c = static_cast<std::size_t>(cluster_of[i] - 1);
    ++r.counts[c];
    doubles const x = full_row(rows, i);
    for (std::size_t j = 0; j < x.size(); ++j) r.sums[c * x.size() + j] += x[j];
  }
  return r;
}

/// Lloyd's algorithm on full rows; an empty cluster has its first centre.
k_means_result plain_lloyd(rd::dataset const& rows, doubles const& first, int passes) {
  std::size_t const d = rows.features(), clusters = first.size() / d;
  k_means_result r{first, {}, {}, numbers(rows.size())};
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      doubles const x = full_row(rows, i);
      double best = 1e300;
      for (std::size_t c = 0; c < clusters; ++c) {
        double distance = 0;
        for (std::size_t j = 0; j < d; ++j) distance += (x[j] - r.centres[c * d + j]) * (x[j] - r.centres[c * d + j]);
        if (distance >= best) continue;
        best = distance;
        r.cluster_of[i] = static_cast<std::int64_t>(c) + 1;
      }
    }
    auto const now = recounted(rows, clusters, r.cluster_of);
    r.sums = now.sums;
    r.counts = now.counts;
    r.centres = first;
    for (std::size_t at = 0; at < first.size(); ++at)
      if (r.counts[at / d] != 0) r.centres[at] = r.sums[at] / static_cast<double>(r.counts[at / d]);
  }
  return r;
}

/// Whether tables are those of the rows where they are.
void check_tables(rd::dataset const& rows, k_means_result const& got) {
  auto const expected = recounted(rows, got.counts.size(), got.cluster_of);
  CHECK(got.counts == expected.counts);
  CHECK(rb::test::apart(got.sums, expected.sums) < 1e-9);
}

}  // namespace

TEST_CASE("k_means: one worker that goes over all rows does what Lloyd's algorithm does", "[algorithm]") {
  auto const rows = blobs(400, 5, 3);  // blobs that overlap: rows move for long
  auto const first = ra::k_means_plus_plus(rows, 5, 1);
  numbers before(rows.size());
  for (int const clocks : {1, 2, 5, 12}) {
    INFO(clocks << " clocks");
    auto const got = k_means_of(rows, first, {.clocks = clocks});
    auto const expected = plain_lloyd(rows, first, clocks);
    CHECK(got.cluster_of == expected.cluster_of);
    CHECK(got.counts == expected.counts);
    CHECK(rb::test::apart(got.centres, expected.centres) < 1e-12);
    CHECK(got.cluster_of != before);
    before = got.cluster_of;
  }
}

TEST_CASE("k_means: under BSP any number of workers does what one does, in threads and simulated", "[algorithm]") {
  auto const rows = blobs(300, 4, 3);
  auto const first = ra::k_means_plus_plus(rows, 4, 1);
  auto const expected = plain_lloyd(rows, first, 7);
  for (std::uint32_t const workers : {2U, 4U, 7U}) {
    ra::k_means_options const o{.clocks = 7, .stage = {.workers = workers}};
    auto const simulated = k_means_of(rows, first, o, rb::simulated{.workers = 7, .servers = 3});
    auto const threads = k_means_of(rows, first, o, rb::in_process{.workers = 7, .servers = 2});
    CHECK(simulated.cluster_of == expected.cluster_of);
    CHECK(rb::test::apart(simulated.centres, expected.centres) < 1e-12);
    CHECK(threads.centres == simulated.centres);
    CHECK(threads.cluster_of == simulated.cluster_of);
  }
}

TEST_CASE("k_means: four workers find blobs under any protocol, whole or by mini-batches, and lose no row",
          "[algorithm]") {
  auto const rows = blobs(500, 4, 0.3);
  auto const first = ra::k_means_plus_plus(rows, 4, 1);
  double const best = ra::k_means_objective(rows, plain_lloyd(rows, first, 100).centres);
  CHECK(best < 1);
  auto const protocol =
      GENERATE(rb::rules(rb::bsp{}), rb::rules(rb::ssp{.staleness = 2}), rb::rules(rb::asp{}));
  auto const batch = GENERATE(1.0, 0.1);
  INFO(protocol.name << ", batches of " << batch);
  ra::k_means_options const o{.clocks = static_cast<std::int64_t>(12 / batch),
                              .batch = batch,
                              .stage = {.workers = 4, .protocol = protocol}};
  auto const check = [&](k_means_result const& got, bool ends_together) {
    check_tables(rows, got);
    CHECK(std::accumulate(got.counts.begin(), got.counts.end(), std::int64_t{0}) == 500);
    if (ends_together) CHECK(ra::k_means_objective(rows, got.centres) == Approx(best).epsilon(0.01));
  };
  check(k_means_of(rows, first, o), true);
  // Without a barrier the order in which threads run decides which optimum it is; under ASP one may even have ended
  // before another begins, so that rows stay where early centres have put them.
  check(k_means_of(rows, first, o, rb::in_process{.workers = 4, .servers = 2}), protocol.name == "bsp");
}

TEST_CASE("k_means: a batch is a share of each worker's rows, taken in turn", "[algorithm]") {
  auto const rows = blobs(100, 4, 0.3);
  auto const first = ra::k_means_plus_plus(rows, 4, 1);
  for (std::int64_t const clocks : {1, 3, 10}) {
    auto const got = k_means_of(rows, first, {.clocks = clocks, .batch = 0.1, .stage = {.workers = 4}});
    check_tables(rows, got);
    // Worker r's rows are 25 r to 25 r + 24, its batches five of three rows, then five of two.
    std::size_t const seen = static_cast<std::size_t>(clocks == 1 ? 3 : clocks == 3 ? 9 : 25);
    for (std::size_t i = 0; i < 100; ++i) {
      INFO("row " << i << " after " << clocks << " clocks");
      CHECK((got.cluster_of[i] != 0) == (i % 25 < seen));
    }
  }
}

TEST_CASE("k_means: a stage goes on where another has ended, with other workers", "[algorithm]") {
  auto const rows = blobs(300, 4, 3);
  auto const first = ra::k_means_plus_plus(rows, 4, 1);
  rb::engine engine{rb::simulated{.workers = 5}};
  auto t = ra::make_k_means_task<double>(rows, 4);
  ra::k_means(t, rows, first, {.clocks = 3, .stage = {.workers = 2}});
  ra::k_means(t, rows, first, {.clocks = 4, .stage = {.workers = 5}});
  engine.submit(t).wait();
  auto const expected = plain_lloyd(rows, first, 7);
  CHECK(t.parameters<2>() == expected.cluster_of);
  CHECK(t.parameters<1>() == expected.counts);
  CHECK(rb::test::apart(ra::k_means_centres(t, first), expected.centres) < 1e-12);
}

TEST_CASE("k_means: an empty cluster has its first centre, also when its rows have left", "[algorithm]") {
  auto const line = [](std::vector<float> const& at) {
    rd::dataset_builder builder(1);
    for (float const x : at) builder.add(1, std::vector<std::uint32_t>{0}, std::vector<float>{x});
    return builder.build();
  };
  auto const rows = line({0, 1, 2, 10, 11, 12});
  auto const far = k_means_of(rows, {1, 11, 100}, {.clocks = 3, .stage = {.workers = 2}});
  CHECK(far.counts == numbers{3, 3, 0});
  CHECK(far.centres == doubles{1, 11, 100});
  // Of two first centres that are alike one gets all rows, and the other takes those that it is nearer to next.
  CHECK(k_means_of(rows, {4, 4}, {.clocks = 1}).centres == doubles{6, 4});
  CHECK(k_means_of(rows, {4, 4}, {.clocks = 3}).centres == doubles{11, 1});
  // The rows of cluster 1 lie at its ends, and its neighbours come nearer.
  auto const ends = line({2.25F, 2.25F, 2.75F, 7.25F, 7.75F, 7.75F});
  CHECK(k_means_of(ends, {0, 5, 10}, {.clocks = 1}).counts == numbers{2, 2, 2});
  for (std::int64_t const clocks : {2, 6}) {
    auto const left = k_means_of(ends, {0, 5, 10}, {.clocks = clocks, .stage = {.workers = 3}});
    CHECK(left.counts == numbers{3, 0, 3});
    CHECK(left.centres[1] == 5);
    check_tables(ends, left);
  }
}

TEST_CASE("k_means: more workers than rows, and rows without values", "[algorithm]") {
  rd::dataset_builder builder(2);
  builder.add(1, std::vector<std::uint32_t>{}, std::vector<float>{});
  builder.add(1, std::vector<std::uint32_t>{0, 1}, std::vector<float>{3, 4});
  auto const rows = builder.build();
  auto const got = k_means_of(rows, ra::k_means_plus_plus(rows, 2, 5), {.clocks = 2, .stage = {.workers = 4}});
  CHECK(got.counts == numbers{1, 1});
  CHECK(ra::k_means_objective(rows, got.centres) == 0);
  CHECK(ra::k_means_objective(rows, {0, 0}) == 12.5);
}

TEST_CASE("k_means_plus_plus: rows, drawn by their distance, the same for the same seed", "[algorithm]") {
  auto const rows = blobs(200, 4, 0.01);
  auto const first = ra::k_means_plus_plus(rows, 4, 3);
  CHECK(first == ra::k_means_plus_plus(rows, 4, 3));
  CHECK(first != ra::k_means_plus_plus(rows, 4, 4));
  // Blobs that are small and far apart: each has a centre, with each seed.
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    CHECK(ra::k_means_objective(rows, ra::k_means_plus_plus(rows, 4, seed)) < 0.5);
  rd::dataset_builder builder(1);
  for (float const x : {0.0F, 0.0F, 5.0F, 5.0F})
    builder.add(1, std::vector<std::uint32_t>{0}, std::vector<float>{x});
  auto const twice = builder.build();
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    auto const three = ra::k_means_plus_plus(twice, 3, seed);
    REQUIRE(three.size() == 3);
    CHECK(three[0] + three[1] == 5);  // the second is never a row that is a centre
  }
}

TEST_CASE("k_means: options that cannot be meant are refused", "[algorithm]") {
  auto const rows = blobs(50, 4, 0.3);
  auto const first = ra::k_means_plus_plus(rows, 4, 1);
  auto const made = [&](ra::k_means_options const& o, doubles const& centres) {
    auto t = ra::make_k_means_task<double>(rows, 4);
    ra::k_means(t, rows, centres, o);
  };
  CHECK_NOTHROW(made({}, first));
  CHECK_THROWS_WITH(made({.clocks = 0}, first), Contains("clocks must be at least 1"));
  CHECK_THROWS_WITH(made({.batch = 0}, first), Contains("batch must be above 0 and at most 1"));
  CHECK_THROWS_WITH(made({.batch = 2}, first), Contains("batch must be above 0 and at most 1"));
  CHECK_THROWS_WITH(made({.stage = {.iterations = 3}}, first), Contains("k_means: stage has iterations"));
  CHECK_THROWS_WITH(made({.stage = {.workers = 3, .protocol = rb::k_sync{.k = 2}}}, first),
                    Contains("leaves out what comes late"));
  CHECK_THROWS_WITH(made({.stage = {.protocol = rb::streaming_diloco{.steps = 2, .fragments = 2}}}, first),
                    Contains("k_means: stage has a protocol with a filter"));
  CHECK_NOTHROW(made({.stage = {.workers = 2, .protocol = rb::k_sync{.k = 2}}}, first));  // nobody comes late
  CHECK_NOTHROW(made({.stage = {.workers = 3, .protocol = rb::fed_avg{.clients = 2, .of = 3}}}, first));
  CHECK_THROWS_WITH(made({}, doubles(5)), Contains("a number for each feature"));
  CHECK_THROWS_WITH(made({}, {}), Contains("a number for each feature"));
  CHECK_THROWS_WITH(made({}, doubles(6, std::nan(""))), Contains("must be finite"));
  CHECK_THROWS_WITH(ra::k_means_plus_plus(rows, 0, 1), Contains("from 1 to the number of rows"));
  CHECK_THROWS_WITH(ra::k_means_plus_plus(rows, 51, 1), Contains("from 1 to the number of rows"));
  rd::dataset const nothing;
  auto t = ra::make_k_means_task<double>(rows, 4);
  CHECK_THROWS_WITH(ra::k_means(t, nothing, first, {}), Contains("there must be rows"));
  rb::engine engine{rb::simulated{.workers = 2}};
  auto other = ra::make_k_means_task<double>(rows, 3);
  ra::k_means(other, rows, first, {});
  CHECK_THROWS_AS(engine.submit(other).wait(), rb::error);
}

TEST_CASE("k_means: a worker that joins is refused, as its rows are others' already", "[algorithm]") {
  auto const rows = blobs(50, 4, 0.3);
  auto const first = ra::k_means_plus_plus(rows, 4, 1);
  CHECK_THROWS_WITH(k_means_of(rows, first, {.stage = {.workers = 2}}, rb::test::with_joiner()),
                    Contains("k_means: worker 2 has joined"));
  CHECK_THROWS_AS(k_means_of(rows, first, {.stage = {.workers = rb::automatic}}, rb::test::with_joiner()),
                  rb::usage_error);
}
