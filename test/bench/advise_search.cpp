// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The search by itself, on candidates whose curves are known.
#include "bench/advise/search.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "bench/advise/advice.hpp"
#include "bench/advise/certainty.hpp"
#include "bench/advise/exhaustive.hpp"
#include "bench/advise/runs.hpp"
#include "bench/result/sign_test.hpp"
#include "rubato/core/error.hpp"

#include <nlohmann/json.hpp>

using namespace rubato::bench;
using Catch::Contains;

namespace {

constexpr double nan_loss = std::numeric_limits<double>::quiet_NaN();

/// A run of `length` seconds whose objective is `loss(t)`, looked at every half second; the target is 0. It costs ten
/// steps a second.
template <class Loss>
run_result known_run(std::string const& label, double rate, stop_rule const& stop, double length, Loss loss) {
  run_result r;
  r.label = label;
  r.learning_rate = rate;
  r.target = 0;
  for (double t = 0; t <= length; t += 0.5) {
    r.curve.push_back({.seconds = t,
                       .updates = static_cast<std::uint64_t>(t * 10),
                       .loss = loss(t),
                       .steps = static_cast<std::uint64_t>(t * 10)});
    r.seconds = t;
    r.final_loss = loss(t);
    bool const arrived = loss(t) <= 0;
    if (arrived) r.seconds_to_target = t;
    if (arrived || !std::isfinite(loss(t)) || t > stop.deadline) break;
  }
  r.steps = r.updates = r.curve.back().steps;
  r.counted_split = {.compute = 1};
  return r;
}

/// Falls evenly, and reaches the target after `seconds` at its best rate, later at others.
candidate even(std::string const& label, double seconds, double best_rate = 1) {
  return {label, [=](double rate, std::size_t, stop_rule const& stop) {
            double const arrival = seconds * (1 + std::abs(std::log2(rate / best_rate)));
            return known_run(label, rate, stop, 100, [=](double t) { return 1 - t / arrival; });
          }};
}

/// The same objective at every rate and seed.
template <class Loss>
candidate shaped(std::string const& label, Loss loss) {
  return {label, [=](double rate, std::size_t, stop_rule const& stop) {
            return known_run(label, rate, stop, 100, loss);
          }};
}

search_options known_options() {
  return {.rates = {0.25, 0.5, 1, 2, 4}, .seeds = 3, .first_deadline = 2};
}

std::string winner_of(search_result const& found, std::vector<candidate> const& candidates) {
  return found.finalists.empty() ? "" : candidates[found.finalists.front().what.candidate].label;
}

}  // namespace

TEST_CASE("a search finds the best arm at a small part of an exhaustive search's cost") {
  std::vector<candidate> all;
  for (int i = 0; i < 12; ++i) all.push_back(even("c" + std::to_string(i), 10 + 7 * ((i + 5) % 12), 2));
  search_result const found = search(all, known_options());
  exhaustive_result const exhaustive = search_exhaustively(all, known_options());
  CHECK(winner_of(found, all) == "c7");
  CHECK(all[found.finalists.at(1).what.candidate].label == "c8");
  CHECK(found.finalists.front().what == exhaustive.best);
  CHECK(found.finalists.front().what.learning_rate == 2);
  CHECK(found.finalists.front().median_seconds() == exhaustive.best_seconds);
  CHECK(found.cost() < exhaustive.cost / 4);
  CHECK(exhaustive.cost_with_cuts < exhaustive.cost);
}

TEST_CASE("of equals the first in the list wins, and certainty says that they are equal") {
  std::vector<candidate> const all = {even("slow", 20), even("a", 10), even("b", 10)};
  search_result const found = search(all, known_options());
  CHECK(winner_of(found, all) == "a");
  certainty const c = certainty_of(found.last);
  CHECK(c.seeds == 3);
  CHECK(c.ties == 3);
  CHECK(c.wins == 0);
  CHECK(c.p_value == 1);
  CHECK(c.margin == 1);
  CHECK(search_exhaustively(all, known_options()).best.candidate == 1);
}

