// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/dataset.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/data/compact.hpp>

namespace rd = rubato::data;
using rubato::data_error;
using rubato::option_error;

static_assert(std::ranges::random_access_range<rd::dataset_view>);
static_assert(std::ranges::random_access_range<rd::batch_range>);
static_assert(std::is_trivially_copyable_v<rd::dataset_view>);

namespace {

template <class T>
concept gives_views = requires(T data) {
  { std::forward<T>(data).rows() };
};
static_assert(gives_views<rd::dataset const&>);
static_assert(!gives_views<rd::dataset>, "a temporary's rows are gone at once");
static_assert(std::is_convertible_v<rd::dataset const&, rd::dataset_view>);
static_assert(!std::is_convertible_v<rd::dataset, rd::dataset_view>);

template <class Size>
concept is_batch_size = requires(rd::dataset_view rows, Size size) {
  rows.batches(size);
};
static_assert(is_batch_size<int> && is_batch_size<std::size_t> && is_batch_size<rd::fraction>);
static_assert(!is_batch_size<double> && !is_batch_size<float>, "0.1 would be a batch size of 0");

/// Row i has label i and holds i % 3 values, the first of them at index i.
rd::dataset numbered(std::size_t rows) {
  rd::dataset_builder builder(rows + 3);
  for (std::size_t i = 0; i < rows; ++i) {
    auto const first = static_cast<std::uint32_t>(i);
    std::vector<std::uint32_t> const indices{first, first + 1};
    std::vector<float> const values{static_cast<float>(i), -1};
    builder.add(static_cast<float>(i), std::span(indices).first(i % 3),
                std::span(values).first(i % 3));
  }
  return builder.build();
}

std::vector<int> labels(rd::dataset_view rows) {
  std::vector<int> out;
  for (rd::example const row : rows) out.push_back(static_cast<int>(row.label));
  return out;
}

std::vector<int> labels(rd::dataset const& data) { return labels(data.rows()); }

std::vector<int> labels(rd::batch_range batches) {
  std::vector<int> out;
  for (rd::dataset_view const batch : batches) std::ranges::copy(labels(batch), back_inserter(out));
  return out;
}

/// Every row must still be the one that `numbered` made.
bool intact(rd::dataset_view rows) {
  return std::ranges::all_of(rows, [](rd::example row) {
    auto const i = static_cast<std::size_t>(row.label);
    return row.indices.size() == i % 3 && row.values.size() == i % 3 &&
           (i % 3 == 0 || (row.indices[0] == i && row.values[0] == row.label)) &&
           (i % 3 != 2 || (row.indices[1] == i + 1 && row.values[1] == -1));
  });
}

template <class Range>
bool sizes_differ_by_at_most_one(Range const& parts) {
  std::vector<std::size_t> sizes;
  for (auto const part : parts) sizes.push_back(part.size());
  auto const [least, most] = std::ranges::minmax(sizes);
  return most - least <= 1;
}

}  // namespace

TEST_CASE("a data set holds what was added", "[data]") {
  rd::dataset_builder builder;
  builder.add(1, std::vector<std::uint32_t>{2, 7}, std::vector<float>{0.5F, 0});
  builder.add(-1, {}, {});
  REQUIRE(builder.size() == 2);
  rd::dataset const data = builder.build();
  CHECK(data.size() == 2);
  CHECK(data.features() == 8);
  CHECK(data.nonzeros() == 2);
  CHECK(data[0].label == 1);
  CHECK(data[0].indices[1] == 7);
  CHECK(data[0].values[0] == 0.5F);
  CHECK(data[1].label == -1);
  CHECK(data[1].indices.empty());
  CHECK(data.labels()[1] == -1);
  CHECK(data.rows().nonzeros() == 2);

  SECTION("the builder starts over") {
    CHECK(builder.size() == 0);
    CHECK(builder.build().features() == 0);
  }
  SECTION("labels can be mapped before it is built") {
    builder.add(3, {}, {});
    builder.map_labels([](float y) { return y == 3 ? 1.0F : -1.0F; });
    CHECK(builder.build()[0].label == 1);
  }
}

