// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Lists of keys as bodies have them: in no order, named twice, pushed to once more. Beside a map of what each row is.
#include <rubato/cluster/cluster.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

constexpr std::uint64_t rows_count = 400;
constexpr std::size_t width_max = 2;

/// The i-th row of a table: of a sparse one they are far apart, so that all servers have some, and the last is the last
/// that there can be.
key row_of(std::uint64_t i, bool sparse) {
  if (!sparse) return key{i};
  return key{i + 1 == rows_count ? ~std::uint64_t{0} : i * 1031};
}

/// Up to forty keys in any order. `again`: some are named more than once.
std::vector<key> draw_keys(random_stream& random, bool sparse, bool again) {
  std::vector<key> list;
  std::set<std::uint64_t> named;
  for (std::uint64_t i = random.below(random.chance(0.3) ? 2 : 40) + 1; i != 0; --i)
    if (std::uint64_t const row = random.below(rows_count); named.insert(row).second)
      list.push_back(row_of(row, sparse));
  random.shuffle(std::span(list));
  if (again)
    for (std::uint64_t i = random.below(4) + 1; i != 0; --i) list.push_back(list[random.below(list.size())]);
  return list;
}

/// What the rows of a table are: integers, so that sums are exact.
using expected_rows = std::map<std::uint64_t, std::array<float, width_max>>;

template <class Table>
void read_and_change(std::uint64_t seed, Table const& table, std::size_t width, bool sparse) {
  INFO(test::repeat_by(seed) << ", rows of " << width);
  random_stream random(seed);
  cluster c{in_process{.workers = 1, .servers = 1 + static_cast<std::uint32_t>(random.below(3))}, asp{}, table};
  expected_rows all;
  std::size_t wrong = 0;
  c.run([&](auto& worker) {
    std::vector<key> list;
    std::vector<float> out, delta;
    for (int i = 0; i < 60; ++i) {
      if (list.empty() || random.chance(0.7)) list = draw_keys(random, sparse, random.chance(0.3));
      if (random.chance(0.5)) {
        out.assign(list.size() * width, -1.0F);
        worker.pull(list, out);
        for (std::size_t k = 0; k < out.size(); ++k) wrong += out[k] != all[list[k / width].value()][k % width] ? 1 : 0;
      }
      if (random.chance(0.6)) {
        delta.clear();
        for (std::size_t k = 0; k < list.size() * width; ++k) {
          delta.push_back(static_cast<float>(random.below(100)));
          all[list[k / width].value()][k % width] += delta.back();
        }
        worker.push(list, delta);
      }
      if (random.chance(0.3)) worker.commit();
    }
  });
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("worker: lists of keys in any order read and change the rows that they name, one named twice twice (SSP-2)") {
  for (std::uint64_t i = 0; i < test::seed_count(100); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    std::size_t const width = 1 + seed % width_max;
    read_and_change(seed, dense<float>{.rows = rows_count, .width = width}, width, false);
    read_and_change(seed, sparse<float>{.width = width}, width, true);
  }
}
