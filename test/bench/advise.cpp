// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Advice for simulated clusters.
#include "bench/advise/check.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/advise/advice.hpp"
#include "bench/advise/random_scenario.hpp"
#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using Catch::Contains;

namespace {

advise_settings advised(std::string const& more) {
  CLI::App app;
  advise_options options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  options.add_to(app);
  app.parse(
      "--rows 400 --features 60 --nonzeros 10 --workers 6 --servers 2 --clocks 40 --points 160 --target 0.5 "
      "--seeds 3 --clock pass " + more);
  return interpret(options);
}

std::vector<std::string> labels(advise_settings const& s) {
  std::vector<std::string> all;
  for (protocol_choice const& p : s.base.protocols) all.push_back(p.label());
  return all;
}

std::string json_of(problem const& p, search_options const& options) {
  return advice_json(search(p.candidates(), options), p.candidates(), options).dump();
}

}  // namespace

TEST_CASE("advice is to wait for all where machines are alike, and not where one is slow; as an exhaustive search's") {
  problem alike(advised("--protocols bsp,ssp:3,asp --scenario homogeneous"));
  comparison_with_all const fast = compare_with_all(alike);
  CHECK(fast.advised == "bsp");
  CHECK(fast.same_choice());
  CHECK(fast.cost < fast.exhaustive_cost / 4);
  problem straggler(advised("--protocols bsp,ssp:3,con_sgd:3 --heterogeneity 5"));
  comparison_with_all const slow = compare_with_all(straggler);
  CHECK(slow.advised == "con_sgd(3)");
  CHECK(slow.agrees());
  CHECK(slow.cost < slow.exhaustive_cost / 4);
}

TEST_CASE("the same seed gives the same advice on any number of cores, another seed another") {
  std::string const two = "--protocols bsp,con_sgd:3,dyn_sgd:3 --seeds 2 ";
  problem const p(advised(two));
  search_options options = p.search_settings();
  options.lanes = 1;
  std::string const first = json_of(p, options);
  options.lanes = 3;
  CHECK(json_of(p, options) == first);
  problem const again(advised(two));
  CHECK(json_of(again, options) == first);
  problem const other(advised(two + "--seed 9"));
  CHECK(json_of(other, other.search_settings()) != first);
}

TEST_CASE("advice is given for applications, too: under what they can run, without rates where there are none") {
  char const* const few = "--workload lda --rows 60 --features 50 --nonzeros 20 --clocks 60 --target auto ";
  advise_settings const s = advised(std::string(few) + "--staleness 1,3 --heterogeneity 4");
  CHECK(labels(s) == std::vector<std::string>{"bsp", "ssp(1)", "ssp(3)", "asp"});
  CHECK(s.rates == std::vector{0.0});
  problem const p(s);
  search_options const options = p.search_settings();
  search_result const found = search(p.candidates(), options);
  REQUIRE_FALSE(found.finalists.empty());
  std::string const text = advice_text(found, p.candidates(), options);
  CHECK_THAT(text, Contains("Take ") && !Contains("rate 0") && !Contains("at an end of those tried"));
  CHECK(labels(advised("--workload lasso --staleness 1")) == std::vector<std::string>{"bsp", "ssp(1)"});
  CHECK(advised("--workload mf").rates.size() > 1);
}

TEST_CASE("random scenarios are drawn for what comes with its features as well") {
  for (char const* const workload : {"kmeans", "mlp", "mf"}) {
    INFO(workload);
    advise_settings s = advised(std::string("--protocols bsp --clocks 2 --workload ") + workload);
    s.base.data.features = s.base.data.nonzeros = std::nullopt;
    draw_scenario(s, 3);
    CHECK(s.base.data.features.has_value() == (workload == std::string("mf")));
    CHECK_FALSE(problem(s).description().empty());
  }
}

TEST_CASE("seeds differ in the order of the data, and the first has that of compare") {
  advise_settings const s = advised("--protocols bsp");
  loaded_data data = load_data(s.base.data, s.base.job.seed);
  std::size_t const rows = data.train.size();
  auto const first_labels = [&](workload const& w) {
    return std::vector<float>(w.train().labels().begin(), w.train().labels().end());
  };
  auto const as_loaded = first_labels(workload(s.base.model, data.train, data.test));
  shuffled_workloads work(s.base.model, std::move(data));
  CHECK(first_labels(*work.at(0)) == as_loaded);
  auto one = first_labels(*work.at(1)), two = first_labels(*work.at(2));
  CHECK(one.size() == rows);
  CHECK(one != as_loaded);
  CHECK(one != two);
  CHECK(first_labels(*work.at(1)) == one);
}

