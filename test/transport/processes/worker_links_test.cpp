// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Worker processes before a server that a test plays: answers that break off or are too large, and who
// waits for whom.
#include <rubato/transport/processes/worker_links.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/link.hpp>
#include <rubato/net/network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/transport/processes/coordinator_process.hpp>
#include <rubato/transport/processes/read_question.hpp>
#include <rubato/wire/messages.hpp>

#include "transport/processes/worker_links_bench.hpp"

using namespace rubato;
using namespace rubato::test::working_alone;
using namespace std::chrono_literals;
using Catch::Contains;

// ---- answers that break off

namespace {

constexpr std::size_t first_piece = 256 * 1024;
constexpr std::size_t answer_size = 4 * first_piece;

/// The beginning of an answer; the rest comes when nobody wants it any more.
class stuck_answer final : public net::body_source {
 public:
  explicit stuck_answer(std::atomic<bool> const& over) : over_(over) {}
  [[nodiscard]] std::span<std::byte const> next() override {
    if (!std::exchange(begun_, true)) return std::span(bytes_).first(first_piece);
    while (!over_) std::this_thread::sleep_for(1ms);
    return std::span(bytes_).subspan(first_piece);
  }

 private:
  std::atomic<bool> const& over_;
  bool begun_ = false;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(answer_size);
};

/// A question whose answer goes into memory of its own; or cannot be understood, or is too large.
class large_question final : public detail::question {
 public:
  explicit large_question(detail::inquiry& by, bool understands = true, bool has_room = true)
      : understands_(understands), has_room_(has_room) {
    header.kind = +wire::kind::request;
    asker = &by;
  }
  void begin(wire::frame_header const&, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& to) override {
    begun = true;
    if (!understands_) throw wire::frame_error("an answer that nobody understands");
    if (!has_room_) throw detail::answer_too_large("no room for it");
    to.emplace_back(room);
  }

  std::atomic<bool> begun = false;
  std::vector<std::byte> room = std::vector<std::byte>(answer_size);

 private:
  bool understands_;
  bool has_room_;
};

/// A server that begins to answer the first request, and no other; counts it says at once.
class stuck_server {
 public:
  stuck_server()
      : run(1, [this](net::connection& from, wire::frame_header const& header) {
          if (header.kind == +wire::kind::count) return answer_count(from, header.sequence);
          if (++requests != 1) return;
          wire::frame_header h;
          h.kind = +wire::kind::reply;
          h.sequence = header.sequence;
          from.send(h, {}, answer_size, std::make_unique<stuck_answer>(over));
          from.flush();
        }) {}
  ~stuck_server() { over = true; }

  std::atomic<int> requests = 0;
  std::atomic<bool> over = false;
  played_cluster run;
};

}  // namespace

TEST_CASE(
    "worker_links: an answer that is withdrawn while it is written takes its connection with it",
    "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  large_question q(asked);
  self.links.ask(the_server, q);
  self.links.start({});
  REQUIRE(comes_to_hold([&] { return q.begun.load(); }));
  self.links.withdraw(asked);
  constexpr std::byte mark{7};
  std::ranges::fill(q.room, mark);
  at.over = true;
  CHECK(is_answered(self.links));
  CHECK(std::ranges::count(q.room, mark) == answer_size);
  CHECK(at.run.server().connections() == 2);
  CHECK(at.requests == 1);
}

TEST_CASE(
    "worker_links: an answer that broke off and is then withdrawn leaves the next connection alone",
    "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  auto q = std::make_unique<large_question>(asked);
  self.links.ask(the_server, *q);
  self.links.start({});
  REQUIRE(comes_to_hold([&] { return q->begun.load(); }));
  self.links.cut(the_server);
  at.over = true;
  REQUIRE(comes_to_hold([&] { return at.requests == 2; }));  // it has asked again
  self.links.withdraw(asked);
  q.reset();
  CHECK(is_answered(self.links));
  CHECK(at.run.server().connections() == 2);
}

