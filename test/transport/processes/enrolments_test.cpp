// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Whom a server takes for a worker process: who shows what the coordinator has told that process only.
#include <rubato/transport/processes/enrolments.hpp>

#include <catch2/catch.hpp>
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/net/network.hpp>
#include <rubato/net/peer_identity.hpp>
#include <rubato/protocol/asp.hpp>

#include "transport/processes/server_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::serving_alone;
using namespace std::chrono_literals;
using Catch::Contains;
using detail::enrolments;
using verdict = enrolments::verdict;

namespace {

net::hello life_of(std::uint32_t process, std::uint32_t incarnation, std::uint64_t session = 9) {
  net::hello h;
  h.number = process;
  h.incarnation = incarnation;
  h.session = session;
  return shown(h);
}

wire::admission admitted(std::uint32_t process, std::uint32_t incarnation) {
  return {process, incarnation, secret_of(process, incarnation)};
}

}  // namespace

TEST_CASE("enrolments: a life counts from the coordinator's word on until it is given up or followed") {
  enrolments known;
  CHECK(known.judge(life_of(3, 0), 0) == verdict::early);
  known.admit(admitted(3, 0));
  CHECK(known.judge(life_of(3, 0), 0) == verdict::genuine);
  CHECK(known.judge(life_of(3, 1), 0) == verdict::early);
  CHECK(known.judge(life_of(4, 0), 0) == verdict::early);
  known.expel({3, 0});
  CHECK(known.judge(life_of(3, 0), 0) == verdict::over);
  known.admit(admitted(3, 1));
  known.expel({3, 0});  // of the life before, which changes nothing
  CHECK(known.judge(life_of(3, 0), 0) == verdict::over);
  CHECK(known.judge(life_of(3, 1), 0) == verdict::genuine);
  known.expel({5, 2});  // of one that was never heard of
  CHECK(known.judge(life_of(5, 2), 0) == verdict::over);
  CHECK(known.judge(life_of(5, 3), 0) == verdict::early);
  CHECK_THROWS_AS(known.admit(admitted(3, 1)), wire::frame_error);  // a secret is not replaced
}

