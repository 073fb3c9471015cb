// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/findings.hpp>

#include <catch2/catch.hpp>
#include <string>

using rubato::testing::sentences;
using rubato::testing::detail::findings;

TEST_CASE("findings: of those that differ in numbers only the first, and how many more there were") {
  findings found;
  CHECK(found.take().empty());
  CHECK(found.expect(true, "all is well"));
  for (int clock = 8; clock < 12; ++clock) CHECK_FALSE(found.expect(false, "worker 1 waits at clock ", clock));
  found.add("worker 1 reads clock ", -3);
  CHECK(found.take() ==
        sentences{"worker 1 waits at clock 8 (and 3 more like it)", "worker 1 reads clock -3"});
  CHECK(found.take("elsewhere").front() == "worker 1 waits at clock 8 (and 3 elsewhere)");
}

TEST_CASE("findings: what is not listed is counted") {
  findings found;
  for (std::size_t length = 1; length <= 23; ++length) found.add(std::string(length, 'x'), " ", length);
  found.add(std::string(23, 'x'), " again");
  sentences const all = found.take();
  REQUIRE(all.size() == 21);
  CHECK(all[19] == std::string(20, 'x') + " 20");
  CHECK(all[20] == "and 4 more, of other kinds");
}
