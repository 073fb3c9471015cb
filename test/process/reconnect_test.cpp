// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Connections that break at random moments: nothing is lost, and nothing counts twice.
#include <catch2/catch.hpp>

#include <string>

#include "process/runs.hpp"

using namespace rubato;

namespace {

constexpr std::size_t threads = 2;  // in each of two processes

void check_exact(test::process_run& run) {
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  std::int64_t heavy = 0;
  std::string row;
  for (std::size_t rank = 0; rank < 2 * threads; ++rank) {
    test::child const& w = run.worker(rank / threads);
    CHECK(w.value("cuts") == "100");
    row += " " + w.value("made " + std::to_string(rank));
    heavy += std::stoll(w.value("heavy " + std::to_string(rank)));
  }
  std::string counts;
  for (int i = 0; i < 8; ++i) counts += row;
  for (std::size_t process = 0; process < 2; ++process) {
    CHECK(" " + run.worker(process).value("counts") == counts);
    CHECK(run.worker(process).value("ballast") == std::to_string(heavy));
  }
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
                         .options = {"--protocol", protocol, "--threads", std::to_string(threads),
                                     "--cuts", "100", "--ballast", "500000"},
                         .program = test::program_of(protocol),
                         .unix_sockets = unix_sockets});
  check_exact(run);
}