TEST_CASE("a fixed number of features is kept", "[data]") {
  rd::dataset_builder builder(10);
  builder.add(1, std::vector<std::uint32_t>{2}, std::vector<float>{1});
  CHECK(builder.build().features() == 10);
  CHECK_THROWS_AS(rd::dataset_builder((std::size_t{1} << 32) + 1), option_error);
}

TEST_CASE("a bad row is refused and leaves the builder as it was", "[data]") {
  auto const inf = std::numeric_limits<float>::infinity();
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  struct bad_row {
    float label;
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    char const* reason;
  };
  bad_row const row = GENERATE_COPY(values<bad_row>({
      {nan, {}, {}, "row 1: label nan, expected a finite number"},
      {1, {1}, {}, "row 1: 1 indices and 0 values, expected as many of both"},
      {1, {3, 2}, {1, 1}, "row 1: index 2 comes after 3, expected increasing indices"},
      {1, {3, 3}, {1, 1}, "row 1: index 3 comes after 3, expected increasing indices"},
      {1, {4, 5}, {1, 1}, "row 1: index 5, expected less than 5 features"},
      {1, {2}, {inf}, "row 1: value inf at index 2, expected a finite number"},
  }));
  rd::dataset_builder builder(5);
  builder.add(1, std::vector<std::uint32_t>{0}, std::vector<float>{1});
  CHECK_THROWS_MATCHES(builder.add(row.label, row.indices, row.values), data_error,
                       Catch::Message(row.reason));
  rd::dataset const data = builder.build();
  CHECK(data.size() == 1);
  CHECK(data.nonzeros() == 1);
}

TEST_CASE("an empty data set is well-defined", "[data]") {
  rd::dataset const data;
  CHECK(data.empty());
  CHECK(data.features() == 0);
  CHECK(data.rows().begin() == data.rows().end());
  CHECK(data.rows().nonzeros() == 0);
  CHECK(data.shuffled(1).empty());
  CHECK(data.split(0.5, 1).test.empty());
  CHECK(data.shard(2, 3).batches(4).empty());
  CHECK(rd::dataset_view().features() == 0);
}

TEST_CASE("copies share rows, and views outlive the original and moves", "[data]") {
  rd::dataset original = numbered(5);
  rd::dataset const copy = original;
  CHECK(copy.labels().data() == original.labels().data());
  rd::dataset_view const rows = original.rows();
  rd::dataset const moved = std::move(original);
  CHECK(original.size() == 5);
  original = rd::dataset();
  CHECK(intact(rows));
  CHECK(rows.size() == 5);
}

TEST_CASE("shards are a partition whose sizes differ by at most one", "[data]") {
  auto const how = GENERATE(rd::sharding::contiguous, rd::sharding::strided);
  for (std::size_t rows = 0; rows <= 40; ++rows) {
    rd::dataset const data = numbered(rows);
    for (std::size_t count = 1; count <= 45; ++count) {
      std::vector<rd::dataset_view> shards;
      std::vector<int> seen;
      std::size_t nonzeros = 0;
      for (std::size_t rank = 0; rank < count; ++rank) {
        shards.push_back(data.shard(rank, count, how));
        std::ranges::copy(labels(shards.back()), back_inserter(seen));
        nonzeros += shards.back().nonzeros();
        REQUIRE(intact(shards.back()));
        REQUIRE(shards.back().features() == data.features());
      }
      if (how == rd::sharding::strided) {
        REQUIRE((rows < 2 || count < 2 || seen[1] == static_cast<int>(count < rows ? count : 1)));
        std::ranges::sort(seen);
      }
      REQUIRE(seen == labels(data));
      REQUIRE(nonzeros == data.nonzeros());
      REQUIRE(sizes_differ_by_at_most_one(shards));
    }
  }
}

