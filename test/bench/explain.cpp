// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/ranking.hpp"

#include <catch2/catch.hpp>

#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "test/bench/results.hpp"

using namespace rubato::bench;
using Catch::Contains;

namespace {

std::string verdict(std::vector<run_result> results) { return explain(ranked(std::move(results))); }

}  // namespace

TEST_CASE("the shortest time to the target is first, then the lowest loss of the others") {
  auto const order = ranked({missed("d", 1, 10, std::numeric_limits<double>::quiet_NaN()),
                             missed("c", 1, 10, 0.4), reached("b", 3, 10), reached("a", 2, 10)});
  std::string labels;
  for (auto const& r : order) labels += r.label;
  CHECK(labels == "abcd");
}

TEST_CASE("a protocol that loses by its updates is said to need more of them") {
  CHECK_THAT(verdict({reached("fast", 1, 100), reached("slow", 3, 300)}),
             Contains("fast wins") && Contains("3.00x sooner than slow") &&
                 Contains("needs 3.00x the updates, at about the same time for each"));
}

TEST_CASE("a protocol that loses by waiting is said to wait") {
  CHECK_THAT(verdict({reached("fast", 1, 100, 0.1), reached("slow", 2, 100, 0.6)}),
             Contains("needs about as many updates, but 2.00x the time for each") &&
                 Contains("wait 60% of their time, those of fast 10%"));
}

TEST_CASE("both kinds of efficiency may matter, and one may not make up for the other") {
  CHECK_THAT(verdict({reached("fast", 1, 100), reached("slow", 4, 200)}),
             Contains("needs 2.00x the updates and 2.00x the time for each"));
  CHECK_THAT(verdict({reached("fast", 1, 100), reached("slow", 2, 400)}),
             Contains("needs 4.00x the updates, if only 0.50x the time for each"));
  CHECK_THAT(verdict({reached("fast", 1, 100), reached("slow", 2, 50)}),
             Contains("needs only 0.50x the updates, but 4.00x the time for each"));
}

TEST_CASE("a tuned rate that is much smaller is named as what it is") {
  run_result fast = reached("fast", 1, 100);
  run_result slow = reached("slow", 3, 300);
  fast.trials = slow.trials = {{}};
  slow.learning_rate = 0.1;
  CHECK_THAT(verdict({fast, slow}), Contains("the best rate it bears, 0.1, is 10 times smaller"));
}

TEST_CASE("who does not get there, or diverges, is said to") {
  CHECK_THAT(
      verdict({reached("a", 1, 100), missed("b", 5, 900, 0.4)}),
      Contains("No other protocol gets there") && Contains("b does not get there in 900 updates"));
  CHECK_THAT(verdict({missed("a", 1, 100, 0.5), missed("b", 5, 900, 0.4)}),
             Contains("No protocol reaches 0.3") && Contains("b ends lowest"));
  double const none = std::numeric_limits<double>::infinity();
  CHECK_THAT(verdict({missed("a", 1, 100, none)}), Contains("diverge"));
  CHECK(explain({}).empty());
}

TEST_CASE("the table has ratios to the best, and bounds for who does not get there") {
  auto const results =
      ranked({reached("a", 1, 100), reached("b", 2.5, 100), missed("c", 5, 9, 0.4)});
  text_table const t = comparison_table(results);
  CHECK(t.rows[0][3] == "1.00x");
  CHECK(t.rows[1][3] == "2.50x");
  CHECK(t.rows[2][3] == ">5.00x");
  std::string const text = t.to_string();
  CHECK_THAT(text, Contains("protocol"));
  for (auto const& row : t.rows) CHECK(row.size() == t.head.size());
}

TEST_CASE("of several families each has its best named, and is a column of the table") {
  auto const of = [](std::string family, run_result r) {
    r.family = std::move(family);
    return r;
  };
  std::vector<run_result> const results = {of("clocks", reached("a", 2, 10)),      of("clocks", reached("b", 3, 10)),
                                           of("rounds", reached("c", 5, 10)),      of("rounds", reached("d", 6, 10)),
                                           of("optimizers", reached("e", 8, 10)),  of("peers", missed("f", 9, 10, 0.5)),
                                           of("hop", missed("g", 9, 10, 0.6))};
  CHECK_THAT(verdict(results), Contains("The best of other families, by its time: c (rounds) 2.50x, e (optimizers) "
                                        "4.00x. None gets there of peers, hop."));
  CHECK(comparison_table(results).head[1] == "family");
  CHECK(comparison_table(results).rows[4][1] == "optimizers");
  auto const one_family = std::span(results).first(2);
  CHECK(comparison_table(one_family).head[1] == "rate");
  CHECK_THAT(verdict({one_family.begin(), one_family.end()}), !Contains("families"));
}
