// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/coordinator_link.hpp>

#include <catch2/catch.hpp>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <rubato/core/error.hpp>
#include <rubato/net/address.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/deployment.hpp>
#include <rubato/net/link.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/testing/world.hpp>
#include <rubato/transport/processes/listening.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "transport/processes/serving.hpp"

using namespace rubato;

TEST_CASE("who cannot listen beside the coordinator's socket does so on loopback, unless it was told where", "[tcp]") {
  test::log_capture const log;
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::server;
  place.coordinator = {.host = {}, .port = 0, .path = folder.file("coordinator")};
  net::asio_network network;
  auto const listen = [&] {
    return detail::listen_as(place, network, detail::listener_limits(place), [](auto) {})->bound();
  };
  std::string const beside = place.coordinator.path + ".server-";
  CHECK(listen().path.starts_with(beside));
  CHECK(listen().path != listen().path);
  place.coordinator.path = folder.file("missing") + "/coordinator";
  net::address const fallen_back = listen();
  CHECK(fallen_back.host == "127.0.0.1");
  CHECK(fallen_back.port != 0);
  place.listen = {.host = {}, .port = 0, .path = folder.file("missing") + "/server"};
  CHECK_THROWS_AS(listen(), error);
}

TEST_CASE("a listener lets all processes of a run in at once, and never fewer than usual") {
  net::listener_options const usual;
  net::deployment place;
  place.workers = 2700;
  place.servers = 300;
  auto const large = detail::listener_limits(place);
  CHECK(large.handshakes_max == 6000);
  CHECK(large.connections_max == 6000);
  CHECK(detail::guests_limit(place) == large.handshakes_max);

  place.workers = place.servers = 1;
  auto const small = detail::listener_limits(place);
  CHECK(small.handshakes_max == usual.handshakes_max);
  CHECK(small.connections_max == usual.connections_max);
}

TEST_CASE("tcp: a server is reached where it listens, by the machine's name, or where it says") {
  net::deployment place;
  place.coordinator = {.host = "127.0.0.1", .port = 1};
  net::address const loopback{.host = "127.0.0.1", .port = 81};
  CHECK(detail::announced(place, net::asio_network(), loopback) == loopback);
  std::array<char, 256> name{};
  REQUIRE(::gethostname(name.data(), name.size() - 1) == 0);
  CHECK(detail::announced(place, net::asio_network(), {.host = "0.0.0.0", .port = 81}) ==
        net::address{.host = name.data(), .port = 81});
  CHECK(detail::announced(place, net::asio_network(), {.host = "::", .port = 81}).host == name.data());
  place.announce = net::address{.host = "far", .port = 7};
  CHECK(detail::announced(place, net::asio_network(), loopback) == *place.announce);
}

TEST_CASE("tcp: a coordinator that is known by a name listens on all networks, if it may") {
  auto const at = [](char const* where, bool beyond) {
    net::deployment place;
    place.coordinator = net::address::parse(where);
    place.keys.beyond_loopback = beyond;
    return detail::listening_as_coordinator(place).text();
  };
  CHECK(at("node7:81", true) == "0.0.0.0:81");
  CHECK(at("node7:81", false) == "node7:81");
  CHECK(at("10.0.0.1:81", true) == "10.0.0.1:81");
  CHECK(at("[2001:db8::1]:81", true) == "[2001:db8::1]:81");
  CHECK(at("localhost:81", true) == "localhost:81");
  CHECK(at("unix:/tmp/somewhere", true) == "unix:/tmp/somewhere");
}

TEST_CASE("tcp: who listens on all addresses is reached by the one that leads to the coordinator") {
  namespace ip = boost::asio::ip;
  net::deployment place;
  place.coordinator = {.host = "192.0.2.99", .port = 9};  // of a network for documentation
  auto const at = detail::announced(place, net::asio_network(), {.host = "0.0.0.0", .port = 81});
  CHECK(at.port == 81);
  boost::asio::io_context io;
  boost::system::error_code no_number;
  auto const own = ip::make_address(at.host, no_number);
  if (no_number) {
    WARN("not tested: this machine knows no way to others");
    return;
  }
  CHECK_FALSE(own.is_loopback());
  CHECK_NOTHROW(ip::tcp::acceptor(io, {own, 0}));  // an address of this machine
}

namespace {

/// A coordinator by hand: takes what a process says, one connection after the other.
class coordinator_by_hand final : public net::frame_receiver {
 public:
  explicit coordinator_by_hand(net::network& in)
      : door_(in, {}, [this](auto fresh, auto const& said) { visited(std::move(fresh), said); }),
        listener_(in.listen({.host = "127.0.0.1"}, {},
                            detail::between(net::role::coordinator, {}, net::listener_options()),
                            [this](auto fresh) { door_.receive(std::move(fresh)); })) {
    door_.open();
  }
  [[nodiscard]] net::address bound() const { return listener_->bound(); }

