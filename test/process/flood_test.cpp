// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Somebody without the token opens a thousand connections a second and more to all who listen, from several addresses,
// and says nothing on them: whoever belongs to the run still gets in, at the start and after every break.
#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "net/free_port.hpp"
#include "process/checks.hpp"
#include "process/connection_flood.hpp"
#include "process/runs.hpp"

using namespace rubato;

TEST_CASE("a flood of handshakes by somebody without the token keeps nobody of a run out", "[process][security]") {
  constexpr std::size_t threads = 2;
  std::vector<std::uint16_t> const ports{test::free_port(), test::free_port(), test::free_port()};
  auto const at = [&](std::size_t i) { return "127.0.0.1:" + std::to_string(ports[i]); };
  test::connection_flood const flood(ports, std::chrono::microseconds(200));
  test::process_run run({.workers = 2,
                         .servers = 2,
                         .options = {"--protocol", "ssp:2", "--threads", std::to_string(threads), "--cuts", "150"},
                         .settings = {{"RUBATO_TOKEN", "open sesame"},
                                      {"RUBATO_COORDINATOR", at(2)},
                                      {"RUBATO_RECONNECT", "5"}},
                         .own_settings = [&](std::string const& role, std::uint32_t rank) {
                           return role == "server" ? test::variables{{"RUBATO_LISTEN", at(rank)}}
                                                   : test::variables{};
                         }});
  test::check_exact_after_cuts(run, threads, 150);
  CHECK(flood.opened() > 3 * 256);  // than there are places
  CHECK_THAT(run.server(0).errors(), Catch::Contains("handshakes are under way"));
}
