// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/serving_process.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/net/deployment.hpp>
#include <rubato/net/proof.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/transport/processes/arriving_control.hpp>
#include <rubato/transport/tcp.hpp>
#include <rubato/wire/messages.hpp>
#include <rubato/worker/worker_core.hpp>

#include "net/ends.hpp"

using namespace rubato;
using Catch::Contains;

TEST_CASE("tcp: as many tables as frames have room for, and no more", "[tcp]") {
  std::size_t const most = detail::tables_max();
  CHECK(most == 2519);
  net::connection_options const limits;
  auto const bytes = [](std::size_t tables) {
    wire::commit_meta said;
    said.parts.resize(tables);
    return wire::to_bytes(said).size();
  };
  CHECK(bytes(most) <= limits.meta_max);
  CHECK(bytes(most + 1) > limits.meta_max);

  test::temporary_folder const folder;
  auto const as = GENERATE(net::role::coordinator, net::role::server, net::role::worker);
  tcp transport;
  transport.place.as = as;
  transport.place.coordinator.path = folder.file("coordinator");
  auto const open = [&](std::size_t tables) {
    run_setup setup{.protocols = {rules(bsp{})},
                    .tables = std::vector<table_description>(tables, describe(dense<float>{.rows = 1})),
                    .make_worker = [](worker_setup const& s) { return std::make_unique<worker_core>(s); }};
    return transport.open(std::move(setup));
  };
  CHECK_THROWS_WITH(open(most + 1), Contains("tables: 2520, expected at most 2519"));
  if (as == net::role::coordinator) CHECK_NOTHROW(open(most));
  // And what all agree on about so many is not more than a coordinator reads.
  blueprint const plan(rules(bsp{}), 1, std::vector<table_description>(most, describe(dense<float>{.rows = 1})));
  CHECK(plan.agreement().size() < detail::arriving_control::of_guest_max / 2);
}
