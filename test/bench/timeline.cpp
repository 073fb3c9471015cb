// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/timeline.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/compare/compare.hpp"
#include "bench/compare/subject.hpp"
#include "bench/compare/watch.hpp"
#include "bench/report/timeline_plot.hpp"
#include "bench/result/ranking.hpp"
#include "bench/train/timeline_recorder.hpp"
#include "test/bench/page_checks.hpp"

using namespace rubato;
using namespace rubato::bench;
using Catch::Contains;

namespace {

std::vector<spell> of_worker(timeline const& t, std::uint32_t worker) {
  std::vector<spell> found;
  std::ranges::copy_if(t.spells, std::back_inserter(found), [&](spell const& s) { return s.worker == worker; });
  return found;
}

compare_settings settings(std::string const& more) {
  CLI::App app;
  compare_options options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  options.add_to(app);
  app.parse("--rows 600 --features 60 --nonzeros 10 --workers 5 --servers 2 --clocks 12 --heterogeneity 3 "
            "--clock pass --learning-rate 0.1 --scenario homogeneous --graph ring " + more);
  return interpret(options);
}

/// What one protocol's workers do, of which the last one is three times slower.
timeline watched(std::string const& protocol) {
  compare_settings s = settings("--protocols " + protocol);
  subject const what(s);
  what.put_into(s.job);
  return watch(s.protocols[0], s.job, 0.1);
}

double waited(timeline const& t, std::uint32_t worker, std::uint32_t whom) {
  double sum = 0;
  for (spell const& s : t.spells)
    if (s.worker == worker && s.waits_for == whom) sum += s.to - s.from;
  return sum;
}

}  // namespace

TEST_CASE("a timeline has the spells in order, and says for whom a read had waited") {
  timeline_recorder recorder(2);
  // Both compute for a second or two, commit, and read under a barrier: worker 0 waits for worker 1.
  recorder.worked({.worker = 0, .clock = 1, .seconds = 1.1, .spent = {.compute = 1, .send = 0.1}});
  recorder.begins_clock({.worker = 0, .clock = 1, .seconds = 1.1});
  recorder.worked({.worker = 1, .clock = 1, .seconds = 2.1, .spent = {.compute = 2, .send = 0.1}});
  recorder.begins_clock({.worker = 1, .clock = 1, .seconds = 2.1});
  recorder.has_read({.worker = 0, .clock = 1, .seconds = 2.3, .spent = {.compute = 1, .send = 0.3, .wait = 1}});
  timeline const t = recorder.finish("bsp", 0);
  CHECK(t.workers == 2);
  CHECK(t.seconds() == Approx(2.3));
  CHECK(t.clocks.size() == 2);
  auto const mine = of_worker(t, 0);
  REQUIRE(mine.size() == 4);  // what it sends at the end of the step goes on into the question
  CHECK(mine[0].what == activity::compute);
  CHECK(mine[1].what == activity::send);
  CHECK(mine[1].to == Approx(1.2));
  CHECK(mine[2].what == activity::wait);
  CHECK(mine[2].from == Approx(1.2));
  CHECK(mine[2].to == Approx(2.2));
  CHECK(mine[2].waits_for == 1U);
  CHECK(mine[3].what == activity::send);
  CHECK_FALSE(mine[0].waits_for);
}

TEST_CASE("a joiner begins where it joined, and what a pace waits is for nobody") {
  timeline_recorder recorder(1);
  recorder.begins_clock({.worker = 0, .clock = 3, .seconds = 1});
  recorder.worked({.worker = 2, .clock = 3, .seconds = 7, .spent = {.compute = 1, .wait = 1}});
  timeline const t = recorder.finish("adsp", 0);
  CHECK(t.workers == 3);
  auto const joiner = of_worker(t, 2);
  REQUIRE(joiner.size() == 2);
  CHECK(joiner[0].from == Approx(5));
  CHECK(joiner[1].what == activity::wait);
  CHECK_FALSE(joiner[1].waits_for);
}

