// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/compare.hpp"
#include "bench/compare/subject.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "bench/result/json.hpp"

using namespace rubato;
using namespace rubato::bench;

namespace {

compare_settings small(std::string const& more = "") {
  CLI::App app;
  compare_options options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  options.add_to(app);
  app.parse(
      "--rows 600 --features 60 --nonzeros 10 --workers 6 --servers 2 --clocks 8 --points 48 "
      "--target 0.5 --heterogeneity 2 --clock pass " +
      more);
  return interpret(options);
}

std::vector<run_result> run(compare_settings s) {
  subject const what(s);
  what.put_into(s.job);
  return compare(s);
}

}  // namespace

TEST_CASE("the same seed gives the same bytes, another seed others") {
  auto const bytes = [](char const* seed) {
    return to_json(run(small(std::string("--learning-rate tune --seed ") + seed))).dump();
  };
  std::string const first = bytes("5");
  CHECK(first == bytes("5"));
  CHECK(first != bytes("6"));
}

TEST_CASE("rounds in virtual time have seeds of their own, the first that of a single run") {
  compare_settings s = small("--protocols bsp,asp --learning-rate 0.3 --repeat 3 --seed 5");
  subject const what(s);
  what.put_into(s.job);
  auto const all = compare_rounds(s, what);
  REQUIRE(all.size() == 2);
  auto const once = compare(s);
  for (std::size_t i = 0; i < 2; ++i) {
    auto const& rounds = all[i].rounds;
    REQUIRE(rounds.size() == 3);
    for (std::uint32_t k = 0; k < 3; ++k) {
      CHECK(rounds[k].label == once[i].label);
      CHECK(rounds[k].round == k + 1);
      CHECK(rounds[k].seed == 5 + k);
      CHECK(rounds[k].learning_rate == 0.3);
    }
    CHECK(to_json(rounds[0]) == to_json(once[i]));
    CHECK(rounds[1].seconds != rounds[0].seconds);        // other draws
    CHECK(rounds[1].final_loss != rounds[0].final_loss);  // other shards
  }
  auto const again = compare_rounds(s, what);
  CHECK(to_json(all_rounds(all)) == to_json(all_rounds(again)));
}

TEST_CASE("rounds in wall time have one seed, and one rate that is tuned before") {
  compare_settings s = small("--protocols bsp,asp --transport in-process --repeat 2 --tune-budget 0.1");
  subject const what(s);
  what.put_into(s.job);
  for (repeated const& p : compare_rounds(s, what)) {
    REQUIRE(p.rounds.size() == 2);
    CHECK(p.rounds[0].seed == p.rounds[1].seed);
    CHECK(p.rounds[0].round == 1);
    CHECK(p.rounds[1].round == 2);
    CHECK(p.rounds[0].learning_rate == p.rounds[1].learning_rate);
    CHECK_FALSE(p.rounds[1].trials.empty());
    CHECK(p.rounds[1].updates == 48);
  }
}

TEST_CASE("the books of every protocol with servers balance, in each transport") {
  for (char const* transport : {"simulated", "in-process"}) {
    INFO(transport);
    for (run_result const& r :
         run(small(std::string("--learning-rate 0.05 --transport ") + transport))) {
      if (r.servers == 0) continue;
      INFO(r.label);
      CHECK(r.curve.front().updates == 0);
      if (r.pace_changes.empty()) {
        // Local steps per commit are twice the job's, where there are any.
        std::set<std::string> const in_steps{"fixed_ada_comm", "fed_adam", "slow_mo", "diloco",
                                             "async_diloco",   "easgd",    "fed_avg", "fed_buff"};
        // Four fragments are four commits. At its end a worker takes back what lag sent.
        std::map<std::string, std::uint64_t> const others{{"streaming_diloco", 96}, {"lag", 54}};
        auto const other = others.find(r.protocol);
        CHECK(r.updates == (other != others.end() ? other->second : in_steps.contains(r.protocol) ? 24 : 48));
        CHECK(r.curve.back().updates == r.updates);
        CHECK(r.steps == 480);
      } else {  // it ends for all workers at once
        CHECK(r.curve.back().updates <= r.updates);
        CHECK(r.steps >= 480);
      }
      CHECK(std::ranges::is_sorted(r.curve, std::ranges::less{}, &curve_point::updates));
      CHECK(std::ranges::is_sorted(r.curve, std::ranges::less{}, &curve_point::seconds));
      CHECK(r.compute_seconds + r.send_seconds + r.wait_seconds <= 6 * r.seconds * 1.0001);
      CHECK(r.final_loss < r.curve.front().loss);
      CHECK(r.accuracy > 0.5);
      CHECK(r.bytes_sent > 0);
    }
  }
}

