// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/lent_turns.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>

#include <rubato/storage/table_state.hpp>

using rubato::table_state;
using rubato::detail::lent_turns;

TEST_CASE("lent_turns: stretches of whole chunks fill the values, and each begins with its piece") {
  std::size_t const row = GENERATE(1U, 8U, 12U, 4000U, 33'000U, 65'537U, 1'000'000U);
  std::size_t const rows = GENERATE(1U, 2U, 100U, 70'000U);
  CAPTURE(row, rows);
  lent_turns const turns(rows * row, row);
  std::size_t const chunk = table_state::chunk_bytes(row);
  CHECK(turns.piece() == chunk);
  std::size_t next = 0, sent = 0;
  for (std::size_t i = 0; i < turns.count(); ++i) {
    bool const is_last = i + 1 == turns.count();
    CHECK(turns.first(i) == next);
    CHECK((is_last || turns.size(i) % chunk == 0));
    CHECK((turns.size(i) > lent_turns::stretch_usual - chunk || is_last));
    CHECK(turns.size(i) <= std::max(lent_turns::stretch_usual, row));
    CHECK(turns.piece(i) == std::min(chunk, turns.size(i)));
    next += turns.size(i);
    sent += turns.piece(i);
  }
  CHECK(next == rows * row);
  CHECK(turns.sent() == sent);
}

TEST_CASE("lent_turns: of nothing there are none") {
  CHECK(lent_turns(0, 8).count() == 0);
  CHECK(lent_turns(0, 8).sent() == 0);
}

TEST_CASE("lent_turns: rows for which there is no room have none, nor what is one piece") {
  constexpr std::size_t longest = 1024 * 1024;
  CHECK(lent_turns::are_possible(2 * longest, longest));
  CHECK_FALSE(lent_turns::are_possible(2 * longest + 2, longest + 1));
  CHECK_FALSE(lent_turns::are_possible(longest, longest));
  CHECK_FALSE(lent_turns::are_possible(65'536, 8));
  CHECK(lent_turns::are_possible(65'544, 8));
}