TEST_CASE("who never reaches the target, or diverges, does not win, however low it comes at first") {
  std::vector<candidate> const all = {
      shaped("flat", [](double t) { return std::max(0.01, 1 - t); }),
      shaped("diverges", [](double t) { return t > 5 ? nan_loss : 1 - t / 6; }), even("arrives", 30)};
  search_result const found = search(all, known_options());
  CHECK(winner_of(found, all) == "arrives");
  CHECK(found.finalists.size() == 1);
  CHECK(found.last.winner.empty());  // no runner-up to fight
  std::size_t diverged = 0;
  for (search_round const& r : found.rounds) diverged += r.diverged;
  CHECK(diverged >= 1);
  CHECK_THAT(advice_text(found, all, known_options()), Contains("No other candidate gets there"));
}

TEST_CASE("where nobody reaches the target the lowest is named, and nothing recommended") {
  std::vector<candidate> const all = {shaped("lost", [](double t) { return t > 1 ? nan_loss : 0.9; }),
                                      shaped("high", [](double t) { return 1 - t / 400; }),
                                      shaped("low", [](double t) { return 1 - t / 200; })};
  search_result const found = search(all, known_options());
  CHECK(found.finalists.empty());
  REQUIRE(found.lowest);
  CHECK(found.lowest->label == "low");
  CHECK_THAT(advice_text(found, all, known_options()), Contains("nothing to recommend") && Contains("low at rate"));
  CHECK(advice_json(found, all, known_options())["best"].is_null());
}

TEST_CASE("a single candidate is recommended at its best rate") {
  std::vector<candidate> const all = {even("only", 10, 4)};
  search_result const found = search(all, known_options());
  CHECK(winner_of(found, all) == "only");
  CHECK(found.finalists.front().what.learning_rate == 4);
  CHECK(found.finalists.front().runs.size() == 3);
  CHECK_THAT(advice_text(found, all, known_options()), Contains("at an end of those tried"));
}

TEST_CASE("a candidate that begins slowly stays in the race, and may win it") {
  std::vector<candidate> all = {shaped("late", [](double t) { return t < 16 ? 1 : 1 - (t - 16) / 4; })};
  for (int i = 0; i < 10; ++i) all.push_back(even("c" + std::to_string(i), 30));
  CHECK(winner_of(search(all, known_options()), all) == "late");
}

TEST_CASE("rates that fell behind get a second chance when those ahead do not get there") {
  candidate const trap = {"trap", [](double rate, std::size_t, stop_rule const& stop) {
                            return known_run("trap", rate, stop, 100, [=](double t) {
                              return rate > 0.25 ? std::max(0.1, 1 - t) : 1 - t / 40;
                            });
                          }};
  std::vector<candidate> const all = {trap};
  search_result const found = search(all, known_options());
  REQUIRE(winner_of(found, all) == "trap");
  CHECK(found.finalists.front().what.learning_rate == 0.25);
  std::size_t readmitted = 0;
  for (search_round const& r : found.rounds) readmitted += r.readmitted;
  CHECK(readmitted > 0);
}

TEST_CASE("a runner-up is looked for among the rates that fell behind as well") {
  // At the rates that come low first it gets nowhere; at 0.25 it is behind then, and takes 24 seconds.
  candidate const trap = {"trap", [](double rate, std::size_t, stop_rule const& stop) {
                            return known_run("trap", rate, stop, 100, [=](double t) {
                              return rate > 0.25 ? std::max(0.1, 1 - t) : 1 - t / 24;
                            });
                          }};
  std::vector<candidate> const all = {even("near", 8), trap};
  search_result const found = search(all, known_options());
  CHECK(winner_of(found, all) == "near");
  REQUIRE(found.finalists.size() == 2);
  CHECK(found.finalists[1].what == arm{1, 0.25});
  CHECK(found.last.runner_up.size() == 3);
  CHECK_THAT(advice_text(found, all, known_options()), !Contains("No other candidate"));
}