TEST_CASE("worker_links: who asked for what nobody understands may withdraw, and so may others",
          "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry other;
  auto waiting = std::make_unique<large_question>(other);
  detail::inquiry asked;
  auto q = std::make_unique<large_question>(asked, false);
  self.links.ask(the_server, *q);
  self.links.ask(the_server, *waiting);
  CHECK_FALSE(self.links.wait_for(asked, [] { return false; }));
  CHECK_THAT(self.links.why_broken().sentence(),
             Contains("server 0") && Contains("nobody understands"));
  self.links.withdraw(asked);
  q.reset();
  self.links.withdraw(other);
  waiting.reset();
  CHECK(asked.missing == 0);
  CHECK(other.missing == 0);
}

// ---- answers that are too large

TEST_CASE("worker_links: who has no room for an answer is told so, and the connection goes on",
          "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  large_question q(asked, true, false);
  self.links.ask(the_server, q);
  self.links.start({});
  REQUIRE(comes_to_hold([&] { return q.begun.load(); }));
  at.over = true;
  REQUIRE(self.links.wait_for(asked, [] { return false; }));
  CHECK(asked.refused == refusal::size);
  try {
    self.links.raise(asked.refused);
  } catch (error const& e) {
    CHECK(e.code() == errc::bad_option);
    CHECK(e.what() == std::string("no room for it"));
  }
  CHECK_THROWS_WITH(self.links.raise(refusal::stage), Contains("it belongs to another stage"));
  CHECK(is_answered(self.links));
  CHECK(at.run.server().connections() == 1);
}

TEST_CASE("worker_links: an answer that is too large may be withdrawn, or break off", "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  auto q = std::make_unique<large_question>(asked, true, false);
  self.links.ask(the_server, *q);
  self.links.start({});
  REQUIRE(comes_to_hold([&] { return q->begun.load(); }));
  bool const breaks_off = GENERATE(true, false);
  if (breaks_off) {
    self.links.cut(the_server);
    at.over = true;
    REQUIRE(comes_to_hold([&] { return at.requests == 2; }));
  }
  self.links.withdraw(asked);
  q.reset();
  at.over = true;
  detail::inquiry another;
  detail::count_question next(another);
  self.links.ask(the_server, next);
  CHECK(self.links.wait_for(another, [] { return false; }));
  CHECK(another.refused == refusal::none);
  CHECK(asked.refused == refusal::none);
  CHECK(at.run.server().connections() == (breaks_off ? 2 : 1));
}

// ---- who waits longer

namespace {

/// One thread waits for a commit's refusal, others for what does not come; one of them runs the network for all.
struct refusal_among_others {
  refusal_among_others() {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      waits_until([&] { return self.was_refused || over; });
      woken = self.was_refused && !over;
    });
    std::thread::id const refused = threads.front().get_id();
    for (int i = 1; i < askers; ++i) threads.emplace_back([&] { waits_until([&] { return over.load(); }); });
    was_woken = comes_to_hold([&] { return woken.load(); });
    over = true;
    still_answers = is_answered(self.links);  // which makes all look again
    by_another = self.told_by != refused;
  }

  static constexpr int askers = 7;
  bool was_woken = false, still_answers = false, by_another = false;

 private:
  void answer(net::connection& from, wire::frame_header const& header) {
    if (header.kind == +wire::kind::count) return answer_count(from, header.sequence);
    if (header.kind != +wire::kind::request || ++requests != askers) return;
    std::this_thread::sleep_for(50ms);  // until all wait
    wire::frame_header h;
    h.kind = +wire::kind::refused;
    from.send(h, wire::to_bytes(wire::refused_meta{stage_id{}, refusal::order}));
    from.flush();
  }
  template <class Stop>
  void waits_until(Stop stop) {
    detail::inquiry asked;
    large_question q(asked);
    self.links.ask(the_server, q);
    (void)self.links.wait_for(asked, stop);
    self.links.withdraw(asked);
  }

  std::atomic<int> requests = 0;
  std::atomic<bool> over = false, woken = false;
  played_cluster const at{1, [this](net::connection& from, wire::frame_header const& header) { answer(from, header); }};
  process self{at};
};

}  // namespace

TEST_CASE("worker_links: whose commit was refused is woken by who runs the network", "[tcp]") {
  bool by_another = false;
  for (int i = 0; i < 30 && !by_another; ++i) {
    refusal_among_others const once;
    CHECK(once.was_woken);
    CHECK(once.still_answers);
    by_another = once.by_another;
  }
  CHECK(by_another);
}

