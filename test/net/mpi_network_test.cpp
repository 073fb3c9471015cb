// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Run by mpirun, as two ranks: each with itself, and with the other one.
#include <rubato/net/mpi_network.hpp>
//
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/core/element.hpp>
#include <rubato/core/error.hpp>
#include <rubato/testing/check_network.hpp>

#include "net/ends.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

/// Of all ranks' test cases the first one's count.
[[maybe_unused]] bool const one_tally = [] {
  char const* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank != nullptr && std::string(rank) != "0") ::unsetenv("RUBATO_TEST_TALLY");
  return true;
}();

net::address own_address() { return net::mpi_network::address_of(net::this_mpi_rank().number); }

/// Two ends of this rank.
struct pair_of_mpi_ends : pair_of_ends_over<net::mpi_network> {
  pair_of_mpi_ends() = default;
  void open() { pair_of_ends_over::open(own_address().text()); }
};

/// A body in pieces of one array, several of which it gives at a time.
class body_of_pieces final : public net::body_source {
 public:
  body_of_pieces(std::shared_ptr<bytes const> all, std::size_t piece) : all_(std::move(all)), piece_(piece) {}
  std::span<std::byte const> next() override { return next_beside(); }
  std::span<std::byte const> next_beside() override {
    auto const rest = std::span(*all_).subspan(at_);
    auto const one = rest.first(std::min(rest.size(), piece_));
    at_ += one.size();
    return one;
  }

 private:
  std::shared_ptr<bytes const> all_;
  std::size_t piece_;
  std::size_t at_ = 0;
};

void send_pieces(net::connection& over, std::shared_ptr<bytes const> const& body, std::size_t piece) {
  over.send({.kind = 1}, {}, body->size(), std::make_unique<body_of_pieces>(body, piece));
  over.flush();
}

constexpr std::size_t megabyte = 1024 * 1024;

}  // namespace

TEST_CASE("mpi_network does what a network is to do", "[mpi]") {
  auto const wrong = testing::check_network([] { return std::make_unique<net::mpi_network>(); }, {.at = own_address()});
  CHECK(wrong == testing::sentences{});
}

TEST_CASE("mpi_network: ranks prove nothing, so keys that ask for proofs are refused", "[mpi]") {
  net::mpi_network network;
  auto const check = [&](net::security const& keys, char const* what) {
    CHECK_THROWS_WITH(network.listen(own_address(), keys, {}, [](auto) {}), Contains(what) && Contains("expected no"));
    CHECK_THROWS_AS(network.dial(own_address(), keys, {}, [](auto, auto&, bool) {}), option_error);
  };
  check({.token = "secret"}, "RUBATO_TOKEN");
  check({.tls = net::tls_files{"a", "b", "c"}}, "RUBATO_TLS");
}

TEST_CASE("mpi_network: an address is a rank of this job", "[mpi]") {
  net::mpi_network network;
  auto const [rank, count] = net::this_mpi_rank();
  CHECK(own_address().text() == "rank-" + std::to_string(rank) + ":0");
  std::string const beyond = "rank-" + std::to_string(count) + ":1";
  for (std::string const& bad : {std::string("127.0.0.1:1"), std::string("unix:/rank-0"), std::string("rank-:1"),
                                 std::string("rank--1:1"), std::string("rank-0x:1"), beyond}) {
    CHECK_THROWS_WITH(network.dial(net::address::parse(bad), {}, {}, [](auto, auto&, bool) {}),
                      Contains(bad) && Contains("from 0 to " + std::to_string(count - 1)));
    CHECK_THROWS_AS(network.listen(net::address::parse(bad), {}, {}, [](auto) {}), option_error);
  }
  auto const other = net::mpi_network::address_of((rank + 1) % count);
  CHECK_THROWS_WITH(network.listen(other, {}, {}, [](auto) {}),
                    Contains("its own address, such as " + own_address().text()));
  auto const taken = network.listen(net::mpi_network::address_of(rank, 9), {}, {}, [](auto) {});
  CHECK(taken->bound().text() == "rank-" + std::to_string(rank) + ":9");
  CHECK_THROWS_WITH(network.listen(taken->bound(), {}, {}, [](auto) {}), Contains("is listened at already"));
  CHECK(network.reached(taken->bound(), other) == taken->bound());
}

TEST_CASE("mpi_network: large bodies arrive whole, however they are cut at either end", "[mpi]") {
  pair_of_mpi_ends ends;
  ends.open();
  std::size_t const piece = GENERATE(as<std::size_t>{}, 3'000, 65'536, 5 * megabyte);
  ends.at_server.parts = GENERATE(as<std::size_t>{}, 1, 3);
  if (ends.at_server.parts == 3) ends.at_server.windows = {100'000, 1'000'000, 40'960};
  auto const body = std::make_shared<bytes const>(pattern(5 * megabyte + 1));
  ends.client->send({.kind = 1}, as_bytes("before"), pattern(10));
  send_pieces(*ends.client, body, piece);
  ends.client->send({.kind = 1}, as_bytes("after"), pattern(11));
  ends.client->flush();
  CHECK(ends.client->unsent() > 0);
  REQUIRE(ends.until([&] { return ends.at_server.ended == 3; }));
  CHECK(ends.at_server.frames[1].body == *body);
  CHECK(as_text(ends.at_server.frames[2].meta) == "after");
  CHECK(ends.at_server.frames[2].body == pattern(11));
  CHECK(ends.until([&] { return ends.client->unsent() == 0; }));
}