TEST_CASE("a shard can be sharded again", "[data]") {
  rd::dataset const data = numbered(20);
  rd::dataset_view const odd = data.shard(1, 2, rd::sharding::strided);
  CHECK(labels(odd.shard(1, 2)) == std::vector<int>{11, 13, 15, 17, 19});
  CHECK(labels(odd.shard(1, 5, rd::sharding::strided)) == std::vector<int>{3, 13});
  CHECK(labels(odd.slice(8, 100)) == std::vector<int>{17, 19});
  CHECK(odd.slice(11, 1).empty());
}

TEST_CASE("a rank outside the group is refused", "[data]") {
  rd::dataset const data = numbered(3);
  CHECK_THROWS_MATCHES(data.shard(3, 3), option_error,
                       Catch::Message("shard: rank 3 of 3, expected a rank below the count"));
  CHECK_THROWS_AS(data.shard(0, 0), option_error);
}

TEST_CASE("batches of a size are full but for the last", "[data]") {
  for (std::size_t rows = 0; rows <= 30; ++rows) {
    rd::dataset const data = numbered(rows);
    for (std::size_t size = 1; size <= 33; ++size) {
      rd::batch_range const batches = data.rows().batches(size);
      REQUIRE(batches.size() == (rows + size - 1) / size);
      REQUIRE(labels(batches) == labels(data));
      for (std::size_t i = 0; i < batches.size(); ++i) {
        REQUIRE(batches[i].size() == (i + 1 < batches.size() ? size : rows - i * size));
      }
    }
  }
  rd::dataset const data = numbered(3);
  CHECK(data.rows().batches(std::numeric_limits<std::size_t>::max()).size() == 1);
  CHECK_THROWS_AS(data.rows().batches(0), option_error);
}

TEST_CASE("batches by fraction are even, never empty, and as many as asked for", "[data]") {
  for (std::size_t rows = 0; rows <= 60; ++rows) {
    rd::dataset const data = numbered(rows);
    for (std::size_t wanted = 1; wanted <= 120; ++wanted) {
      rd::batch_range const batches =
          data.rows().batches(rd::fraction{1.0 / static_cast<double>(wanted)});
      REQUIRE(batches.size() == std::min(wanted, rows));
      REQUIRE(labels(batches) == labels(data));
      if (rows == 0) continue;
      REQUIRE(sizes_differ_by_at_most_one(batches));
      REQUIRE(std::ranges::none_of(batches, [](auto batch) { return batch.empty(); }));
    }
  }
}