TEST_CASE("worker_links: a server may come back later than the coordinator waits for it", "[tcp]") {
  test::log_capture const log;
  std::atomic<int> questions = 0;
  played_cluster run(
      1,
      [&](net::connection& from, wire::frame_header const& header) {
        if (header.kind != +wire::kind::count) return;
        if (++questions == 1) from.close();
        else answer_count(from, header.sequence);
      },
      0ms);
  process self(run);
  CHECK(is_answered(self.links));
  CHECK_FALSE(self.is_broken);
  CHECK(run.server().connections() == 2);
}

namespace {

/// Notes whom it expects where it dials.
class expecting_network final : public net::network_decorator {
 public:
  using expectation = std::pair<std::optional<net::role>, std::optional<std::uint32_t>>;

  explicit expecting_network(std::vector<expectation>& noted)
      : network_decorator(std::make_unique<net::asio_network>()), noted_(noted) {}
  [[nodiscard]] std::shared_ptr<void> dial(net::address const& to, net::security const& keys,
                                           net::connection_options const& options, dialed done) override {
    noted_.emplace_back(options.expected, options.expected_number);
    return inner().dial(to, keys, options, std::move(done));
  }

 private:
  std::vector<expectation>& noted_;
};

}  // namespace

TEST_CASE("worker_links: who is dialed is the coordinator, or a server of this number", "[tcp]") {
  test::log_capture const quiet;
  played_cluster const run(1, [](net::connection&, wire::frame_header const&) {});
  std::vector<expecting_network::expectation> noted;
  { process const one(run.place(), false, std::make_unique<expecting_network>(noted)); }
  CHECK(noted == std::vector<expecting_network::expectation>{{net::role::coordinator, std::nullopt},
                                                            {net::role::server, 0}});
}

TEST_CASE("worker_links: who was told of another number of servers than the coordinator says so", "[tcp]") {
  test::log_capture const quiet;
  played_cluster const run(1, [](net::connection&, wire::frame_header const&) {});
  net::deployment place = run.place();
  place.servers = 2;
  CHECK_THROWS_WITH(process(place), Contains("has 1 servers, but this process was told of 2"));
}

TEST_CASE("worker_links: a server that ends since somebody else was lost is not said to be lost", "[tcp]") {
  played_cluster run(1, [&](net::connection& from, wire::frame_header const& header) {
    if (header.kind != +wire::kind::count) return;
    net::refuse(from, "the coordinator was lost: nothing was heard for 5.0 s");
    from.close();
  });
  process self(run);
  CHECK_FALSE(is_answered(self.links));
  REQUIRE(self.is_broken);
  CHECK_THAT(self.links.why_broken().sentence(),
             Catch::StartsWith("server 0 (unix:") &&
                 Catch::EndsWith("server): the coordinator was lost: nothing was heard for 5.0 s"));
}

namespace {

/// What a worker is told that is missed by a coordinator whose patience lasts a little longer than its own.
std::string said_after(std::chrono::milliseconds patience) {
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::coordinator;
  place.coordinator.path = folder.file("coordinator");
  place.patience = patience;
  place.workers = 2;
  detail::coordinator_process coordinator(std::make_unique<net::asio_network>(), place, std::vector<rules>{asp{}});
  std::jthread const coordinating([&] {
    try {
      coordinator.run();
    } catch (lost_error const&) {  // the worker says so, too
    }
  });
  net::deployment as_worker = place;
  as_worker.as = net::role::worker;
  as_worker.patience = patience - 200ms;
  as_worker.reconnect = 20s;
  std::string said;
  try {
    process const self(as_worker);
  } catch (lost_error const& e) {
    said = e.what();
  }
  coordinator.stop();
  return said;
}

}  // namespace

TEST_CASE("worker_links: who is missing the coordinator says, if its patience lasts a little longer",
          "[tcp]") {
  std::string said;
  auto const all_of_it = Contains("only 0 of 1 servers and 1 of 2 workers are here");
  // On a machine with other work the worker may not be there in time.
  for (auto patience = 200ms; patience < 20s && !all_of_it.match(said); patience *= 5) said = said_after(patience);
  CHECK_THAT(said, all_of_it);
}