TEST_CASE("a protocol is tried at each staleness unless it is named with one") {
  using list = std::vector<std::string>;
  CHECK(labels(advised("--protocols bsp,ssp,con_sgd:7 --staleness 2,4")) ==
        list{"bsp", "ssp(2)", "ssp(4)", "con_sgd(7)"});
  CHECK(labels(advised("--protocols ssp:7,ssp,ssp:4 --staleness 4")) == list{"ssp(7)", "ssp(4)"});
  CHECK(labels(advised("--protocols ssp --clocks 4")) == list{"ssp(1)", "ssp(2)", "ssp(3)"});
  CHECK(labels(advised("--protocols ssp --clocks 1")) == list{"ssp(1)"});
  CHECK(labels(advised("")).size() == 20);
  auto const all = labels(advised("--protocols all --staleness 1,2"));
  CHECK(std::ranges::count(all, "hop_stale(2)") == 1);
  CHECK(std::ranges::count(all, "dyn_sgd(1)") == 1);
}

TEST_CASE("options of advice that cannot be meant are errors that name them") {
  auto const error = [](std::string const& more) -> std::string {
    try {
      (void)advised(more);
    } catch (option_error const& e) {
      return e.what();
    }
    return "";
  };
  CHECK_THAT(error("--seeds 0"), Contains("--seeds"));
  CHECK_THAT(error("--seeds 1000000000"), Contains("--seeds"));
  CHECK_THAT(error("--check 1000000000"), Contains("--check"));
  CHECK_THAT(error("--staleness -1"), Contains("--staleness"));
  CHECK_THAT(error("--target none"), Contains("--target"));
  CHECK_THAT(error("--protocols nosuch"), Contains("nosuch"));
  CHECK_THROWS_AS(advised("--transport tcp"), CLI::ParseError);
  CHECK_THAT(error("--check 1"), Contains("--workers") && Contains("--check"));
}

TEST_CASE("a check refuses what it draws itself, and protocols whose graph has to fit the number of workers") {
  auto const error = [](auto change) -> std::string {
    advise_options options;
    options.check = 1;
    change(options);
    try {
      (void)interpret(options);
    } catch (option_error const& e) {
      return e.what();
    }
    return "";
  };
  CHECK(error([](advise_options&) {}).empty());
  CHECK_THAT(error([](advise_options& o) { o.base.scenario = "homogeneous"; }), Contains("--scenario"));
  CHECK_THAT(error([](advise_options& o) { o.base.heterogeneity = 2; }), Contains("--heterogeneity"));
  CHECK_THAT(error([](advise_options& o) { o.base.data.rows = 100; }), Contains("--rows"));
  CHECK_THAT(error([](advise_options& o) { o.base.protocols = {"bsp", "ad_psgd"}; }),
             Contains("--protocols") && Contains("ad_psgd"));
}

TEST_CASE("scenarios in which nobody gets to the target speak neither for the advice nor against it") {
  std::vector<comparison_with_all> const all = {{.scenario = "hard"},
                                                {.scenario = "easy", .advised = "a", .best = "a"}};
  CHECK_FALSE(all[0].agrees());
  CHECK_FALSE(all[0].same_choice());
  CHECK_THAT(check_text(all), Contains("Nobody gets there in 1 of 2") && Contains("in 1 of 1 scenarios") &&
                                  Contains("of the best in 1."));
}

TEST_CASE("what has no rate is explained without one") {
  advise_options options;
  options.base.workload = "kmeans";
  options.base.data.rows = 200;
  options.base.workers = 4;
  options.base.clocks = 20;
  options.seeds = 1;
  problem const p(interpret(options));
  search_result const found = search(p.candidates(), p.search_settings());
  REQUIRE(found.finalists.size() > 1);
  CHECK(summaries(found).front().trials.empty());
  CHECK_THAT(advice_text(found, p.candidates(), p.search_settings()), !Contains("nan"));
}

TEST_CASE("advice is checked on scenarios that are valid, differ, and are the same for the same seed") {
  advise_settings base = advised("--protocols bsp,con_sgd:3 --seeds 1 --learning-rate 8 --target auto");
  base.check = 2;
  std::vector<std::string> drawn;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    advise_settings one = base;
    draw_scenario(one, seed);
    one.base.job.scenario.validate(one.base.job.workers, one.base.job.servers);
    drawn.push_back(describe_scenario(one));
  }
  CHECK(drawn[0] != drawn[1]);
  std::string const text = check_text(check_on_random_scenarios(base));
  CHECK_THAT(text, Contains(drawn[0]) && Contains(drawn[1]) && Contains("of 2 scenarios"));
}
