// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/repeated.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "test/bench/results.hpp"

using namespace rubato::bench;
using Catch::Contains;

namespace {

/// A run for each time; none for a time of 0, as the target was missed.
repeated rounds_of(std::string const& label, std::vector<double> const& seconds) {
  repeated p;
  for (double const s : seconds) p.rounds.push_back(s > 0 ? reached(label, s, 100) : missed(label, 9, 100, 0.4));
  return p;
}

}  // namespace

TEST_CASE("quartiles and the median are runs, and those that miss the target are the worst") {
  repeated const odd = rounds_of("a", {7, 1, 6, 2, 5, 3, 4});
  CHECK(odd.at(0.25).seconds == 2);
  CHECK(odd.middle().seconds == 4);
  CHECK(odd.at(0.75).seconds == 6);
  CHECK(odd.at(0).seconds == 1);
  CHECK(odd.at(1).seconds == 7);
  CHECK(rounds_of("a", {4, 3, 1, 2}).middle().seconds == 2);
  CHECK_FALSE(rounds_of("a", {0, 0, 3}).middle().seconds_to_target);
}

TEST_CASE("a lead is counted round by round, and is decisive by a sign test") {
  repeated const slow = rounds_of("b", {2, 2, 3, 2, 2, 2, 2});
  lead const all = lead_of(rounds_of("a", {1, 1, 2.5, 1, 1, 1, 1}), slow);
  CHECK(all.wins == 7);
  CHECK(all.p_value == Approx(2.0 / 128));
  lead const some = lead_of(rounds_of("a", {1, 1, 3.5, 1, 1, 2, 1}), slow);  // of which one is a tie
  CHECK(some.wins == 5);
  CHECK(some.losses == 1);
  CHECK(some.p_value == Approx(2 * 7.0 / 64));
  // Who loses every round is not far ahead.
  CHECK(lead_of(slow, rounds_of("a", {1, 1, 1, 1, 1, 1, 1})).p_value == 1);
  CHECK(lead_of(slow, slow).p_value == 1);
}

TEST_CASE("the winner has a confidence, and without one there is no difference") {
  repeated const slow = rounds_of("slow", {2, 2, 3, 2, 2, 2, 2});
  std::vector<repeated> const sure = ranked({slow, rounds_of("fast", {1, 1, 2.5, 1, 1, 1, 1})});
  CHECK_THAT(verdict(sure), Contains("fast wins: it reaches 0.3 in 1 s, 2.00x sooner than slow") &&
                                Contains("Over 7 rounds it is faster than slow with 98.4% confidence (sign test, p = "
                                         "0.016)."));
  std::vector<repeated> const open = ranked({slow, rounds_of("fast", {1, 1, 4, 1, 1, 1, 1})});
  CHECK_THAT(verdict(open), Contains("No difference between fast and slow: fast, whose median is best, is faster than "
                                     "the other in 6 of 7 rounds (sign test, p = 0.12).") &&
                                !Contains("wins"));
}

TEST_CASE("no difference is said of all that the best is not surely ahead of") {
  std::vector<repeated> const all =
      ranked({rounds_of("c", {9, 9, 9, 9, 9, 9, 9}), rounds_of("b", {2, 2, 2, 2, 1, 1, 1}),
              rounds_of("a", {1, 1, 1, 1, 2, 2, 2})});
  CHECK_THAT(verdict(all), Contains("No difference between a and b:") && !Contains(" c"));
  text_table const t = comparison_table(all);
  CHECK(t.head[3] == "quartiles");
  CHECK(t.rows[0][3] == "1 to 2 s");
  CHECK(t.rows[0].back().empty());
  CHECK(t.rows[1].back() == "4 of 7, p = 1");
  CHECK(t.rows[2].back() == "7 of 7, p = 0.016");
  for (auto const& row : t.rows) CHECK(row.size() == t.head.size());
}

TEST_CASE("few rounds cannot tell, and one of wall time is said to be chance") {
  std::vector<repeated> five = {rounds_of("a", {1, 1, 1, 1, 2}), rounds_of("b", {3, 3, 3, 3, 3})};
  CHECK_THAT(verdict(five),
             Contains("No difference can be told with fewer than 6 rounds: --repeat 7. In the middle runs a wins"));
  std::vector<repeated> one = {rounds_of("a", {1}), rounds_of("b", {3})};
  CHECK_THAT(verdict(one), Contains("a wins") && !Contains("chance"));
  for (repeated& p : one) p.rounds[0].time_kind = "wall";
  CHECK_THAT(verdict(one), Contains("a wins") && Contains("is chance: --repeat 7"));
  CHECK(comparison_table(one).head[3] == "ratio");
  CHECK(verdict(std::span<repeated const>{}).empty());
}

TEST_CASE("where nothing is drawn a lead is no matter of chance") {
  std::vector<repeated> const same = {rounds_of("a", {1, 1, 1, 1, 1, 1}),
                                      rounds_of("b", {3, 3, 3, 3, 3, 3})};
  CHECK(lead_of(same[0], same[1]).p_value == 0);
  CHECK_THAT(verdict(same), Contains("a wins") && Contains("nothing in them is drawn"));
  CHECK(comparison_table(same).rows[1].back() == "6 of 6");
}