TEST_CASE("who is out is not let in again") {
  std::vector<candidate> const all = {even("near", 8), shaped("flat", [](double t) { return std::max(0.1, 1 - t); })};
  search_result const found = search(all, known_options());
  std::size_t gone = 0;
  for (std::size_t i = 0; i < found.rounds.size(); ++i) {
    gone += static_cast<std::size_t>(std::ranges::count(found.rounds[i].gone, "flat"));
    CHECK((gone == 0 || found.rounds[i].readmitted == 0));
  }
  CHECK(gone == 1);
}

TEST_CASE("with one rate each candidate runs once on the first seed, and choosing costs less than trying all") {
  search_options options = known_options();
  options.rates = {1};
  options.seeds = 5;
  std::vector<candidate> const all = {shaped("never", [](double) { return 1.0; }), even("a", 12), even("b", 10),
                                      even("c", 11), even("d", 14), even("e", 40)};
  search_result const found = search(all, options);
  CHECK(winner_of(found, all) == "b");
  REQUIRE(found.rounds.size() > 2);
  CHECK(found.rounds[0].runs == 1);
  CHECK(found.rounds[1].runs == 1);
  CHECK(found.rounds[2].runs == 4);
  CHECK(found.rounds[2].deadline == 18);
  CHECK(found.rounds[3].seed == 1);
  CHECK(found.cost() < search_exhaustively(all, options).cost);
}

TEST_CASE("the median over seeds decides, not the seed of the race") {
  candidate const lucky = {"lucky", [](double rate, std::size_t seed, stop_rule const& stop) {
                             double const arrival = seed == 0 ? 8 : 14;
                             return known_run("lucky", rate, stop, 100, [=](double t) { return 1 - t / arrival; });
                           }};
  std::vector<candidate> const all = {lucky, even("steady", 10)};
  search_result const found = search(all, known_options());
  CHECK(winner_of(found, all) == "steady");
  CHECK(search_exhaustively(all, known_options()).best.candidate == 1);
}

TEST_CASE("how sure a choice is shows on seeds that had no part in it") {
  std::mutex lock;
  std::set<std::size_t> seeds;
  candidate const unlucky = {"unlucky", [&](double rate, std::size_t seed, stop_rule const& stop) {
                               std::lock_guard const guard(lock);
                               seeds.insert(seed);
                               double const arrival = seed < 3 ? 8 : 16;
                               return known_run("unlucky", rate, stop, 100,
                                                [=](double t) { return 1 - t / arrival; });
                             }};
  std::vector<candidate> const all = {unlucky, even("steady", 10)};
  search_result const found = search(all, known_options());
  CHECK(winner_of(found, all) == "unlucky");
  CHECK(seeds == std::set<std::size_t>{0, 1, 2, 3, 4, 5});
  certainty const c = certainty_of(found.last);
  CHECK(c.wins == 0);
  CHECK(c.margin == Approx(10.0 / 16));
  CHECK_THAT(advice_text(found, all, known_options()), Contains("do not confirm the choice"));
}

TEST_CASE("runs side by side give the same advice as one after the other") {
  std::vector<candidate> all;
  for (int i = 0; i < 6; ++i) all.push_back(even("c" + std::to_string(i), 10 + i, i < 3 ? 1 : 2));
  search_options options = known_options();
  std::string const one = advice_text(search(all, options), all, options);
  options.lanes = 4;
  CHECK(advice_text(search(all, options), all, options) == one);
}

