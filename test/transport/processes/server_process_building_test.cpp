// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A server whose tables take their time to be made.
#include <rubato/transport/processes/server_process.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/net/deployment.hpp>
#include <rubato/net/network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/store_host.hpp>
#include <rubato/storage/table_description.hpp>

#include "net/ends.hpp"
#include "patience.hpp"
#include "transport/processes/server_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::serving_alone;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

/// Takes as long to make as the test wants, and at the end may fail; has no rows.
struct slow_store {
  enum class state { is_made, is_there, fails };
  static inline std::atomic<state> is = state::is_made;

  using value_type = float;
  static constexpr bool bounded = true;
  explicit slow_store(store_shape const&) {
    auto const end = net::network::clock::now() + test::patience / 2;  // of a server that does nothing else meanwhile
    while (is == state::is_made && net::network::clock::now() < end) std::this_thread::sleep_for(1ms);
    if (is == state::fails) throw std::runtime_error("there is no such disk");
  }
  void assign(row_values<float> const&) {}
  void fold(std::span<weighted_update<float> const>) {}
  void read(std::span<std::uint64_t const>, float*) const {}
  void copy(std::uint64_t, std::uint64_t, float*) const {}
  [[nodiscard]] std::size_t bytes() const { return 0; }
};
struct slow_to_make : dense<float, sum> { using store = slow_store; };

}  // namespace

TEST_CASE("server: it is heard of while it makes large tables, and then does what it has been told meanwhile",
          "[tcp]") {
  test::log_capture const log;
  net::asio_network network;
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::server;
  place.rank = 0;
  place.coordinator.path = folder.file("coordinator");
  place.listen = {.host = {}, .path = folder.file("server")};
  place.silence = long_silence;
  slow_to_make large;
  large.rows = 1024;
  large.width = 32 * 1024;
  blueprint const plan(std::vector<rules>{asp{}}, 1, {describe(large)}, {});
  CHECK(plan.bytes_of(server_id{0}) == 128 * 1024 * 1024);
  slow_store::is = slow_store::state::is_made;
  played_coordinator coordinator(network, place.coordinator, false);
  detail::server_process server(std::make_unique<net::asio_network>(), plan, plan.agreement(), place, 1 << 20, 1 << 20);
  auto const until = [&](auto condition) {
    auto const end = net::network::clock::now() + test::patience;
    while (!condition() && server.failure().empty() && net::network::clock::now() < end) {
      server.poll();
      network.run_one(net::network::clock::now() + 1ms);
    }
    return condition();
  };
  REQUIRE(until([&] { return coordinator.is_up(); }));
  coordinator.begin_stage();
  coordinator.join(first_worker);
  CHECK(until([&] { return coordinator.has_arrived(); }));
  CHECK(server.stats().ready == 0);
  CHECK_FALSE(coordinator.has_started(first_worker));
  SECTION("they are made") {
    slow_store::is = slow_store::state::is_there;
    CHECK(until([&] { return coordinator.has_started(first_worker); }));
    CHECK(server.stats().ready == 1);
    coordinator.shut_down();
    network.run_one(net::network::clock::now() + 1ms);
    CHECK_NOTHROW(server.run());
  }
  SECTION("they cannot be made") {
    slow_store::is = slow_store::state::fails;
    CHECK_THROWS_WITH(server.run(), Contains("server 0: there is no such disk"));
  }
  SECTION("the run ends before") {
    coordinator.shut_down();
    REQUIRE(until([&] { return coordinator.has_arrived(); }));
    coordinator.leave();
    slow_store::is = slow_store::state::is_there;
    CHECK_NOTHROW(server.run());
  }
  SECTION("the coordinator is gone before") {
    coordinator.leave();
    CHECK_FALSE(until([&] { return false; }));
    CHECK_THAT(server.failure(), Contains("the coordinator was lost"));
    slow_store::is = slow_store::state::is_there;
  }
}
