// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/rows_read.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using rubato::detail::rows_read;

namespace {

using row_numbers = std::vector<std::uint64_t>;

row_numbers numbers_of(rows_read& r) { return {r.sorted().begin(), r.sorted().end()}; }

}  // namespace

TEST_CASE("rows_read: each row is there once, in order", "[worker]") {
  rows_read r;
  CHECK(r.empty());
  r.add(row_numbers{7, 3, 7});
  r.add(row_numbers{3, 1});
  CHECK_FALSE(r.empty());
  CHECK(numbers_of(r) == row_numbers{1, 3, 7});
  r.add(row_numbers{2});
  CHECK(numbers_of(r) == row_numbers{1, 2, 3, 7});
  r.clear();
  CHECK(r.empty());
  CHECK(numbers_of(r).empty());
}

TEST_CASE("rows_read: what is kept does not grow by rows that are read again", "[worker]") {
  std::uint64_t const rows = GENERATE(1U, 5000U);
  rows_read r;
  std::size_t most = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    r.add(row_numbers{i % rows});
    most = std::max(most, r.kept());
  }
  CHECK(most <= 2 * rows + 1024);
  CHECK(numbers_of(r).size() == rows);
}
