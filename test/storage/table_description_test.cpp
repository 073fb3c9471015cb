// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/table_description.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include <rubato/partition/range.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/revise.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/multi_version_store.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/sparse_store.hpp>
#include <rubato/storage/store_host.hpp>

namespace rubato::test {

/// Keeps nothing.
struct forgetful_store {
  using value_type = float;
  static constexpr bool bounded = true;
  explicit forgetful_store(store_shape const& s) : width(s.width) {}
  void assign(row_values<float> const&) {}
  void fold(std::span<weighted_update<float> const>) {}
  void read(std::span<std::uint64_t const> rows, float* out) const {
    std::fill_n(out, rows.size() * width, -3.0F);
  }
  void copy(std::uint64_t, std::uint64_t count, float* out) const {
    std::fill_n(out, static_cast<std::size_t>(count) * width, -3.0F);
  }
  [[nodiscard]] std::size_t bytes() const { return 0; }
  std::size_t width;
};
struct other_store : forgetful_store {
  using forgetful_store::forgetful_store;
};

}  // namespace rubato::test

using namespace rubato;

namespace {

struct forgetful : dense<float> {
  using store = test::forgetful_store;
};
struct other : dense<float> {
  using store = test::other_store;
};

template <class Store>
bool makes(table_description const& d) {
  auto const host = d.make_host({.rows = 3});
  return dynamic_cast<store_host<Store> const*>(host.get()) != nullptr;
}

template <class Table>
std::string agreement(Table const& table) {
  return blueprint(ssp{}, 2, {describe(table)}).agreement();
}

}  // namespace

TEST_CASE("table_description: says of a table that holds every row what its type and its members say") {
  std::vector<float> const init{1, 2, 3, 4, 5, 6};
  dense<float, merge_of_protocol, range> const table{.rows = 3,
                                                     .width = 2,
                                                     .init = init,
                                                     .check_finite = true,
                                                     .filter = {.threshold = 0.5},
                                                     .cached_rows = 9};
  table_description const d = describe(table);
  CHECK(d.element == element_type::float32);
  CHECK(d.bounded);
  CHECK_FALSE(d.keeps_versions);
  CHECK(d.rows == 3);
  CHECK(d.width == 2);
  CHECK(d.check_finite);
  CHECK(d.filter.threshold == 0.5);
  CHECK(d.cached_rows == 9);
  CHECK_FALSE(d.merge);
  CHECK(d.own_store == nullptr);
  CHECK(static_cast<void const*>(d.init.data()) == init.data());
  CHECK(d.init.size() == 6 * sizeof(float));
  CHECK(d.init_keys.empty());
  CHECK(makes<dense_store<float>>(d));
  std::vector<std::uint64_t> const keys{0, 1, 2};
  std::uint32_t servers[3];
  d.partition.servers_of(keys, {3, 3}, servers);  // range, and not the default
  CHECK(servers[0] == 0);
  CHECK(servers[1] == 1);
  CHECK(servers[2] == 2);
}

TEST_CASE("table_description: says the same of a table of touched rows, and which start other than zero") {
  std::vector<key> const keys{key{5}, key{70}};
  std::vector<std::int64_t> const init{1, 2};
  table_description const d =
      describe(sparse<std::int64_t, sum>{.rows = 100, .init_keys = keys, .init = init});
  CHECK(d.element == element_type::int64);
  CHECK_FALSE(d.bounded);
  CHECK(d.rows == 100);
  CHECK_FALSE(d.check_finite);
  CHECK(d.init_keys.data() == keys.data());
  CHECK(d.init_keys.size() == 2);
  CHECK(d.init.size() == 16);
  REQUIRE(d.merge);
  CHECK(d.merge->type() == typeid(sum));
  CHECK(makes<sparse_store<std::int64_t>>(d));
}

TEST_CASE("table_description: a table that keeps versions says so, and is kept in such a store") {
  table_description const d = describe(multi_version{dense<double, revise>{.rows = 3}});
  CHECK(d.keeps_versions);
  CHECK(d.element == element_type::float64);
  CHECK(d.filter.limit() == 1e-6);
  CHECK(d.merge->versioned());
  CHECK(d.own_store == nullptr);
  CHECK(makes<multi_version_store<dense_store<double>>>(d));
  CHECK(makes<multi_version_store<sparse_store<float>>>(describe(multi_version{sparse<float>{}})));
}

TEST_CASE("table_description: a store of one's own is named, and made") {
  table_description const d = describe(forgetful{{.rows = 3}});
  REQUIRE(d.own_store != nullptr);
  CHECK(*d.own_store == typeid(test::forgetful_store));
  CHECK(makes<test::forgetful_store>(d));
  float x = 0;
  std::uint64_t const row = 2;
  d.make_host({.rows = 3})->read({&row, 1}, reinterpret_cast<std::byte*>(&x), {});
  CHECK(x == -3.0F);
}

TEST_CASE("blueprint: processes that keep a table in different stores of their own do not agree") {
  std::string const library = agreement(dense<float>{.rows = 3});
  CHECK_THAT(library, !Catch::Contains("kept by"));
  std::string const own = agreement(forgetful{{.rows = 3}});
  CHECK_THAT(own, Catch::Contains("table 0: dense float, 3 rows of width 1 kept by test::forgetful_store, "));
  CHECK(own == agreement(forgetful{{.rows = 3}}));
  CHECK(own != library);
  CHECK(own != agreement(other{{.rows = 3}}));
  CHECK_THAT(agreement(multi_version{forgetful{{.rows = 3}}}),
             Catch::Contains("in versions, ") &&
                 Catch::Contains("kept by multi_version_store<test::forgetful_store>, "));
}
