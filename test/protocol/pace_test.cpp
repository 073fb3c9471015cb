// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/pace.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>

using namespace rubato;

TEST_CASE("pace: every_step commits after each local step, at any time (001 §2)") {
  for (std::int64_t c = 0; c < 5; ++c) {
    commit_due const due = every_step{}.due(
        {.clock = clock_index{c}, .committed_at = time_point(std::chrono::seconds(c))});
    CHECK(due.steps == 1);
    CHECK(due.at == time_point::min());
  }
}

TEST_CASE("pace: every{n} commits after n local steps, in each clock anew (rules §5)") {
  for (std::int64_t c = 0; c < 5; ++c) {
    commit_due const due = every{10}.due(
        {.clock = clock_index{c}, .committed_at = time_point(std::chrono::seconds(c))});
    CHECK(due.steps == 10);
    CHECK(due.at == time_point::min());
  }
  CHECK(every{}.due({}).steps == 1);
}
