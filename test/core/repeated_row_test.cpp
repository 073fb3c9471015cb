// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/repeated_row.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <rubato/core/mix.hpp>
#include <rubato/core/random.hpp>

using rubato::random_stream;
using rubato::detail::ascend;
using rubato::detail::mix64;
using rubato::detail::repeated_row;

using row_list = std::vector<std::uint64_t>;

namespace {

/// Hashes of which all places of a table begin alike.
row_list that_meet(std::size_t n) {
  row_list all;
  for (std::uint64_t k = 0; all.size() < n; ++k)
    if ((mix64(k) & 1023) == 1000) all.push_back(k);
  return all;
}

}  // namespace

TEST_CASE("repeated_row: rows ascend if none comes twice or before a smaller one") {
  CHECK(ascend(row_list{}));
  CHECK(ascend(row_list{4}));
  CHECK(ascend(row_list{1, 2, 9}));
  CHECK_FALSE(ascend(row_list{1, 2, 2}));
  CHECK_FALSE(ascend(row_list{2, 1}));
}

TEST_CASE("repeated_row: names a row that is there twice, wherever it is, and no other") {
  repeated_row repeated;
  random_stream random(3);
  for (std::size_t const n : {2U, 3U, 17U, 100U, 3000U, 10U}) {  // memory of longer lists serves shorter ones
    row_list list;
    for (std::uint64_t i = 0; i < n; ++i) list.push_back((n - i) * 977 + random.below(977));
    list.front() = ~std::uint64_t{0};
    list.back() = 0;
    CHECK(repeated.find(list) == std::nullopt);
    for (int times = 0; times < 20; ++times) {
      std::size_t const from = random.below(n), to = random.below(n);
      if (from == to) continue;
      row_list twice = list;
      twice[to] = twice[from];
      CHECK(repeated.find(twice) == twice[from]);
    }
  }
}

TEST_CASE("repeated_row: takes no memory for rows that ascend, and little for others") {
  repeated_row repeated;
  row_list list;
  for (std::uint64_t i = 0; i < 1000; ++i) list.push_back(i * i);
  CHECK(repeated.find(list) == std::nullopt);
  CHECK(repeated.bytes() == 0);
  std::swap(list.front(), list.back());
  CHECK(repeated.find(list) == std::nullopt);
  CHECK(repeated.bytes() <= 32 * list.size());
}

TEST_CASE("repeated_row: rows whose hashes meet are told apart, many of them by their order") {
  repeated_row repeated;
  for (std::size_t const n : {20U, 200U}) {
    row_list list = that_meet(n);
    std::swap(list.front(), list.back());
    CHECK(repeated.find(list) == std::nullopt);
    list[n / 2] = list[n - 1];
    CHECK(repeated.find(list) == list[n - 1]);
  }
}