TEST_CASE("under a barrier all wait for the slow worker, with staleness less, and without a bound for nobody") {
  timeline const bsp = watched("bsp"), ssp = watched("ssp:3"), asp = watched("asp");
  for (std::uint32_t w = 0; w < 4; ++w) {
    INFO(w);
    CHECK(waited(bsp, w, 4) > waited(ssp, w, 4));
    CHECK(waited(ssp, w, 4) > 0);
    CHECK(waited(bsp, w, w) == 0);
  }
  CHECK(std::ranges::none_of(asp.spells, [](spell const& s) { return s.what == activity::wait; }));
  CHECK(std::ranges::none_of(of_worker(bsp, 4), [](spell const& s) { return s.waits_for.has_value(); }));
  for (timeline const* t : {&bsp, &ssp, &asp})
    for (std::uint32_t w = 0; w < 5; ++w) {
      auto const mine = of_worker(*t, w);
      for (std::size_t i = 1; i < mine.size(); ++i) CHECK(mine[i].from == Approx(mine[i - 1].to).margin(1e-9));
    }
}

TEST_CASE("peers wait for those that send to them") {
  timeline const t = watched("hop --heterogeneity 100");  // on a ring; by far slower than a message takes
  CHECK(waited(t, 0, 4) > 0);
  CHECK(waited(t, 0, 2) == 0);
  CHECK(waited(t, 3, 4) > 0);
}

TEST_CASE("the picture of a timeline has a lane for each worker and says who is waited for") {
  std::string const html = timeline_figure(watched("bsp"));
  CHECK(fault_of_markup(html).empty());
  for (int w = 0; w < 5; ++w) CHECK_THAT(html, Contains("<span>worker " + std::to_string(w) + "</span>"));
  CHECK_THAT(html, Contains("is for worker 4") && Contains("class=\"who\"") && Contains("class=\"wait\""));
  CHECK_THAT(html, Contains("wait: ") && Contains(", for worker 4\""));
  CHECK_THAT(timeline_figure(watched("asp")), Contains("Nobody waits.") && !Contains("class=\"who\""));
}

TEST_CASE("a profile adds up to the run's time, and has each worker's steps") {
  compare_settings s = settings("--protocols bsp,hop");
  subject const what(s);
  what.put_into(s.job);
  for (run_result const& r : compare(s)) {
    INFO(r.label);
    REQUIRE(r.profile.size() == 5);
    time_split sum;
    std::uint64_t steps = 0;
    for (worker_share const& w : r.profile) {
      sum.compute += w.spent.compute;
      sum.send += w.spent.send;
      sum.wait += w.spent.wait;
      steps += w.steps;
    }
    CHECK(sum.compute == Approx(r.compute_seconds));
    CHECK(sum.send == Approx(r.send_seconds));
    CHECK(sum.wait == Approx(r.wait_seconds));
    CHECK(steps == r.steps);
    CHECK(r.profile[4].spent.compute > 2 * r.profile[0].spent.compute);  // the slow one
    text_table const t = profile_table(r);
    CHECK(t.rows.size() == 5);
    CHECK(t.rows[4][0] == "worker 4");
    for (auto const& row : t.rows) CHECK(row.size() == t.head.size());
  }
}

TEST_CASE("a timeline that cannot be is refused") {
  CHECK_THROWS_WITH(settings("--protocols bsp --timeline ssp --report x"), Contains("is not one of --protocols"));
  CHECK_THROWS_WITH(settings("--protocols bsp --timeline bsp"), Contains("--report"));
  CHECK_THROWS_WITH(settings("--protocols bsp --timeline bsp --report x --transport in-process"),
                    Contains("needs --transport simulated"));
  CHECK_THROWS_WITH(settings("--workload lasso --learning-rate tune --protocols bsp --timeline bsp --report x"),
                    Contains("--timeline"));
  CHECK(settings("--protocols bsp,ssp:5 --timeline ssp:5 --report x").timeline->label() == "ssp(5)");
}