TEST_CASE("DynSGD keeps versions, with and without partition synchronization") {
  std::vector<double> losses;
  for (char const* more :
       {"", "--partition-sync", "--versions capped", "--partition-sync --transport in-process"}) {
    INFO(more);
    std::string const given = "--protocols con_sgd,dyn_sgd:2 --learning-rate 0.5 --clocks 16 ";
    auto const results = run(small(given + more));
    run_result const& r = results[1];
    CHECK(results[0].storage == "dense");
    CHECK(results[0].versions_peak == 0);
    CHECK(r.storage == "multi_version");
    CHECK(r.versions_peak >= 1);
    CHECK(r.versions_peak <= 2 * (2 + 1) * 5);  // (M - 1)(2s + 2)
    CHECK(r.updates == 6 * 16);
    CHECK(r.final_loss < 0.6);
    losses.push_back(r.final_loss);
  }
  CHECK(losses[0] != losses[1]);  // the cut is another one
}

TEST_CASE("what a worker reads after each clock is there when it is asked for") {
  compare_settings s = small("--protocols dyn_sgd --learning-rate 0.5");
  CHECK(run(s)[0].read_losses.empty());
  s.job.watch_reads = true;
  run_result const r = run(s)[0];
  CHECK(r.read_losses.size() == 7);  // of 8 clocks: nothing is read after the last
  CHECK(r.read_losses.back() < r.curve.front().loss);
}

TEST_CASE("ConSGD's global rate can be set, and other protocols take no notice") {
  compare_settings s = small("--protocols con_sgd,ssp --learning-rate 0.1");
  auto const before = run(s);
  for (protocol_choice& p : s.protocols) p.with.global_rate = 1e-6;
  auto const after = run(s);
  CHECK(after[0].final_loss > before[0].final_loss);
  CHECK(after[0].final_loss == Approx(after[0].curve.front().loss).epsilon(1e-3));
  CHECK(after[1].final_loss == before[1].final_loss);
}

TEST_CASE("named merges are what the protocols that have them are") {
  auto const results = run(small(
      "--protocols con_sgd:2,ssp+average:2,con_sgd+1:2,ssp:2,asp+sum,asp,bsp+average,bsp,bsp+sum "
      "--learning-rate 0.05"));
  auto const loss = [&](std::size_t i) { return results[i].final_loss; };
  CHECK(loss(0) == loss(1));
  CHECK(loss(2) == loss(3));
  CHECK(loss(4) == loss(5));
  CHECK(loss(6) == loss(7));
  CHECK(loss(7) != loss(8));
  CHECK(loss(0) != loss(3));
}

TEST_CASE("rates decay by passes, whatever a clock is") {
  auto const loss = [](char const* more) {
    return run(small(std::string("--servers 1 --target none --learning-rate 2 --decay 5 ") +
                     more))[0].final_loss;
  };
  double const by_pass = loss("--workers 1 --protocols asp --clock pass --clocks 8");
  CHECK(loss("--workers 1 --protocols asp --clock batch --clocks 80") == Approx(by_pass).epsilon(1e-5));
  CHECK(std::abs(loss("--workers 1 --protocols asp --clock batch --clocks 80 --decay 0") / by_pass - 1) > 1e-3);
  double const peers = loss("--workers 2 --protocols all_reduce --clock pass --clocks 8");
  CHECK(loss("--workers 2 --protocols all_reduce --clock batch --clocks 80") == Approx(peers).epsilon(1e-5));
}