  std::vector<net::hello> hellos;
  std::uint32_t registrations = 0;
  bool says_come_again = true;  ///< to who registers first
  std::string name = {};        ///< of the server that it tells of

 private:
  void visited(std::unique_ptr<net::connection> fresh, net::hello const& said) {
    hellos.push_back(said);
    connection_ = std::move(fresh);
    connection_->attach(*this);
    if (said.received != 0) return net::refuse(*connection_, "who are you?");  // the next run's, which has sent nothing
    wire::frame_header welcome;
    welcome.kind = 2;
    connection_->send(welcome, {});
    connection_->flush();
  }
  void begin(wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    body_.resize(header.length);
    body.emplace_back(body_);
  }
  void end(wire::frame_header const& header) override {
    if (header.kind != +wire::kind::control) return;
    ++registrations;
    wire::frame_header h;
    h.kind = +wire::kind::control;
    h.sequence = 1;
    bool const is_first = says_come_again && registrations == 1;
    connection_->send(h, {}, is_first ? wire::encode(wire::come_again{}) : wire::encode(seventh()));
    connection_->flush();
    if (is_first) connection_.reset();  // without a goodbye
  }
  void closed(std::string const&) override {}
  [[nodiscard]] wire::welcome seventh() const {
    wire::welcome w;
    w.process = 7;
    w.servers = {name};
    return w;
  }

  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
  std::unique_ptr<net::connection> connection_;
  std::vector<std::byte> body_;
};

struct told_by_coordinator final : detail::coordinator_user {
  void welcomed(wire::welcome const& w) override {
    number = w.process;
    server = w.servers.front();
  }
  void told(wire::control_message const&) override {}
  void coordinator_lost(std::string const& reason, bool) override { ends.push_back("lost: " + reason); }
  void coordinator_absent(std::string const& sentence) override { ends.push_back("absent: " + sentence); }
  void coordinator_refused(std::string const& reason) override { ends.push_back("refused: " + reason); }
  std::optional<std::uint32_t> number;
  std::string server;
  std::vector<std::string> ends;
};

}  // namespace

TEST_CASE("who is told to come again does so also where the connection breaks before the goodbye", "[tcp]") {
  test::silence_in_log const quiet;
  testing::world w(1);
  auto const there = w.outside();
  auto const here = w.outside();
  coordinator_by_hand coordinator(*there);
  told_by_coordinator told;
  net::deployment place;
  place.coordinator = coordinator.bound();
  wire::registration self;
  self.as = net::role::worker;
  detail::coordinator_link link(*here, told, place, self);
  auto const end = here->now() + std::chrono::seconds(5);
  while (!told.number && told.ends.empty() && here->now() < end) {
    here->run_one(here->now() + std::chrono::milliseconds(1));
    there->poll();
  }
  CHECK(told.ends == std::vector<std::string>{});
  CHECK(told.number == 7u);
  REQUIRE(coordinator.hellos.size() == 3);
  CHECK(coordinator.hellos[1].session == coordinator.hellos[0].session);
  CHECK(coordinator.hellos[2].session != coordinator.hellos[0].session);
  CHECK(coordinator.hellos[2].received == 0);
  link.close();
}

TEST_CASE("what the coordinator says may be long, as the report of a run of many workers is", "[tcp]") {
  testing::world w(1);
  auto const there = w.outside();
  auto const here = w.outside();
  coordinator_by_hand coordinator(*there);
  coordinator.says_come_again = false;
  coordinator.name = std::string(detail::arriving_control::of_member_max, 's');
  told_by_coordinator told;
  net::deployment place;
  place.coordinator = coordinator.bound();
  wire::registration self;
  self.as = net::role::worker;
  detail::coordinator_link link(*here, told, place, self);
  auto const end = here->now() + std::chrono::seconds(5);
  while (!told.number && told.ends.empty() && here->now() < end) {
    here->run_one(here->now() + std::chrono::milliseconds(1));
    there->poll();
  }
  CHECK(told.ends == std::vector<std::string>{});
  CHECK(told.number == 7u);
  CHECK(told.server == coordinator.name);
  link.close();
}

TEST_CASE("who would say more of itself than a coordinator reads says so before", "[tcp]") {
  testing::world w(1);
  auto const here = w.outside();
  told_by_coordinator told;
  net::deployment place;
  place.coordinator = {.host = "127.0.0.1", .port = 1};
  wire::registration self;
  self.agreed = std::string(detail::arriving_control::of_guest_max, 'a');
  CHECK_THROWS_AS(detail::coordinator_link(*here, told, place, self), option_error);
}
