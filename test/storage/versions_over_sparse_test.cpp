// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// No store of the library's is complete here, but for the one that keeps versions; compiled alone.
#include <rubato/storage/store_host.hpp>

#include <catch2/catch.hpp>

#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_description.hpp>

TEST_CASE("describe: a sparse table that keeps versions goes with hosts of stores of one's own") {
  auto const d = rubato::describe(rubato::multi_version{rubato::sparse<float>{.width = 3}});
  CHECK(d.keeps_versions);
  CHECK(!d.bounded);
  CHECK(d.width == 3);
  CHECK(d.own_store == nullptr);
  CHECK(d.make_host({.width = 3})->live_versions() == 0);
}
