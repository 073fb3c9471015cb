// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/application/application.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "bench/compare/compare.hpp"
#include "bench/compare/subject.hpp"
#include "bench/result/json.hpp"
#include "bench/result/ranking.hpp"
#include "rubato/algorithm/matrix_factorization.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/error.hpp"
#include "rubato/data/ratings.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/transport/in_process.hpp"

using namespace rubato;
using namespace rubato::bench;

namespace {

compare_settings application_settings(std::string const& line) {
  CLI::App app;
  compare_options options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  options.add_to(app);
  app.parse("--workers 4 --servers 2 --points 40 --target none --heterogeneity 2 " + line);
  return interpret(options);
}

std::vector<run_result> run_applications(compare_settings s) {
  subject const what(s);
  what.put_into(s.job);
  return compare(s);
}

char const* const few_ratings = "--workload mf --rows 60 --features 40 --nonzeros 12 --clocks 40 --learning-rate 0.05 ";
char const* const few_documents = "--workload lda --rows 40 --features 60 --nonzeros 30 --topics 4 --clocks 30 ";
char const* const few_rows = "--workload lasso --rows 300 --features 40 --nonzeros 8 --clocks 60 --batch 0.5 ";
char const* const few_digits = "--workload kmeans --rows 1000 --clusters 5 --clocks 20 ";

std::string bad_option(std::string const& line) {
  try {
    (void)application_settings(line);
  } catch (option_error const& e) {
    return e.what();
  }
  return "no error";
}

/// A file that is gone with it.
class application_file {
 public:
  application_file(std::string const& name, std::string const& text)
      : path_(std::filesystem::temp_directory_path() / ("rubato-" + name + std::to_string(getpid()))) {
    std::ofstream(path_) << text;
  }
  application_file(application_file const&) = delete;
  application_file& operator=(application_file const&) = delete;
  ~application_file() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string name() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("applications run under bsp, ssp and asp in each transport, and their books balance") {
  std::string const line = GENERATE(as<std::string>{}, few_ratings, few_documents, few_rows, few_digits);
  std::string const transport = GENERATE(as<std::string>{}, "simulated", "in-process");
  INFO(line << transport);
  compare_settings const s = application_settings(line + "--transport " + transport);
  auto const results = run_applications(s);
  bool const is_lasso = s.app->kind == application_kind::lasso, is_lda = s.app->kind == application_kind::lda;
  REQUIRE(results.size() == (is_lasso ? 2 : 3));  // all
  double const first = make_application(*s.app, s.data)->first_objective();
  for (run_result const& r : results) {
    INFO(r.label);
    CHECK(r.workload == name_of(s.app->kind));
    CHECK(r.updates == static_cast<std::uint64_t>(4 * (s.job.clocks + (is_lda ? 1 : 0))));
    CHECK(r.steps == r.updates);
    CHECK(r.curve.front().loss == first);
    CHECK(r.curve.back().updates == r.updates);
    CHECK(std::ranges::is_sorted(r.curve, std::ranges::less{}, &curve_point::updates));
    CHECK(r.final_loss < 0.98 * first);
    if (transport == "simulated") CHECK(r.curve[r.curve.size() / 2].loss < first);
    double const counted = r.compute_seconds + r.send_seconds + r.wait_seconds;
    CHECK(counted <= 4 * r.seconds * 1.0001);
    if (transport == "simulated" && r.protocol == "bsp") CHECK(counted > 0.95 * 4 * r.seconds);  // all end together
    if (is_lda) CHECK(std::isnan(r.accuracy));
    else CHECK((r.accuracy > 0 && r.accuracy < 1));
  }
  CHECK(comparison_table(results).to_string().find("nan") == std::string::npos);
}

TEST_CASE("an application's runs are the same for the same seed, and JSON keeps what has no accuracy") {
  auto const bytes = [](std::string const& seed) {
    return to_json(run_applications(application_settings(few_documents + ("--seed " + seed)))).dump();
  };
  std::string const first = bytes("5");
  CHECK(first == bytes("5"));
  CHECK(first != bytes("6"));
  CHECK(nlohmann::json::parse(first).at(0).at("accuracy").is_null());
}

TEST_CASE("one worker's factorization is what the algorithm alone comes to") {
  compare_settings const s = application_settings(std::string(few_ratings) + "--protocols bsp --workers 1 --l2 0.1");
  auto const parts =
      data::make_synthetic_ratings(
          {.users = 60, .items = 40, .factors = 8, .per_user = 12, .noise = 0.5, .seed = s.app->seed})
          .split(0.2, s.app->seed);
  algorithm::mf_options const o{
      .rank = 8, .learning_rate = 0.05, .decay = s.job.decay, .l2 = 0.1, .sweeps = 4, .seed = s.app->seed};
  algorithm::mf_model model(parts.train, o);
  cluster c{in_process{}, bsp{}, model.item_table()};
  c.run([&](auto& worker) { algorithm::factorize(worker, parts.train, model, o); });
  model.items = c.parameters();
  run_result const r = run_applications(s)[0];
  CHECK(r.final_loss ==
        Approx(algorithm::mf_objective(parts.train, model, 0.1) / static_cast<double>(parts.train.size())));
}

TEST_CASE("the automatic target of topics is one that a worker alone gets to in half of the clocks") {
  compare_settings s = application_settings(std::string(few_documents) + "--target auto --protocols bsp");
  subject const what(s);
  what.put_into(s.job);
  set_target(s);
  run_result const alone = run_applications(
      application_settings(std::string(few_documents) + "--protocols bsp --workers 1 --servers 1 --clocks 15"))[0];
  double lowest = alone.final_loss;
  for (curve_point const& p : alone.curve) lowest = std::min(lowest, p.loss);
  REQUIRE(s.job.target);
  CHECK(lowest <= *s.job.target);
  CHECK(lowest > *s.job.target - 0.05 * (alone.curve.front().loss - lowest));
}

TEST_CASE("a worker that is lost before its first commit leaves topics to the others, and a curve to us") {
  application_file const crash("crash.json", R"({"crashes": [{"worker": 1, "at": "1us"}]})");
  for (char const* const line : {few_documents, few_ratings}) {
    INFO(line);
    run_result const r = run_applications(application_settings(line + std::string("--protocols asp --scenario ") +
                                                               crash.name()))[0];
    CHECK(r.final_loss < 0.98 * r.curve.front().loss);
    CHECK(r.curve[r.curve.size() / 2].loss < r.curve.front().loss);
  }
}

TEST_CASE("automatic targets are below the start, and rates are tuned where there are any") {
  for (std::string const line : {few_ratings, few_documents}) {
    INFO(line);
    compare_settings s = application_settings(line + "--learning-rate tune --target auto --protocols bsp");
    subject const what(s);
    what.put_into(s.job);
    set_target(s);
    double const first = s.job.app->first_objective();
    REQUIRE(s.job.target);
    CHECK(*s.job.target < 0.99 * first);
    run_result const r = compare(s)[0];
    CHECK(r.trials.empty() == (s.app->kind == application_kind::lda));
    CHECK((r.learning_rate == 0) == (s.app->kind == application_kind::lda));
  }
}

TEST_CASE("steps of whole sweeps are made, and may be committed several at a time") {
  std::string const line = few_ratings;
  run_result const r = run_applications(
      application_settings(line + "--protocols bsp --clocks 7 --steps-per-commit 5 --batch 0.25"))[0];
  CHECK(r.steps == 4 * 36);  // 35, in sweeps of 4
  CHECK(r.updates == 4 * 8);
}

TEST_CASE("an application refuses what it cannot be run with, and names the option") {
  using Catch::Contains;
  CHECK_THAT(bad_option("--workload tsp"), Contains("mf, lda, lasso, kmeans"));
  CHECK_THAT(bad_option("--workload mf --protocols con_sgd"), Contains("con_sgd") && Contains("bsp, ssp and asp"));
  CHECK_THAT(bad_option("--workload lasso --protocols asp"), Contains("--damping"));
  CHECK(bad_option("--workload lasso --protocols asp --damping 0.2") == "no error");
  CHECK_THAT(bad_option("--workload lda --transport tcp"), Contains("--transport"));
  CHECK_THAT(bad_option("--workload lda --learning-rate 1"), Contains("--learning-rate"));
  CHECK_THAT(bad_option("--workload mf --momentum 0.5"), Contains("--momentum"));
  CHECK_THAT(bad_option("--workload mf --codec int8"), Contains("--codec"));
  CHECK_THAT(bad_option("--workload mf --top-k 0.5"), Contains("--top-k"));
  CHECK_THAT(bad_option("--workload mf --global-momentum 0.5"), Contains("--global-momentum"));
  CHECK_THAT(bad_option("--workload kmeans --batch-tune"), Contains("--batch-tune"));
  CHECK_THAT(bad_option("--workload mf --synthetic url"), Contains("--synthetic"));
  CHECK_THAT(bad_option("--workload lda --test FILE"), Contains("--test"));
  CHECK_THAT(bad_option("--workload mf --rank 0"), Contains("--rank"));
  CHECK_THAT(bad_option("--workload lda --topics 0"), Contains("--topics"));
  CHECK_THAT(bad_option("--workload kmeans --clusters 0"), Contains("--clusters"));
  CHECK_THROWS_AS(run_applications(application_settings("--workload kmeans --rows 50 --clusters 500")), option_error);
  CHECK_THROWS_AS(run_applications(application_settings("--workload lasso --rows 50 --lambda -1")), option_error);
}

TEST_CASE("a Lasso with a KKT filter ends where it does without, and computes less") {
  auto const seconds_and_loss = [](std::string const& more) {
    run_result const r = run_applications(
        application_settings(std::string(few_rows) + "--protocols bsp --clocks 200 --batch 1 " + more))[0];
    return std::pair(r.compute_seconds, r.final_loss);
  };
  auto const [all, loss] = seconds_and_loss("");
  auto const [some, filtered_loss] = seconds_and_loss("--kkt-passes 10");
  CHECK(some < 0.9 * all);
  CHECK(filtered_loss == Approx(loss).epsilon(0.001));
  CHECK_THROWS_AS(seconds_and_loss("--kkt-passes -1"), option_error);
}

TEST_CASE("data of an application is read from files, and what is wrong with them is said") {
  application_file const ratings("ratings", "1\t7\t3\t0\n1\t8\t4\t0\n2\t7\t5\t0\n2\t9\t1\t0\n3\t8\t2\t0\n");
  compare_settings s =
      application_settings("--workload mf --protocols bsp --learning-rate 0.1 --clocks 10 --workers 2");
  s.data.file = ratings.name();
  CHECK_THAT(subject(s).description(), Catch::Contains("4 ratings of 3 items by 3 users"));
  CHECK(run_applications(s)[0].updates == 20);
  application_file const words("words", "2\n3\n3\n1 1 2\n1 3 1\n2 2 4\n");
  compare_settings t = application_settings("--workload lda --protocols bsp --clocks 10 --workers 3");
  t.data.file = words.name();
  CHECK_THAT(subject(t).description(), Catch::Contains("2 documents, 3 words, 7 tokens"));
  CHECK(run_applications(t)[0].updates == 33);  // also of the worker that has no document
  s.data.file = words.name();
  CHECK_THROWS_AS(subject(s), data_error);
}
