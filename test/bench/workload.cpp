// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/workload.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

#include "bench/train/load_data.hpp"
#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using Catch::Contains;

namespace {

loaded_data load(label_use labels, std::size_t rows = 400) {
  return load_data({.labels = labels, .rows = rows}, 1);
}

workload make(workload_options const& options, std::size_t rows = 400) {
  loaded_data const data = load(labels_of(options.model), rows);
  return {options, data.train, data.test};
}

}  // namespace

TEST_CASE("linear workloads start from zeros, one for each feature") {
  for (auto const kind : {model_kind::lr, model_kind::svm, model_kind::svr}) {
    workload const work = make({.model = kind});
    CHECK(work.parameters() == work.features());
    CHECK(work.initial().size() == work.parameters());
    CHECK(std::ranges::count(work.initial(), 0.0F) == std::ssize(work.initial()));
  }
}

TEST_CASE("a network has more parameters than features, and starts at random ones") {
  workload const work = make({.model = model_kind::mlp, .hidden = {8}, .seed = 3});
  CHECK(work.name() == "mlp");
  CHECK(work.features() == 144);
  CHECK(work.parameters() == 144 * 8 + 8 + 8 * 10 + 10);
  CHECK(work.initial().size() == work.parameters());
  auto const same = make({.model = model_kind::mlp, .hidden = {8}, .seed = 3});
  CHECK(std::ranges::equal(work.initial(), same.initial()));
  auto const other = make({.model = model_kind::mlp, .hidden = {8}, .seed = 4});
  CHECK_FALSE(std::ranges::equal(work.initial(), other.initial()));
}

TEST_CASE("every model's step leads down") {
  for (auto const kind : {model_kind::lr, model_kind::svm, model_kind::mlp, model_kind::svr}) {
    workload const work = make({.model = kind, .l2 = 1e-4});
    INFO(work.name());
    std::vector<float> w(work.initial().begin(), work.initial().end()), delta(w.size());
    double const start = work.objective(w);
    for (int i = 0; i < 20; ++i) {
      work.local_step(work.train(), 0.1, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
    CHECK(work.objective(w) < start);
    CHECK(work.accuracy(w) >= work.accuracy(work.initial()));
  }
}

TEST_CASE("the objective may be that of a few rows, always the same") {
  workload const all = make({.model = model_kind::mlp});
  workload const few = make({.model = model_kind::mlp, .evaluated_rows = 50});
  workload const again = make({.model = model_kind::mlp, .evaluated_rows = 50});
  workload const more = make({.model = model_kind::mlp, .evaluated_rows = 5000});
  double const full = all.objective(all.initial());
  double const part = few.objective(few.initial());
  CHECK(part != full);
  CHECK(part == Approx(full).epsilon(0.3));
  CHECK(again.objective(again.initial()) == part);
  CHECK(more.objective(more.initial()) == full);
  CHECK(few.train().size() == 320);  // what is trained on does not change
}

TEST_CASE("data and model must fit each other") {
  loaded_data const digits = load(label_use::classes);
  loaded_data const signs = load(label_use::signs);
  loaded_data const numbers = load(label_use::numbers);
  auto const use = [](model_kind kind, loaded_data const& data) {
    return workload(kind, 0, data.train, data.test);
  };
  for (auto const kind : {model_kind::lr, model_kind::svm}) {
    CHECK_THROWS_WITH(use(kind, digits), Contains("--workload") && Contains("-1 and +1 only") &&
                                             Contains("mlp takes several classes"));
    CHECK_THROWS_AS(use(kind, numbers), option_error);
  }
  CHECK_THROWS_WITH(use(model_kind::mlp, signs),
                    Contains("--workload mlp") && Contains("label -1") && Contains("0, 1, 2"));
  CHECK_THROWS_AS(use(model_kind::mlp, numbers), option_error);
  CHECK_NOTHROW(use(model_kind::svr, digits));
  CHECK_NOTHROW(use(model_kind::svr, signs));
}