TEST_CASE("shards by label are trained on, and hold up who does not wait") {
  auto const final_loss = [](char const* more) {
    return run(small(std::string("--rows 2000 --protocols con_sgd --learning-rate 0.5 --target none --clocks 20 "
                                 "--heterogeneity 4 ") + more))[0].final_loss;
  };
  CHECK(final_loss("--shards by-label:1") > final_loss("--shards shuffled"));
}

TEST_CASE("BSP's loss falls once in a clock, and at its end") {
  run_result const r = run(small("--protocols bsp --learning-rate 0.5"))[0];
  double last = r.curve.front().loss;
  for (curve_point const& p : r.curve) {
    if (p.updates % 6 != 0) CHECK(p.loss == last);
    last = p.loss;
  }
}

TEST_CASE("a target that the last commits come to is reached as the run ends") {
  std::string const asked = "--protocols bsp,asp --learning-rate 0.5 --clocks 5";
  for (run_result const& r : run(small(asked))) {
    std::string const last = fmt::format(" --target {:.17g}", r.final_loss);
    run_result const again = run(small("--protocols " + r.protocol + " --learning-rate 0.5 --clocks 5" + last))[0];
    REQUIRE(again.seconds_to_target);
    CHECK(*again.seconds_to_target == again.seconds);
    CHECK(std::ranges::is_sorted(r.curve, {}, &curve_point::seconds));
    CHECK(r.curve.back().seconds == r.seconds);
  }
}

TEST_CASE("a run that may stop at its target does") {
  run_result const r =
      run(small("--protocols con_sgd --learning-rate 1 --clocks 50 --stop-at-target"))[0];
  REQUIRE(r.seconds_to_target);
  CHECK(r.updates < 6 * 50);
  CHECK(r.curve.back().loss <= 0.5);
}

TEST_CASE("the automatic target is close to what serial SGD finds") {
  compare_settings s = small("--target auto");
  subject const what(s);
  what.put_into(s.job);
  set_target(s);
  REQUIRE(s.job.target);
  CHECK(*s.job.target < s.job.work->objective(s.job.work->initial()));
}

TEST_CASE("networks and regressions are trained as linear classifiers are") {
  char const* const lines[] = {
      "--workload mlp --hidden 8 --rows 500 --workers 5 --protocols bsp,con_sgd,dyn_sgd "
      "--learning-rate 0.5 --clocks 20 --scenario ec2-edge",
      "--workload svr --rows 500 --workers 5 --protocols bsp,con_sgd,dyn_sgd "
      "--learning-rate 0.1 --clocks 20 --scenario phones"};
  for (char const* const line : lines) {
    INFO(line);
    CLI::App app;
    compare_options options;
    options.add_to(app);
    app.parse(line + std::string(" --servers 2 --target none --clock pass"));
    compare_settings s = interpret(options);
    subject const what(s);
    what.put_into(s.job);
    for (run_result const& r : compare(s)) {
      INFO(r.label);
      CHECK(r.curve.front().loss == s.job.work->objective(s.job.work->initial()));
      CHECK(r.final_loss < 0.75 * r.curve.front().loss);
    }
  }
}

TEST_CASE("phones that come and go do not stop a run") {
  CLI::App app;
  compare_options options;
  options.add_to(app);
  app.parse(
      "--workload mlp --hidden 8 --rows 1000 --workers 6 --servers 2 --target none --clocks 80 "
      "--protocols bsp,con_sgd --learning-rate 0.2 --clock pass --scenario phones-come-and-go");
  for (run_result const& r : run(interpret(options))) {
    INFO(r.label);
    CHECK(r.seconds > 4);  // both have left and been replaced by then
    CHECK(r.final_loss < 0.8 * r.curve.front().loss);
  }
}