TEST_CASE("an arrival at the last point of a run that was cut off does not count") {
  candidate const cut = {"cut", [](double, std::size_t, stop_rule const&) {
                           run_result r;
                           r.curve = {{.loss = 1}, {.seconds = 4, .loss = 0.5}, {.seconds = 6, .loss = 0}};
                           r.seconds = 6;
                           r.seconds_to_target = 6;
                           return r;
                         }};
  std::vector<candidate> const all = {cut};
  CHECK_FALSE(run_all(all, std::vector<run_order>{{{0, 1}, 0, 3.0}}, 1)[0].seconds_to_target);
  CHECK(run_all(all, std::vector<run_order>{{{0, 1}, 0, 7.0}}, 1)[0].seconds_to_target);
}

TEST_CASE("a runner-up far behind is measured all the same") {
  std::vector<candidate> const all = {even("near", 10), even("far", 30)};
  search_result const found = search(all, known_options());
  REQUIRE(found.finalists.size() == 2);
  CHECK(std::isinf(found.finalists[1].median_seconds()));
  CHECK(certainty_of(found.last).margin == Approx(3));
  CHECK_THAT(advice_text(found, all, known_options()), Contains("3.00x sooner than far"));
}

namespace {

/// Reaches the target after `seconds[seed]`, never where that is 0.
candidate by_seed(std::string const& label, std::vector<double> const& seconds) {
  return {label, [=](double rate, std::size_t seed, stop_rule const& stop) {
            double const arrival = seconds.at(seed);
            return known_run(label, rate, stop, 100, [=](double t) { return arrival == 0 ? 0.5 : 1 - t / arrival; });
          }};
}

}  // namespace

TEST_CASE("advice counts who did not get there, and shows no ratios with an infinite time") {
  std::vector<candidate> const all = {by_seed("a", {8, 8, 8, 0}), by_seed("b", {10, 10, 0, 0})};
  search_options options = known_options();
  options.rates = {1};
  options.seeds = 2;
  std::string const text = advice_text(search(all, options), all, options);
  CHECK_THAT(text, Contains("Take a at rate 1: 8 s") && Contains("it did not get there on 1 of 2") &&
                       Contains("b did not get there on 2 of 2"));
  CHECK_THAT(text, !Contains("median is -") && !Contains("any") && !Contains("0.00x"));
}

TEST_CASE("where runs do not differ by seed nothing is said of chance") {
  std::vector<candidate> all = {even("near", 8), even("next", 10)};
  search_options const options = known_options();
  search_result const same = search(all, options);
  CHECK_THAT(advice_text(same, all, options), Contains("nothing is known of chance") && !Contains("p ="));
  CHECK(advice_json(same, all, options)["certainty"]["p_value"].is_null());
  all[0] = by_seed("near", {8, 8, 8, 8, 7, 8});
  search_result const drawn = search(all, options);
  CHECK_THAT(advice_text(drawn, all, options), Contains("p =") && !Contains("nothing is known of chance"));
  CHECK(advice_json(drawn, all, options)["certainty"]["p_value"].is_number());
}

TEST_CASE("the sign test is that of a fair coin") {
  CHECK(sign_test(5, 5) == Approx(2.0 / 32));
  CHECK(sign_test(0, 5) == Approx(2.0 / 32));
  CHECK(sign_test(4, 5) == Approx(2 * 6.0 / 32));
  CHECK(sign_test(2, 4) == 1);
  CHECK(sign_test(9, 10) == Approx(2 * 11.0 / 1024));
}

TEST_CASE("a search of nothing is an error") {
  search_options options = known_options();
  CHECK_THROWS_AS(search({}, options), rubato::option_error);
  std::vector<candidate> const all = {even("a", 10)};
  options.first_deadline = 0;
  CHECK_THROWS_AS(search(all, options), rubato::option_error);
  options = known_options();
  options.rates.clear();
  CHECK_THROWS_AS(search(all, options), rubato::option_error);
  options = known_options();
  options.seeds = 0;
  CHECK_THROWS_AS(search(all, options), rubato::option_error);
}
