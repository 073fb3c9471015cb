// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/worker_versions.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

using namespace rubato;

namespace {

constexpr version_index v(std::int64_t value) { return version_index{value}; }
constexpr worker_id nth(std::uint32_t value) { return worker_id{value}; }

worker_versions versions_of(std::uint32_t n) {
  worker_versions all;
  for (std::uint32_t i = 0; i < n; ++i) all.join(nth(i), v(0));
  return all;
}

}  // namespace

TEST_CASE("worker_versions: a commit moves its worker's V on, and top once it is folded") {
  worker_versions all = versions_of(2);
  all.receive(nth(0), v(0));
  CHECK(all.of(nth(0)) == v(1));
  CHECK(all.top() == v(0));
  all.fold(nth(0), v(0));
  CHECK(all.top() == v(1));
  CHECK(all.of(nth(1)) == v(0));
  CHECK(all.least() == v(0));
}

TEST_CASE("worker_versions: a version that is held back stays alive, whatever its worker reads") {
  worker_versions all = versions_of(2);
  all.receive(nth(1), v(0));
  all.fold(nth(1), v(0));
  all.receive(nth(0), v(0));
  all.receive(nth(0), v(1));
  all.raise(nth(0), v(7));
  CHECK(all.of(nth(0)) == v(7));
  CHECK(all.least() == v(0));
  all.fold(nth(0), v(0));
  CHECK(all.least() == v(1));  // both still send or hold version 1
  all.raise(nth(1), v(5));
  CHECK(all.least() == v(1));
  all.fold(nth(0), v(1));
  CHECK(all.least() == v(5));
}

TEST_CASE("worker_versions: raising never lowers, and commits of a version left behind are refused") {
  worker_versions all = versions_of(1);
  all.raise(nth(0), v(4));
  all.raise(nth(0), v(2));
  CHECK(all.of(nth(0)) == v(4));
  CHECK_FALSE(all.accepts(nth(0), v(3)));
  CHECK(all.accepts(nth(0), v(4)));
  CHECK(all.accepts(nth(0), v(9)));  // another shard answered with more
}

TEST_CASE("worker_versions: a joiner starts at top, or further on where another shard is") {
  worker_versions all = versions_of(1);
  all.receive(nth(0), v(3));
  all.fold(nth(0), v(3));
  all.join(nth(1), all.top());
  CHECK(all.of(nth(1)) == v(4));
  CHECK(all.least() == v(4));
  all.raise(nth(1), v(6));
  CHECK(all.of(nth(1)) == v(6));
  CHECK(all.least() == v(4));
}

TEST_CASE("worker_versions: a leaver's versions last until what it sent is folded or dropped") {
  worker_versions all = versions_of(2);
  all.receive(nth(1), v(0));
  all.fold(nth(1), v(0));
  all.receive(nth(0), v(0));
  all.receive(nth(0), v(1));
  all.leave(nth(0));
  CHECK(all.least() == v(0));
  SECTION("folded") {
    all.fold(nth(0), v(0));
    CHECK(all.least() == v(1));
    all.fold(nth(0), v(1));
  }
  SECTION("dropped, the newest first") {
    all.drop(nth(0), 1);
    CHECK(all.least() == v(0));
    all.drop(nth(0), 1);
  }
  CHECK(all.least() == v(1));  // the other one's
  all.raise(nth(1), v(3));
  CHECK(all.least() == v(3));
}

TEST_CASE("worker_versions: who comes back keeps the versions of what its earlier life has held back") {
  worker_versions all = versions_of(2);
  all.receive(nth(0), v(0));
  all.raise(nth(1), v(5));
  all.leave(nth(0));
  all.join(nth(0), v(3));
  CHECK(all.of(nth(0)) == v(3));
  CHECK(all.least() == v(0));
  all.raise(nth(0), v(4));
  CHECK(all.least() == v(0));
  SECTION("folded") { all.fold(nth(0), v(0)); }
  SECTION("dropped") { all.drop(nth(0), 1); }
  CHECK(all.least() == v(4));
}

TEST_CASE("worker_versions: with nobody left no version is needed") {
  worker_versions all = versions_of(1);
  all.receive(nth(0), v(0));
  all.leave(nth(0));
  CHECK(all.least() == v(0));
  all.fold(nth(0), v(0));
  CHECK(all.least() > v(1'000'000));
  all.join(nth(1), all.top());
  CHECK(all.of(nth(1)) == v(1));
  CHECK(all.least() == v(1));
}

TEST_CASE("worker_versions: top does not fall when an older version is folded later") {
  worker_versions all = versions_of(2);
  all.receive(nth(0), v(0));
  all.receive(nth(0), v(1));
  all.fold(nth(0), v(0));
  all.fold(nth(0), v(1));
  all.receive(nth(1), v(0));
  all.fold(nth(1), v(0));
  CHECK(all.top() == v(2));
}
