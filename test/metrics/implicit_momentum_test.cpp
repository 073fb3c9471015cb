// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/metrics/implicit_momentum.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <limits>
#include <span>
#include <vector>

#include <rubato/metrics/run_report.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

double of_steps(std::vector<double> const& local_steps) { return implicit_momentum(local_steps); }
double of_rates(std::vector<worker_rate> const& workers, duration period) {
  return implicit_momentum(workers, period);
}

}  // namespace

TEST_CASE("implicit_momentum: Eq. 3 by hand (003 Theorem 1)") {
  // p = 1/(1 + (1 - 1/2)*(10 + 30)) = 1/21.
  CHECK(of_steps({10, 30}) == Approx(20.0 / 21.0));
  // p = 1/(1 + (1 - 1/4)*(1 + 1 + 1 + 1)) = 1/4: without local steps only the others' commits.
  CHECK(of_steps({1, 1, 1, 1}) == Approx(0.75));
  CHECK(of_steps({0, 0, 0}) == 0);
}

TEST_CASE("implicit_momentum: a single worker has none, and nobody neither") {
  CHECK(of_steps({1000}) == 0);
  CHECK(of_steps({}) == 0);
  CHECK(of_rates({{.steps_per_second = 50, .commits_per_period = 1}}, 60s) == 0);
  CHECK(of_rates({}, 60s) == 0);
}

TEST_CASE("implicit_momentum: from speeds and rates it is the same, in steps per second "
          "(rules §5, erratum)") {
  // 60 s at 2 and 0.5 steps/s are 120 and 30 steps, in three commits and one.
  CHECK(of_rates({{2, 3}, {0.5, 1}}, 60s) == Approx(of_steps({40, 30})));
  CHECK(of_rates({{2, 3}, {0.5, 1}}, 60s) == Approx(35.0 / 36.0));
  CHECK(of_rates({{1, 1}, {1, 1}, {1.0 / 3, 1}}, 500ms) ==
        Approx(of_steps({0.5, 0.5, 1.0 / 6})));
}

TEST_CASE("implicit_momentum: it falls as the commit rate rises, and rises with speed (003 §4.1)") {
  double before = 1;
  for (double rate : {1.0, 2.0, 3.0, 10.0, 1000.0}) {
    double const now = of_rates({{3, rate}, {1, rate}, {1, rate}}, 60s);
    CHECK(now < before);
    CHECK(now > 0);
    before = now;
  }
  CHECK(of_rates({{2, 1}, {2, 1}}, 60s) > of_rates({{1, 1}, {1, 1}}, 60s));
  CHECK(of_rates({{1, 1}, {1, 1}}, 60s) > of_rates({{1, 1}, {1, 1}}, 30s));
  CHECK(of_steps({5, 5, 5}) > of_steps({5, 5}));
}

TEST_CASE("implicit_momentum: it stays below 1, and a number") {
  CHECK(of_steps({1e300, 1e300}) <= 1);
  CHECK(of_steps({1e6, 1e6}) < 1);
  CHECK(of_rates({{1e9, 1}, {1e9, 1}}, 1h) < 1);
}

TEST_CASE("implicit_momentum: a run's report has that of its workers' steps per commit") {
  run_report r;
  CHECK(r.implicit_momentum() == 0);
  worker_metrics fast;
  fast.steps = 300;
  fast.commits = 10;
  worker_metrics slow;
  slow.steps = 100;
  slow.commits = 10;
  r.workers = {fast, slow};
  CHECK(r.implicit_momentum() == Approx(20.0 / 21.0));
  worker_metrics idle;  // it never committed: nobody has seen an update of its
  idle.steps = 5;
  r.workers.push_back(idle);
  CHECK(r.implicit_momentum() == Approx(20.0 / 21.0));
}