TEST_CASE("enrolments: thousands of lives of few processes are known by the last of each, and cost no more memory") {
  enrolments known;
  std::size_t before = 0;
  for (std::uint32_t life = 0; life < 3000; ++life) {
    if (life == 10) before = ::mallinfo2().uordblks;
    for (std::uint32_t const process : {2U, 3U}) {
      known.admit(admitted(process, life));
      if (process == 2) known.expel({process, life});  // of 3 the coordinator says nothing before the next life
    }
  }
  CHECK(::mallinfo2().uordblks < before + 1'000);
  CHECK(known.judge(life_of(2, 2999), 0) == verdict::over);
  CHECK(known.judge(life_of(3, 2998), 0) == verdict::over);
  CHECK(known.judge(life_of(3, 2999), 0) == verdict::genuine);
}

TEST_CASE("enrolments: what a session shows is worth nothing for another one, or elsewhere") {
  enrolments known;
  known.admit(admitted(3, 1));
  net::hello h = life_of(3, 1);
  REQUIRE(known.judge(h, 0) == verdict::genuine);
  h.received = 17;  // the same session, later
  CHECK(known.judge(h, 0) == verdict::genuine);
  SECTION("at another server") { CHECK(known.judge(h, 1) == verdict::forged); }
  SECTION("of another session") {
    ++h.session;
    CHECK(known.judge(h, 0) == verdict::forged);
  }
  SECTION("of another process") {
    known.admit(admitted(4, 1));
    h.number = 4;
    CHECK(known.judge(h, 0) == verdict::forged);
  }
  SECTION("of another life") {
    known.admit(admitted(3, 2));
    h.incarnation = 2;
    CHECK(known.judge(h, 0) == verdict::forged);
  }
  SECTION("of another role") {
    h.as = net::role::server;
    CHECK(known.judge(h, 0) == verdict::forged);
  }
  SECTION("or a little different") {
    h.credential.back() ^= 1;
    CHECK(known.judge(h, 0) == verdict::forged);
  }
}

// ---- at a server

namespace {

/// Two workers, of which the second is connected, too.
struct attacked {
  test::log_capture log = {};
  played_run run{asp{}, 4};
  std::unique_ptr<worker_peer> second;

  attacked() {
    run.to().join(second_worker);
    REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
    second = run.connected(run.network(), second_worker);
  }
  std::unique_ptr<worker_peer> refused(net::hello const& said, char const* why) {
    auto made = run.dialling(run.network(), said);
    REQUIRE(run.until([&] { return made->is_up() || !made->lost_for().empty(); }));
    CHECK_FALSE(made->is_up());
    CHECK_THAT(made->lost_for(), Contains(why));
    return made;
  }
  /// The second worker's next commit is taken, and nothing else has been.
  void check_untouched() {
    run.commit(*second, second_worker, clock_index{0});
    REQUIRE(run.until([&] { return run.stats().commits == 1; }));
    run.first().ask(run.to().identity(first_worker), clock_index{0});
    REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
    CHECK(run.first().values(0) == std::vector<std::int64_t>(4, 1));
    CHECK(run.stats().refused == 0);
    CHECK(run.stats().connections_lost == 0);
    CHECK(second->answers().empty());
    CHECK(second->lost_for() == "");
  }
};

}  // namespace

TEST_CASE("server: nobody commits as a worker process that the coordinator has enrolled as another life", "[tcp]") {
  attacked at;
  // What is its next life, if one believes it.
  auto const intruder = at.run.dialling(at.run.network(), life_of(second_worker.value(), 1, 4711));
  at.run.commit(*intruder, second_worker, clock_index{0});
  at.run.settle();
  CHECK_FALSE(intruder->is_up());
  CHECK(at.run.stats().connections == 2);
  at.check_untouched();
}

TEST_CASE("server: nobody comes as a worker process without its secret, for the first time or again", "[tcp]") {
  attacked at;
  net::hello said = worker_peer::hello_of(second_worker.value());
  SECTION("with nothing to show") {
    said.credential = {};
    SECTION("as the same session") {}
    SECTION("as another") { ++said.session; }
    (void)at.refused(said, "this is not the worker process 1 that the coordinator has enrolled");
  }
  SECTION("with what another session has shown") {
    said.session += 5;
    (void)at.refused(said, "this is not the worker process 1 that the coordinator has enrolled");
  }
  SECTION("with another process's secret, in its session") {
    auto const session = said.session;
    at.run.to().admit(2);
    said = life_of(2, 0, session);
    (void)at.refused(said, "this session is another process's");
  }
  CHECK_THAT(at.log.warnings(), Contains("was refused"));
  at.check_untouched();
}

namespace {

/// A connection whose other end has shown a certificate, if one is given.
class certified_connection final : public net::connection {
 public:
  certified_connection(std::unique_ptr<net::connection> c, std::optional<net::peer_identity> shown)
      : inner_(std::move(c)), shown_(std::move(shown)) {}
  void attach(net::frame_receiver& owner) override { inner_->attach(owner); }
  void send(wire::frame_header h, std::span<std::byte const> meta, std::span<std::byte const> body) override {
    inner_->send(h, meta, body);
  }
  void send(wire::frame_header h, std::span<std::byte const> meta, std::uint64_t length,
            std::unique_ptr<net::body_source> body) override {
    inner_->send(h, meta, length, std::move(body));
  }
  void flush() override { inner_->flush(); }
  [[nodiscard]] std::size_t unsent() const noexcept override { return inner_->unsent(); }
  void close() noexcept override { inner_->close(); }
  [[nodiscard]] bool is_open() const noexcept override { return inner_->is_open(); }
  [[nodiscard]] std::string peer() const override { return inner_->peer(); }
  [[nodiscard]] net::peer_identity shown() const override { return shown_.value_or(inner_->shown()); }

 private:
  std::unique_ptr<net::connection> inner_;
  std::optional<net::peer_identity> shown_;
};

/// Who connects next has shown this.
using shown_next = std::shared_ptr<std::optional<net::peer_identity>>;

class certifying_network final : public net::network_decorator {
 public:
  explicit certifying_network(shown_next shown)
      : network_decorator(std::make_unique<net::asio_network>()), shown_(std::move(shown)) {}
  [[nodiscard]] std::unique_ptr<net::listener> listen(net::address const& at, net::security const& keys,
                                                      net::listener_options const& options, accepted f) override {
    return inner().listen(at, keys, options, [this, f = std::move(f)](auto fresh) {
      f(std::make_unique<certified_connection>(std::move(fresh), *shown_));
    });
  }

 private:
  shown_next shown_;
};

}  // namespace

TEST_CASE("server: a session of a worker process is of one that its certificate is for, whatever it knows", "[tcp]") {
  test::log_capture const log;
  shown_next const next = std::make_shared<std::optional<net::peer_identity>>();
  played_run run(blueprint(asp{}, 1, {describe(counting{.rows = 4})}), {}, 1 << 20,
                 std::make_unique<certifying_network>(next));
  run.to().admit(1);
  // It knows the secret of the other.
  *next = net::peer_identity(net::role::worker, {{net::role::worker, 0}, {net::role::worker, 2}});
  auto const posing = run.dialling(run.network(), life_of(1, 0));
  REQUIRE(run.until([&] { return posing->is_up() || !posing->lost_for().empty(); }));
  std::string const why =
      "the certificate of this worker is for worker 0 and worker 2 only, and not for worker 1";
  CHECK_THAT(posing->lost_for(), Contains(why));
  CHECK_THAT(log.warnings(), Contains("worker process 1 was refused: " + why));
  *next = net::peer_identity(net::role::worker, {{net::role::worker, 1}});
  auto const genuine = run.dialling(run.network(), life_of(1, 0, 10));
  CHECK(run.until([&] { return genuine->is_up(); }));
  CHECK(run.first().lost_for() == "");
}

TEST_CASE("server: a worker process that comes before the coordinator's word on it waits for that", "[tcp]") {
  test::log_capture const log;
  played_run run(asp{}, 4);
  run.to().hold_back();
  run.to().admit(7, 3);
  auto const early = run.dialling(run.network(), life_of(7, 3));
  run.settle();
  CHECK_FALSE(early->is_up());
  CHECK(early->lost_for() == "");
  run.to().let_go();
  REQUIRE(run.until([&] { return early->is_up(); }));
  CHECK(log.warnings() == "");
}
