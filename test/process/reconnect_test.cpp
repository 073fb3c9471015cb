// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Connections that break at random moments: nothing is lost, and nothing counts twice.
#include <catch2/catch.hpp>

#include <sstream>

#include "process/runs.hpp"

using namespace rubato;

namespace {

void check_exact(test::process_run& run, std::size_t workers) {
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  std::int64_t heavy = 0;
  for (std::size_t w = 0; w < workers; ++w) {
    CHECK(run.worker(w).value("cuts") == "100");
    std::string const made = run.worker(w).value("made");
    std::int64_t const steps = std::stoll(made.substr(made.find(' ') + 1));
    heavy += std::stoll(run.worker(w).value("heavy"));
    std::istringstream in(run.worker(0).value("counts"));
    std::int64_t x = 0;
    for (std::size_t i = 0; in >> x; ++i)
      if (i % 4 == w) CHECK(x == steps);
  }
  CHECK(run.worker(0).value("ballast") == std::to_string(heavy));
}

}  // namespace

TEST_CASE("200 random reconnects under load lose nothing and count nothing twice",
          "[process][reconnect]") {
  std::string const protocol = GENERATE("bsp", "ssp:2", "asp", "dyn_sgd_cut:2");
  bool const unix_sockets = protocol == "ssp:2";
  INFO(protocol);
  // Half a million integers are 4 MB.
  test::process_run run({.workers = 2,
                         .servers = 2,
                         .options = {"--protocol", protocol, "--cuts", "100", "--ballast", "500000"},
                         .program = test::program_of(protocol),
                         .unix_sockets = unix_sockets});
  check_exact(run, 2);
}
