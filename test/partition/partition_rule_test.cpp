// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/partition/partition_rule.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <rubato/partition/by_function.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/partition/range_hash.hpp>

using namespace rubato;

namespace {

template <partition_policy P>
void check_answers_as(P const& policy, table_shape shape, std::vector<std::uint64_t> const& keys) {
  INFO(shape.rows << " rows, " << shape.servers << " servers");
  partition_rule const rule(policy);
  constexpr std::uint32_t untouched = 1234;
  std::vector<std::uint32_t> out(keys.size() + 1, untouched);
  rule.servers_of(keys, shape, out.data());
  for (std::size_t i = 0; i < keys.size(); ++i)
    REQUIRE(out[i] == policy.server_of(key{keys[i]}, shape).value());
  REQUIRE(out.back() == untouched);
}

struct constant {
  std::shared_ptr<std::uint32_t> server;
  [[nodiscard]] server_id server_of(key, table_shape) const { return server_id{*server}; }
};

}  // namespace

TEST_CASE("partition_rule: answers for many keys what its policy answers for each") {
  std::vector<std::uint64_t> few;
  for (std::uint64_t k = 0; k < 500; ++k) few.push_back(k * 389 % 500);
  std::vector<std::uint64_t> const any{~std::uint64_t{0}, 0, 1, std::uint64_t{1} << 40, 12'345};
  for (std::uint32_t const servers : {1U, 3U, 16U}) {
    check_answers_as(range{}, {500, servers}, few);
    check_answers_as(hash{}, {500, servers}, few);
    check_answers_as(range_hash{.runs_per_server = 3}, {500, servers}, few);
    check_answers_as(range{}, {0, servers}, any);
    check_answers_as(range_hash{.rows_per_run = 2}, {0, servers}, any);
    check_answers_as(range_hash{}, {0, servers}, {});
  }
}

TEST_CASE("partition_rule: a policy's own state goes with it, and copies share it") {
  auto const held = std::make_shared<std::uint32_t>(2);
  long const before = held.use_count();
  partition_rule const rule(constant{held});
  CHECK(held.use_count() == before + 1);
  partition_rule copy = rule;
  CHECK(held.use_count() == before + 1);
  std::uint64_t const k = 8;
  std::uint32_t server = 0;
  copy.servers_of({&k, 1}, {10, 3}, &server);
  CHECK(server == 2);
  copy = hash{};
  rule.servers_of({&k, 1}, {10, 3}, &server);
  CHECK(server == 2);
}

TEST_CASE("by_function: a lambda that has captured something is a partition like any other") {
  std::vector<std::uint32_t> const places{2, 0, 1};
  auto const by = [](std::vector<std::uint32_t> of) {
    return by_function([of = std::move(of)](key k, table_shape) { return server_id{of[k.value() % of.size()]}; });
  };
  auto a = by(places);
  static_assert(partition_policy<decltype(a)>);
  auto const b = a;
  auto c = by({0});
  c = b;
  check_answers_as(c, {500, 3}, {0, 1, 2, 3});
  CHECK(c.server_of(key{0}, {500, 3}) == server_id{2});
  c = by({1});
  CHECK(c.server_of(key{0}, {500, 3}) == server_id{1});
  CHECK(a.server_of(key{1}, {500, 3}) == server_id{0});
}
