// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/ids.hpp>

#include <catch2/catch.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <unordered_map>

#include <rubato/core/clock.hpp>

using namespace rubato;

namespace {

template <class A, class B>
concept comparable = requires(A a, B b) { a == b; };
template <class A, class B>
concept ordered = requires(A a, B b) { a < b; };
template <class A, class B>
concept assignable = requires(A a, B b) { a = b; };
template <class A>
concept addable = requires(A a) { a + a; };

template <class A, class B>
constexpr bool mixes = comparable<A, B> || ordered<A, B> || assignable<A, B> ||
                       std::is_constructible_v<A, B> || std::is_convertible_v<A, B>;

// Ids of two meanings never meet, though their representations are the same.
static_assert(!mixes<worker_id, server_id> && !mixes<server_id, worker_id>);
static_assert(!mixes<worker_id, incarnation_id> && !mixes<worker_id, stage_id>);
static_assert(!mixes<key, epoch_id> && !mixes<epoch_id, key>);
static_assert(!mixes<clock_index, version_index> && !mixes<version_index, clock_index>);
static_assert(!mixes<key, worker_id> && !mixes<clock_index, key>);

// Nor does a number become an id unasked, or an id a number.
static_assert(!std::is_convertible_v<std::uint32_t, worker_id>);
static_assert(!std::is_convertible_v<worker_id, std::uint32_t>);
static_assert(!std::is_convertible_v<std::uint64_t, key> && !comparable<key, std::uint64_t>);
static_assert(!std::is_convertible_v<std::int64_t, clock_index>);
static_assert(std::is_constructible_v<worker_id, std::uint32_t>);
static_assert(!addable<worker_id> && !addable<key> && !addable<clock_index>);

// A staleness is meant to come from a plain number: `ssp{.staleness = 3}`.
static_assert(std::is_convertible_v<int, staleness>);
static_assert(!std::is_convertible_v<staleness, clock_index>);

static_assert(sizeof(worker_id) == sizeof(std::uint32_t) && sizeof(key) == sizeof(std::uint64_t));
static_assert(std::is_trivially_copyable_v<worker_id> && std::regular<worker_id>);

static_assert(worker_id{} == worker_id{0} && worker_id{3}.value() == 3);
static_assert(worker_id{3}.index() == 3 && worker_id{2} < worker_id{3});
static_assert(version_index{-1} < version_index{0});

}  // namespace

TEST_CASE("ids: serve as keys of hash tables, each with a place of its own") {
  std::unordered_map<key, int> rows;
  for (std::uint64_t k = 0; k < 1000; ++k) rows[key{k}] += 1;
  rows[key{7}] += 1;
  CHECK(rows.size() == 1000);
  CHECK(rows.at(key{7}) == 2);
  CHECK(rows.count(key{1000}) == 0);
}
