// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "simulated/search.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include <rubato/core/rare.hpp>

#include "seeds.hpp"

using namespace rubato;
using testing::fault;

TEST_CASE("search: faults are added up by kind, and told a line each") {
  testing::trial_result calm, harmed;
  calm.faults[static_cast<std::size_t>(fault::cuts)] = 3;
  calm.ends.resize(2);
  harmed.harmful = true;
  harmed.faults[static_cast<std::size_t>(fault::cuts)] = 1;
  harmed.faults[static_cast<std::size_t>(fault::kills)] = 2;
  harmed.ends.resize(2);
  harmed.ends.back().failure = "worker 0 was lost";
  test::search_tally all;
  all.add(calm);
  all.add(calm);
  all.add(harmed);
  CHECK(all.well() == 2);
  CHECK(all.harmful() == 1);
  CHECK(all.times(fault::cuts) == 7);
  CHECK(all.times(fault::kills) == 2);
  std::string const text = all.text("processes");
  using Catch::Contains;
  CHECK_THAT(text, Contains("processes: 3 trials, 1 of them with harm; all ended well in 2\n"));
  CHECK_THAT(text, Contains("\ncuts                 7 in        3 trials\n"));
  CHECK_THAT(text, Contains("\nkills                2 in        1 trials\n"));
  CHECK_THAT(text, Contains("\nliars                0 in        0 trials\n"));
}

TEST_CASE("search: rare paths that were never reached are named, of peers or of the others") {
  std::vector<rare_count> const marks{{"a link went on after a break", 4},
                                      {"a welcome did not come in time", 0},
                                      {"peers: one jumps", 0},
                                      {"peers: a neighbor leaves early", 1}};
  using names = std::vector<std::string>;
  CHECK(test::never_reached(marks, test::paths_of::others) == names{"a welcome did not come in time"});
  CHECK(test::never_reached(marks, test::paths_of::peers) == names{"peers: one jumps"});
  CHECK(test::never_reached({{"peers: one jumps", 1}}, test::paths_of::peers).empty());
}

TEST_CASE("a seed is repeated by the program and the file that it is of") {
  CHECK(test::repeat_by(77) ==
        "repeat by " + test::options().program + " --from simulated/search.cpp --seed 77");
  CHECK_FALSE(test::options().program.empty());
}
