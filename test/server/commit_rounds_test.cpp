// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/commit_rounds.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

using namespace rubato;

namespace {

constexpr version_index round_of(std::int64_t r) { return version_index{r}; }

held_commit commit_for_round(std::uint32_t worker, std::int64_t stamp) {
  held_commit c{};
  c.info.from = worker_id{worker};
  c.info.stamp = clock_index{stamp};
  return c;
}

std::string text_of_round(std::vector<held_commit> const& commits) {
  std::string all;
  for (held_commit const& c : commits)
    all += std::to_string(c.info.from.value()) + "/" + std::to_string(c.info.stamp.value()) + " ";
  return all;
}

}  // namespace

TEST_CASE("a round ends with its first commits, by worker and stamp; the others are left out or carried on",
          "[server][rounds]") {
  std::uint64_t left_out = 0;
  for (bool const carry : {false, true}) {
    commit_rounds log;
    log.add(round_of(0), commit_for_round(3, 7));
    log.add(round_of(0), commit_for_round(1, 9));
    log.add(round_of(0), commit_for_round(1, 8));
    log.add(round_of(0), commit_for_round(0, 2));
    log.add(round_of(1), commit_for_round(2, 2));
    CHECK(log.ready() == 4);
    CHECK(log.size() == 5);
    left_out = 0;
    CHECK(text_of_round(log.end_round(3, carry, left_out)) == "1/8 1/9 3/7 ");
    CHECK(log.open() == round_of(1));
    CHECK(left_out == (carry ? 0 : 1));
    CHECK(log.ready() == (carry ? 2 : 1));
    CHECK(text_of_round(log.end_round(3, carry, left_out)) == (carry ? "0/2 2/2 " : "2/2 "));
    CHECK(log.empty());
  }
}

TEST_CASE("an empty round ends, and rounds that nobody made are skipped", "[server][rounds]") {
  commit_rounds log;
  std::uint64_t left_out = 0;
  CHECK(log.end_round(1, false, left_out).empty());
  CHECK(log.open() == round_of(1));
  log.skip_empty();
  CHECK(log.open() == round_of(1));
  log.add(round_of(9), commit_for_round(0, 0));
  CHECK(log.ready() == 0);
  log.skip_empty();
  CHECK(log.open() == round_of(9));
  CHECK(log.ready() == 1);
}

TEST_CASE("what a lost worker has sent from a stamp on is forgotten in all rounds",
          "[server][rounds]") {
  commit_rounds log;
  log.add(round_of(0), commit_for_round(1, 4));
  log.add(round_of(0), commit_for_round(1, 5));
  log.add(round_of(0), commit_for_round(2, 5));
  log.add(round_of(1), commit_for_round(1, 6));
  CHECK(log.drop(worker_id{1}, clock_index{5}) == 2);
  CHECK(log.size() == 2);
  std::uint64_t left_out = 0;
  CHECK(text_of_round(log.end_round(9, false, left_out)) == "1/4 2/5 ");
  CHECK(log.empty());
}
