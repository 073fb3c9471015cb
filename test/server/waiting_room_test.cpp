// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/waiting_room.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <rubato/core/random.hpp>

#include "at.hpp"

using namespace rubato;
using test::at;

namespace {

std::vector<std::uint32_t> released(waiting_room& room, std::int64_t c_min) {
  std::vector<worker_id> out;
  room.release(at(c_min), out);
  std::vector<std::uint32_t> numbers;
  for (worker_id const w : out) numbers.push_back(w.value());
  return numbers;
}

using order_of_release = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("waiting_room: releases whose need is met, by need, then by arrival") {
  waiting_room room;
  room.enter(worker_id{0}, at(6), at(3));
  room.enter(worker_id{1}, at(4), at(1));
  room.enter(worker_id{2}, at(5), at(2));
  room.enter(worker_id{3}, at(4), at(1));
  CHECK(released(room, 0).empty());
  CHECK(released(room, 1) == order_of_release{1, 3});
  CHECK(released(room, 1).empty());
  CHECK(released(room, 2) == order_of_release{2});
  CHECK(released(room, 9) == order_of_release{0});
  CHECK(room.empty());
}

TEST_CASE("waiting_room: a jump of c_min releases everybody whose need is met (rules §1)") {
  waiting_room room;
  for (std::uint32_t w = 0; w < 6; ++w) room.enter(worker_id{w}, at(10), at(6 - w));
  CHECK(released(room, 4) == order_of_release{5, 4, 3, 2});
  CHECK(room.tickets().size() == 2);
  CHECK(released(room, 100) == order_of_release{1, 0});
}

TEST_CASE("waiting_room: forgets a worker that has gone, and keeps the order of the others") {
  waiting_room room;
  for (std::uint32_t w = 0; w < 8; ++w) room.enter(worker_id{w}, at(9), at(w % 3));
  room.remove(worker_id{4});
  room.remove(worker_id{0});
  room.remove(worker_id{77});
  CHECK(released(room, 5) == order_of_release{3, 6, 1, 7, 2, 5});
}

TEST_CASE("waiting_room: says of each ticket who waits at which clock for what") {
  waiting_room room;
  room.enter(worker_id{3}, at(7), at(5));
  REQUIRE(room.tickets().size() == 1);
  CHECK(room.tickets()[0].worker == worker_id{3});
  CHECK(room.tickets()[0].clock == at(7));
  CHECK(room.tickets()[0].need == at(5));
  room.clear();
  CHECK(room.empty());
}

TEST_CASE("waiting_room: agrees with a sorted list over random entries and releases") {
  random_stream random(4);
  waiting_room room;
  std::vector<waiting_room::ticket> reference;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    if (random.below(3) != 0) {
      clock_index const need = at(static_cast<std::int64_t>(i / 10 + random.below(20)));
      room.enter(worker_id{i}, need, need);
      reference.push_back({need, i, worker_id{i}, need});
      continue;
    }
    auto const c_min = static_cast<std::int64_t>(i / 10 + random.below(8));
    std::ranges::stable_sort(reference, {}, &waiting_room::ticket::need);
    order_of_release expected;
    while (!reference.empty() && reference.front().need <= at(c_min)) {
      expected.push_back(reference.front().worker.value());
      reference.erase(reference.begin());
    }
    REQUIRE(released(room, c_min) == expected);
    REQUIRE(room.tickets().size() == reference.size());
  }
}
