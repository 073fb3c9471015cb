// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/columns.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <utility>
#include <vector>

#include <rubato/data/dataset.hpp>

namespace rd = rubato::data;

namespace {

using column_rows = std::vector<std::uint32_t>;
using column_values = std::vector<float>;
using column_entries = std::vector<std::pair<std::uint32_t, float>>;

column_entries entries_of(rd::columns const& c, std::size_t j) {
  column_entries out;
  for (auto const [row, value] : c[j]) out.emplace_back(row, value);
  return out;
}

}  // namespace

TEST_CASE("columns: what rows store, by column and ascending row", "[data]") {
  rd::dataset_builder builder(5);
  builder.add(1, column_rows{0, 2}, column_values{1, 2});
  builder.add(1, column_rows{}, column_values{});
  builder.add(-1, column_rows{2, 3}, column_values{-3, 0});
  auto const rows = builder.build();
  rd::columns const c(rows);
  CHECK(c.size() == 5);
  CHECK(c.rows() == 3);
  CHECK(entries_of(c, 0) == column_entries{{0, 1.0F}});
  CHECK(entries_of(c, 1).empty());
  CHECK(entries_of(c, 2) == column_entries{{0, 2.0F}, {2, -3.0F}});
  CHECK(entries_of(c, 3) == column_entries{{2, 0.0F}});
  CHECK(entries_of(c, 4).empty());
  CHECK(c.squared_norm(0) == 1);
  CHECK(c.squared_norm(1) == 0);
  CHECK(c.squared_norm(2) == 13);
  CHECK(c.squared_norm(3) == 0);
}

TEST_CASE("columns: of a view its rows alone, counted from its first; of nothing none", "[data]") {
  rd::dataset_builder builder;
  for (std::uint32_t i = 0; i < 6; ++i) builder.add(1, column_rows{i % 2}, column_values{static_cast<float>(i)});
  auto const rows = builder.build();
  rd::columns const c(rows.rows().slice(3, 2));
  CHECK(c.rows() == 2);
  CHECK(entries_of(c, 0) == column_entries{{1, 4.0F}});
  CHECK(entries_of(c, 1) == column_entries{{0, 3.0F}});
  rd::columns const nothing{rd::dataset_view()};
  CHECK(nothing.size() == 0);
  CHECK(nothing.rows() == 0);
}
