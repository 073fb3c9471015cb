// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Networks that delay, split and cut: runs stay exact.
#include <catch2/catch.hpp>

#include <cstdint>
#include <sstream>
#include <string>

#include "process/proxies.hpp"
#include "process/runs.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t worker_count = 2;
constexpr std::uint32_t server_count = 2;

/// A run in which every connection goes through a proxy.
class meddled_run {
 public:
  meddled_run(test::words const& options, tools::meddling const& m)
      : plan_{.workers = worker_count, .servers = server_count, .options = options},
        between_(plan_, m),
        run_(plan_) {}

  [[nodiscard]] test::process_run& processes() { return run_; }
  [[nodiscard]] int cuts() const { return between_.cuts(); }

 private:
  test::run_plan plan_;
  test::proxies between_;
  test::process_run run_;
};

void check_exact(meddled_run& meddled, int clocks) {
  auto& run = meddled.processes();
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  for (std::size_t i = 0; i < worker_count; ++i) {
    std::istringstream in(run.worker(i).value("counts"));
    std::int64_t x = 0;
    std::size_t count = 0;
    for (; in >> x; ++count) CHECK(x == clocks);
    CHECK(count == 8 * worker_count);
    CHECK(run.worker(i).value("weights") == run.worker(0).value("weights"));
  }
}

}  // namespace

TEST_CASE("runs are exact where bytes come in pieces of every size", "[process][proxy]") {
  auto const pieces = GENERATE(1u, 3u, 100u);
  meddled_run run({"--clocks", "10", "--weights", "20", "--columns", "2"}, {.pieces = pieces});
  check_exact(run, 10);
}

TEST_CASE("runs are exact over slow networks", "[process][proxy]") {
  auto const* protocol = GENERATE("bsp", "ssp:2");
  meddled_run run({"--protocol", protocol, "--clocks", "30", "--columns", "2"}, {.delay = 3ms});
  check_exact(run, 30);
}

TEST_CASE("runs are exact where connections are cut in the middle of frames", "[process][proxy]") {
  auto const* protocol = GENERATE("bsp", "ssp:2");
  meddled_run run({"--protocol", protocol, "--clocks", "150", "--columns", "2"},
                  {.cut_within = 6000, .cuts_max = 40});
  check_exact(run, 150);
  CHECK(run.cuts() > 60);
}

TEST_CASE("large commits that are cut arrive once", "[process][proxy]") {
  meddled_run run({"--protocol", "ssp:2", "--clocks", "30", "--columns", "2", "--ballast", "500000"},
                  {.cut_within = 6'000'000, .cuts_max = 12});
  check_exact(run, 30);
  CHECK(run.processes().worker(0).value("ballast") == "12");
}