TEST_CASE("the batch count is the fraction's reciprocal rounded up", "[data]") {
  rd::dataset const data = numbered(10'000);
  auto const count = [&](double f) { return data.rows().batches(rd::fraction{f}).size(); };
  CHECK(count(1) == 1);
  CHECK(count(0.99) == 2);
  CHECK(count(0.3) == 4);
  CHECK(count(0.1) == 10);
  CHECK(count(1e-300) == 10'000);
  CHECK(count(std::numeric_limits<double>::denorm_min()) == 10'000);
  for (int n = 1; n <= 9999; ++n) REQUIRE(count(1.0 / n) == static_cast<std::size_t>(n));
  for (double const bad : {0.0, -0.1, 1.1, std::nan("")}) CHECK_THROWS_AS(count(bad), option_error);
}

TEST_CASE("steps go through the batches over and over, also through none", "[data]") {
  rd::dataset const data = numbered(6);
  rd::batch_range const batches = data.rows().batches(2);
  CHECK(labels(batches.at_step(1)) == std::vector<int>{2, 3});
  CHECK(labels(batches.at_step(7)) == std::vector<int>{2, 3});
  rd::dataset_view const none = data.shard(6, 7);
  CHECK(none.empty());
  CHECK(none.batches(rd::fraction{0.1}).begin() == none.batches(rd::fraction{0.1}).end());
  CHECK(none.batches(2).at_step(7).empty());
  CHECK(none.batches(2).at_step(7).features() == data.features());
}

TEST_CASE("iterators are random access and outlive their view", "[data]") {
  rd::dataset const data = numbered(9);
  auto const begin = data.rows().begin();
  auto i = begin + 4;
  CHECK((*i).label == 4);
  CHECK((*i++).label == 4);
  CHECK((*--i).label == 4);
  CHECK((*(i -= 2)).label == 2);
  CHECK((2 + i)[1].label == 5);
  CHECK((*(i - 1)).label == 1);
  CHECK(data.rows().end() - i == 7);
  CHECK(begin < i);
  rd::dataset_view const rows = data.rows();
  CHECK((*std::ranges::lower_bound(rows, 6.5F, {}, &rd::example::label)).label == 7);
}

TEST_CASE("shuffling keeps every row whole and depends on the seed only", "[data]") {
  rd::dataset const data = numbered(1000);
  rd::dataset const mixed = data.shuffled(7);
  CHECK(intact(mixed));
  CHECK(mixed.features() == data.features());
  auto order = labels(mixed);
  CHECK(order == labels(data.shuffled(7)));
  CHECK(order != labels(data.shuffled(8)));
  CHECK(order != labels(data));
  std::ranges::sort(order);
  CHECK(order == labels(data));
}

TEST_CASE("held-out rows are disjoint from the train set and in order", "[data]") {
  for (std::size_t const rows : {0U, 1U, 2U, 7U, 100U}) {
    rd::dataset const data = numbered(rows);
    for (double const share : {0.0, 0.1, 0.25, 0.5, 1.0}) {
      auto const [train, test] = data.split(share, 3);
      REQUIRE(test.size() == static_cast<std::size_t>(std::lround(share * double(rows))));
      REQUIRE((intact(train) && intact(test)));
      REQUIRE((train.features() == data.features() && test.features() == data.features()));
      REQUIRE((std::ranges::is_sorted(labels(train)) && std::ranges::is_sorted(labels(test))));
      std::vector<int> all;
      std::ranges::merge(labels(train), labels(test), back_inserter(all));
      REQUIRE(all == labels(data));
    }
  }
  rd::dataset const data = numbered(100);
  CHECK(labels(data.split(0.2, 1).test) == labels(data.split(0.2, 1).test));
  CHECK(labels(data.split(0.2, 1).test) != labels(data.split(0.2, 2).test));
  CHECK(labels(data.split(0.2, 1).test).back() >= 20);
  for (double const bad : {-0.1, 1.1, std::nan("")}) {
    CHECK_THROWS_AS(data.split(bad, 1), option_error);
  }
}

TEST_CASE("gather takes rows in the given order", "[data]") {
  rd::dataset const data = numbered(5);
  rd::dataset const some = data.gather(std::vector<std::size_t>{4, 0, 4});
  CHECK(labels(some) == std::vector<int>{4, 0, 4});
  CHECK(intact(some));
  CHECK_THROWS_AS(data.gather(std::vector<std::size_t>{5}), option_error);
}

TEST_CASE("a compact batch is the batch under new numbers", "[data]") {
  rd::dataset const data = numbered(30);
  rd::dataset_view const batch = data.shard(1, 4, rd::sharding::strided);
  rd::compact_batch const local = rd::compact(batch);
  REQUIRE(local.rows.size() == batch.size());
  CHECK(local.rows.nonzeros() == batch.nonzeros());
  CHECK(local.rows.features() == local.keys.size());
  CHECK(std::ranges::adjacent_find(local.keys, std::greater_equal<>()) == local.keys.end());
  std::vector<bool> used(local.keys.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    REQUIRE(local.rows[i].label == batch[i].label);
    REQUIRE(std::ranges::equal(local.rows[i].values, batch[i].values));
    for (std::size_t k = 0; k < batch[i].indices.size(); ++k) {
      used[local.rows[i].indices[k]] = true;
      REQUIRE(local.keys[local.rows[i].indices[k]].value() == batch[i].indices[k]);
    }
  }
  CHECK(std::ranges::all_of(used, std::identity()));
  CHECK(rd::compact(batch.slice(0, 0)).keys.empty());
}
