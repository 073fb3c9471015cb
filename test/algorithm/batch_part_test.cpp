// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/batch_part.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rubato/algorithm/feature_rarity.hpp>
#include <rubato/core/ids.hpp>
#include <rubato/data/dataset.hpp>

#include "algorithm/algorithms.hpp"

namespace ra = rubato::algorithm;
namespace rt = rubato::test;
using rubato::key;

namespace {

/// Features 0 and 2, 2, 1 and 2, 2; feature 3 never.
rubato::data::dataset four_rows() {
  rubato::data::dataset_builder b(4);
  b.add(1, std::vector<std::uint32_t>{0, 2}, std::vector<float>{1, 2});
  b.add(-1, std::vector<std::uint32_t>{2}, std::vector<float>{3});
  b.add(-1, std::vector<std::uint32_t>{1, 2}, std::vector<float>{4, 5});
  b.add(1, std::vector<std::uint32_t>{2}, std::vector<float>{6});
  return b.build();
}

}  // namespace

TEST_CASE("feature_rarity: all rows over those in which a feature occurs, 0 where it never does") {
  auto const rows = four_rows();
  ra::feature_rarity const rarity(rows);
  CHECK(rarity[0] == 4.0F);
  CHECK(rarity[1] == 4.0F);
  CHECK(rarity[2] == 1.0F);
  CHECK(rarity[3] == 0.0F);
}

TEST_CASE("feature_rarity: counts more rows than a float tells apart", "[numeric]") {
  constexpr std::size_t rows = (std::size_t{1} << 24) + 2;
  rubato::data::dataset_builder all(1);
  all.reserve(rows, rows);
  std::uint32_t const feature = 0;
  float const value = 1;
  for (std::size_t i = 0; i < rows; ++i) all.add(1, {&feature, 1}, {&value, 1});
  auto const built = all.build();
  CHECK(ra::feature_rarity(built)[0] == 1.0F);
}

TEST_CASE("batch_part: by key a part has the coordinates that occur in it, and counts them by rarity") {
  auto const rows = four_rows();
  ra::feature_rarity const rarity(rows);
  ra::batch_part<double> const part(rows.rows().slice(0, 3), 0, 2, ra::exchange::by_key, rarity,
                                    3);  // rows 0 and 1
  REQUIRE(part.size() == 2);
  CHECK(std::vector(part.keys().begin(), part.keys().end()) == std::vector{key{0}, key{2}});
  CHECK(part.share() == Approx(2.0 / 3));
  CHECK(part.weight(0) == Approx(1.0 / 3 * 4));
  CHECK(part.weight(1) == Approx(2.0 / 3));
  CHECK(part.rows()[1].indices[0] == 1);  // feature 2
  CHECK(part.work() == 3);
}

TEST_CASE("batch_part: exchanged whole a part has all coordinates, each counting by the part's share") {
  auto const rows = four_rows();
  ra::batch_part<double> const part(rows, 1, 3, ra::exchange::whole, {}, 4);  // row 2 of 4
  CHECK(part.size() == 4);
  CHECK(part.keys().empty());
  CHECK(part.share() == 0.25);
  CHECK(part.weight(3) == 0.25);
  CHECK(part.work() == 2 + 4);
}

TEST_CASE("batch_part: with more workers than rows some have none, and move nothing") {
  auto const rows = four_rows();
  ra::feature_rarity const rarity(rows);
  ra::batch_part<double> const part(rows, 5, 6, ra::exchange::by_key, rarity, 4);
  CHECK(part.size() == 0);
  CHECK(part.share() == 0);
  CHECK(part.work() == 0);
}

TEST_CASE("batch_part: over all workers and batches every coordinate that occurs counts once in the mean") {
  auto const rows = rt::sparse_rows();
  ra::feature_rarity const rarity(rows);
  for (std::size_t const size : {24U, 34U, 239U}) {  // of 240 rows: the last batch has as many, two, or one
    std::vector<double> mean(rows.features());
    auto const batches = rows.rows().batches(size);
    double const rows_mean = static_cast<double>(rows.size()) / static_cast<double>(batches.size());
    for (auto const batch : batches)
      for (std::uint32_t rank = 0; rank < 5; ++rank) {
        ra::batch_part<double> const part(batch, rank, 5, ra::exchange::by_key, rarity, rows_mean);
        for (std::size_t j = 0; j < part.size(); ++j)
          mean[part.keys()[j].index()] += part.weight(j) / static_cast<double>(batches.size());
      }
    for (std::size_t j = 0; j < mean.size(); ++j) CHECK(mean[j] == Approx(rarity[j] == 0 ? 0 : 1));
  }
}