TEST_CASE("mpi_network: frames of all sizes come in the order in which they were sent", "[mpi]") {
  pair_of_mpi_ends ends;
  ends.open();
  std::vector<std::size_t> const sizes{0, 1, 16'000, 16 * 1024, 16 * 1024 + 1, 3, 70'000, 2, 2 * megabyte, 9'000, 0};
  for (std::size_t n : sizes) {
    ends.client->send({.kind = 1}, {}, pattern(n));
    ends.client->flush();
  }
  REQUIRE(ends.until([&] { return ends.at_server.ended == sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(ends.at_server.frames[i].body == pattern(sizes[i]));
  // The same when they are all there before somebody looks.
  for (std::size_t n : sizes) ends.server().send({.kind = 1}, {}, pattern(n));
  ends.server().flush();
  REQUIRE(ends.until([&] { return ends.at_client.ended == sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(ends.at_client.frames[i].body == pattern(sizes[i]));
}

TEST_CASE("mpi_network: who waits for room is told", "[mpi]") {
  pair_of_mpi_ends ends;
  ends.open();
  send_pieces(*ends.client, std::make_shared<bytes const>(pattern(megabyte)), 100'000);
  ends.client->send({.kind = 1}, {}, pattern(megabyte));
  CHECK(ends.at_client.writable_calls == 0);
  REQUIRE(ends.until([&] { return ends.at_server.ended == 2 && ends.at_client.writable_calls == 1; }));
  CHECK(ends.client->unsent() == 0);
}

TEST_CASE("mpi_network: either end may go while large bodies are on their way, both ways", "[mpi]") {
  int const who = GENERATE(0, 1, 2);
  std::weak_ptr<bytes const> body;
  {
    pair_of_mpi_ends ends;
    ends.open();
    auto const all = std::make_shared<bytes const>(pattern(4 * megabyte));
    body = all;
    ends.at_server.windows = ends.at_client.windows = {300'000};
    bool under_way = false;
    ends.at_server.on_begin = [&] { under_way = true; };
    send_pieces(*ends.client, all, megabyte);
    send_pieces(ends.server(), all, 65'536);
    REQUIRE(ends.until([&] { return under_way; }));
    if (who != 0) ends.client.reset();
    if (who != 1) ends.accepted.clear();
    if (who == 1) CHECK(ends.until([&] { return ends.at_server.is_closed(); }));
    if (who == 0) CHECK(ends.until([&] { return ends.at_client.is_closed(); }));
  }
  // What was under way is not in others' way, and is let go in the end.
  pair_of_mpi_ends again;
  again.open();
  again.client->send({.kind = 1}, {}, pattern(100));
  again.client->flush();
  CHECK(again.until([&] { return again.at_server.ended == 1 && body.expired(); }));
}

TEST_CASE("mpi_network: a connection on which nothing comes for long is closed", "[mpi]") {
  net::mpi_network stopped;  // from when it has accepted
  net::mpi_network network;
  recorder heard, there;
  std::unique_ptr<net::connection> here, accepted;
  net::listener_options limits;
  limits.silence = 200ms;
  auto const listener =
      stopped.listen(own_address(), {}, limits, [&](auto c) { (accepted = std::move(c))->attach(there); });
  auto const attempt =
      network.dial(listener->bound(), {}, limits, [&](auto c, auto&, bool) { (here = std::move(c))->attach(heard); });
  REQUIRE(run_until(network, [&] { return stopped.poll(), here && accepted; }));
  (void)run_until(network, [&] { return stopped.poll(), false; }, 500ms);
  CHECK(heard.reasons.empty());  // heartbeats keep it open
  CHECK(there.reasons.empty());
  REQUIRE(run_until(network, [&] { return heard.is_closed(); }));
  CHECK_THAT(heard.reason(), Contains("rank-") && Contains("nothing was heard for 0.2 s"));
}

TEST_CASE("mpi_network: a listener takes as many as it may, and says so to others", "[mpi]") {
  pair_of_mpi_ends ends;
  ends.limits.connections_max = 1;
  ends.open();
  auto const first = std::move(ends.client);
  log_capture const log;
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.done_calls == 2; }));
  CHECK_FALSE(ends.client);
  CHECK_THAT(ends.reason, Contains("too many connections are open there"));
  CHECK_FALSE(ends.refused);  // later there may be room
  CHECK_THAT(log.warnings(), Contains("1 connections are open already"));
  ends.accepted.clear();
  ends.start_connect();
  CHECK(ends.until([&] { return ends.client != nullptr; }));
}

TEST_CASE("mpi_network: an attempt that is given up leaves nobody behind", "[mpi]") {
  pair_of_mpi_ends ends;
  ends.listen(own_address().text());
  ends.start_connect();
  ends.attempt.reset();
  REQUIRE(ends.until([&] { return ends.at_server.is_closed(); }));
  CHECK(ends.done_calls == 0);
  CHECK_FALSE(ends.server().is_open());
}

TEST_CASE("mpi_network: nobody there is told in time, and what comes later is turned away", "[mpi]") {
  net::mpi_network stopped;
  net::mpi_network network;
  std::unique_ptr<net::connection> accepted;
  recorder there;
  auto const listener =
      stopped.listen(own_address(), {}, {}, [&](auto c) { (accepted = std::move(c))->attach(there); });
  std::string said;
  auto const attempt = network.dial(listener->bound(), {}, {.handshake = 30ms}, [&](auto c, auto& reason, bool) {
    CHECK_FALSE(c);
    said = reason;
  });
  REQUIRE(run_until(network, [&] { return !said.empty(); }));
  CHECK(said == listener->bound().text() + ": nobody answered in time");
  CHECK(run_until(network, [&] { return stopped.poll(), there.is_closed(); }));
}

TEST_CASE("mpi_network: who waits long sleeps most of the time, and can be woken", "[mpi]") {
  net::mpi_network network;
  std::clock_t const used = std::clock();
  (void)run_until(network, [] { return false; }, 300ms);  // others' last messages may come
  double const busy = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
  CHECK(busy < 0.15);
  std::thread other([&] { network.interrupt(); });
  network.run_one(net::network::clock::now() + 2h);  // who is not woken outlasts the test
  other.join();
}

TEST_CASE("mpi_network: sums for which there is no memory are refused before anybody waits for them", "[mpi]") {
  net::mpi_network network;
  if (net::this_mpi_rank().number == 0) {
    CHECK_THROWS_AS(network.join_others(element_type::float64, 3), option_error);
    return;
  }
  std::size_t const many = std::size_t{1} << 50;
  CHECK_THROWS_WITH(network.join_others(element_type::float64, many),
                    "MPI: there is no memory for sums of " + std::to_string(many) + " numbers");
  CHECK_THROWS_AS(network.join_others(element_type::float64, many), error);
  auto const sums = network.join_others(element_type::float64, 3);  // for which those have left no gap
  sums->begin();
  std::vector<double> const mine{1, 2.5, -3};
  bool done = false;
  sums->sum(std::as_bytes(std::span(mine)), [&] { done = true; });
  auto const end = network.now() + std::chrono::seconds(10);
  while (!done && network.now() < end) network.run_one(end);
  REQUIRE(done);
  auto const total = sums->result().total;  // of this rank alone
  CHECK(std::ranges::equal(total, std::as_bytes(std::span(mine))));
}

TEST_CASE("mpi_network: frames and 64 MB go from one rank to another, and the first to close ends it for both",
          "[mpi]") {
  auto const [rank, count] = net::this_mpi_rank();
  REQUIRE(count == 2);
  auto const body = std::make_shared<bytes const>(pattern(64 * megabyte));
  // A large message that is under way, which another one follows at once.
  constexpr std::size_t pairs = 100;
  bytes const large = pattern(200'000), small = pattern(300);
  net::mpi_network network;
  recorder heard;
  std::unique_ptr<net::connection> end;
  if (rank == 0) {
    auto const listener = network.listen(net::mpi_network::address_of(0, 5), {}, {},
                                         [&](auto c) { (end = std::move(c))->attach(heard); });
    REQUIRE(run_until(network, [&] { return heard.ended == 2 * pairs + 1; }, 60s));
    for (std::size_t i = 0; i < 2 * pairs; ++i) REQUIRE(heard.frames[i].body == (i % 2 == 0 ? large : small));
    CHECK(heard.frames.back().body == *body);
    end.reset();
    return;
  }
  std::shared_ptr<void> attempt;
  auto const dial = [&](auto const& self) -> void {  // until it listens
    attempt = network.dial(net::mpi_network::address_of(0, 5), {}, {}, [&](auto c, auto&, bool) {
      if (c) (end = std::move(c))->attach(heard);
    });
    if (!run_until(network, [&] { return end != nullptr; }, 50ms)) self(self);
  };
  dial(dial);
  for (std::size_t i = 0; i < pairs; ++i) {
    end->send({.kind = 1}, {}, large);
    end->send({.kind = 1}, {}, small);
    end->flush();
  }
  send_pieces(*end, body, body->size());
  CHECK(end->unsent() >= body->size() / 2);
  REQUIRE(run_until(network, [&] { return heard.is_closed(); }, 60s));
  CHECK_THAT(heard.reason(), Contains("the connection was closed by the peer"));
}
