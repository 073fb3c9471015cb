// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Connections that break at random moments: nothing is lost, and nothing counts twice.
#include <catch2/catch.hpp>

#include <string>

#include "process/checks.hpp"
#include "process/runs.hpp"

using namespace rubato;

namespace {

constexpr std::size_t threads = 2;  // in each of two processes

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
  test::check_exact_after_cuts(run, threads, 100);
}
