// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Worker processes before a server that a test plays, frame by frame: answers that break off, what
// goes out and comes in while nobody waits for it.
#include <rubato/transport/tcp/worker_node.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include <rubato/transport/tcp/coordinator_link.hpp>
#include <rubato/transport/tcp/coordinator_node.hpp>
#include <rubato/transport/tcp/questions.hpp>
#include <rubato/transport/tcp/run_control.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "net/ends.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

constexpr server_id the_server{0};

/// Waits without a call to the library; false when the condition does not come to hold within a
/// generous time.
template <class Condition>
[[nodiscard]] bool comes_to_hold(Condition condition) {
  auto const end = std::chrono::steady_clock::now() + 10s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// A server in a thread of its own that acknowledges nothing, so that nothing comes but what a test
/// sends: whatever is heard takes along what somebody has forgotten to send. Neither do heartbeats
/// come.
class played_server final : detail::coordinator_user {
 public:
  /// `on_frame` is called in the server's thread.
  using handler = std::function<void(net::connection& from, wire::frame_header const& header)>;

  played_server(net::deployment const& place, net::address const& at, handler on_frame)
      : on_frame_(std::move(on_frame)),
        door_(reactor_, detail::connection_limits(place),
              [this](auto fresh, auto const&) { welcome(std::move(fresh)); }),
        listener_(reactor_, at, {}, detail::listener_limits(place),
                  [this](auto fresh) { door_.receive(std::move(fresh)); }),
        coordinator_(reactor_, *this, place,
                     {.as = net::role::server,
                      .rank = 0,
                      .listens = at.text(),
                      .agreed = agreed,
                      .pid = 0}) {
    door_.open();
    thread_ = std::jthread([this](std::stop_token const& over) {
      while (!over.stop_requested()) reactor_.run_one(net::reactor::clock::now() + 1ms);
    });
  }
  ~played_server() override {
    thread_.request_stop();
    thread_.join();
  }
  played_server(played_server const&) = delete;
  played_server& operator=(played_server const&) = delete;

  static constexpr char const* agreed = "played";

  /// Connections of worker processes so far.
  [[nodiscard]] int connections() const noexcept { return connections_; }

 private:
  struct guest final : net::frame_receiver {
    guest(played_server& server, std::unique_ptr<net::connection> fresh)
        : at(server), connection(std::move(fresh)) {}
    void begin(wire::frame_header const& header, std::span<std::byte const>,
               std::vector<std::span<std::byte>>& body) override {
      arriving.resize(static_cast<std::size_t>(header.length));
      body.emplace_back(arriving);
    }
    void end(wire::frame_header const& header) override {
      if (header.kind >= net::first_user_kind) at.on_frame_(*connection, header);
    }
    void closed(std::string const&) override {}

    played_server& at;
    std::unique_ptr<net::connection> connection;
    std::vector<std::byte> arriving;
  };

  void welcome(std::unique_ptr<net::connection> fresh) {
    constexpr std::uint8_t welcome_kind = 2;  // of a link; it has received nothing yet
    auto& g = *guests_.emplace_back(std::make_unique<guest>(*this, std::move(fresh)));
    g.connection->attach(g);
    wire::frame_header h;
    h.kind = welcome_kind;
    g.connection->send(h, {});
    g.connection->flush();
    ++connections_;
  }
  void welcomed(wire::welcome const&) override {}
  void told(wire::control_message const&) override {}
  void coordinator_refused(std::string const&) override {}
  void coordinator_lost(std::string const&, bool) override {}

  handler on_frame_;
  std::atomic<int> connections_ = 0;
  net::reactor reactor_;
  std::vector<std::unique_ptr<guest>> guests_;
  net::doorkeeper door_;
  net::listener listener_;
  detail::coordinator_link coordinator_;
  std::jthread thread_;
};

/// A coordinator and a played server, for so many worker processes.
class played_run {
 public:
  played_run(std::uint32_t workers, played_server::handler on_frame,
             std::chrono::milliseconds reconnect = 20s) {
    place_.workers = workers;
    place_.coordinator.path = folder_.file("coordinator");
    place_.silence = 60s;
    place_.reconnect = reconnect;
    net::deployment as_coordinator = place_;
    as_coordinator.as = net::role::coordinator;
    coordinator_.emplace(as_coordinator, run_control::options{.workers = workers, .servers = 1});
    coordinating_ = std::jthread([this] {
      try {
        coordinator_->run();
      } catch (error const& e) {  // the workers say so, too
        failure_ = e.what();
      }
      over_ = true;
    });
    net::deployment as_server = place_;
    as_server.as = net::role::server;
    as_server.rank = 0;
    server_.emplace(as_server, net::address{.host = {}, .path = folder_.file("server")},
                    std::move(on_frame));
  }
  ~played_run() {
    if (coordinating_.joinable()) (void)failure();
  }
  played_run(played_run const&) = delete;
  played_run& operator=(played_run const&) = delete;

  [[nodiscard]] bool is_over() const noexcept { return over_; }
  /// Ends it. Why the coordinator could not go on, or nothing.
  [[nodiscard]] std::string failure() {
    coordinator_->stop();
    coordinating_.join();
    return failure_;
  }

  /// For a worker process.
  [[nodiscard]] net::deployment const& place() const noexcept { return place_; }
  [[nodiscard]] played_server const& server() const noexcept { return *server_; }

 private:
  test::temporary_folder folder_;
  net::deployment place_;
  std::optional<detail::coordinator_node> coordinator_;
  std::string failure_;
  std::atomic<bool> over_ = false;
  std::jthread coordinating_;
  std::optional<played_server> server_;
};

/// A worker process without workers.
class process final : detail::worker_node::runtime {
 public:
  explicit process(net::deployment const& place, bool background = false)
      : node(*this, place, played_server::agreed, background) {}
  explicit process(played_run const& in, bool background = false) : process(in.place(), background) {}

 private:
  void told(wire::control_message const&) override {}
  void commit_refused(worker_id, stage_id, server_id, refusal) override {}
  void broken(std::string const&) override { is_broken = true; }

 public:
  std::atomic<bool> is_broken = false;
  detail::worker_node node;
};

void answer_count(net::connection& to, std::uint64_t ticket) {
  wire::frame_header h;
  h.kind = +wire::kind::counted;
  h.sequence = ticket;
  to.send(h, wire::to_bytes(std::uint64_t{1}));
  to.flush();
}

}  // namespace

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
  played_run run;
};

/// Whether the server still answers.
bool is_answered(detail::worker_node& node) {
  detail::inquiry asked;
  detail::count_question q(asked);
  node.ask(the_server, q);
  auto const end = std::chrono::steady_clock::now() + 10s;
  bool const there = node.wait_for(asked, [&] { return std::chrono::steady_clock::now() > end; });
  node.withdraw(asked);
  return there;
}

}  // namespace

TEST_CASE(
    "worker node: an answer that is withdrawn while it is written takes its connection with it",
    "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  large_question q(asked);
  self.node.ask(the_server, q);
  self.node.flush();
  REQUIRE(comes_to_hold([&] { return q.begun.load(); }));
  self.node.withdraw(asked);
  constexpr std::byte mark{7};
  std::ranges::fill(q.room, mark);
  at.over = true;
  CHECK(is_answered(self.node));
  CHECK(std::ranges::count(q.room, mark) == answer_size);
  CHECK(at.run.server().connections() == 2);
  CHECK(at.requests == 1);
}

TEST_CASE(
    "worker node: an answer that broke off and is then withdrawn leaves the next connection alone",
    "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  auto q = std::make_unique<large_question>(asked);
  self.node.ask(the_server, *q);
  self.node.flush();
  REQUIRE(comes_to_hold([&] { return q->begun.load(); }));
  self.node.cut(the_server);
  at.over = true;
  REQUIRE(comes_to_hold([&] { return at.requests == 2; }));  // it has asked again
  self.node.withdraw(asked);
  q.reset();
  CHECK(is_answered(self.node));
  CHECK(at.run.server().connections() == 2);
}

TEST_CASE("worker node: who asked for what nobody understands may withdraw, and so may others",
          "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry other;
  auto waiting = std::make_unique<large_question>(other);
  detail::inquiry asked;
  auto q = std::make_unique<large_question>(asked, false);
  self.node.ask(the_server, *q);
  self.node.ask(the_server, *waiting);
  CHECK_FALSE(self.node.wait_for(asked, [] { return false; }));
  CHECK_THAT(self.node.why_broken().sentence(),
             Contains("server 0") && Contains("nobody understands"));
  self.node.withdraw(asked);
  q.reset();
  self.node.withdraw(other);
  waiting.reset();
  CHECK(asked.missing == 0);
  CHECK(other.missing == 0);
}

// ---- answers that are too large

TEST_CASE("worker node: who has no room for an answer is told so, and the connection goes on",
          "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  large_question q(asked, true, false);
  self.node.ask(the_server, q);
  self.node.flush();
  REQUIRE(comes_to_hold([&] { return q.begun.load(); }));
  at.over = true;
  REQUIRE(self.node.wait_for(asked, [] { return false; }));
  CHECK(asked.refused == refusal::size);
  try {
    self.node.raise(asked.refused);
  } catch (error const& e) {
    CHECK(e.code() == errc::bad_option);
    CHECK(e.what() == std::string("no room for it"));
  }
  CHECK_THROWS_WITH(self.node.raise(refusal::stage), Contains("it belongs to another stage"));
  CHECK(is_answered(self.node));
  CHECK(at.run.server().connections() == 1);
}

TEST_CASE("worker node: an answer that is too large may be withdrawn, or break off", "[tcp]") {
  test::log_capture const log;
  stuck_server at;
  process self(at.run);
  detail::inquiry asked;
  auto q = std::make_unique<large_question>(asked, true, false);
  self.node.ask(the_server, *q);
  self.node.flush();
  REQUIRE(comes_to_hold([&] { return q->begun.load(); }));
  bool const breaks_off = GENERATE(true, false);
  if (breaks_off) {
    self.node.cut(the_server);
    at.over = true;
    REQUIRE(comes_to_hold([&] { return at.requests == 2; }));
  }
  self.node.withdraw(asked);
  q.reset();
  at.over = true;
  detail::inquiry another;
  detail::count_question next(another);
  self.node.ask(the_server, next);
  CHECK(self.node.wait_for(another, [] { return false; }));
  CHECK(another.refused == refusal::none);
  CHECK(asked.refused == refusal::none);
  CHECK(at.run.server().connections() == (breaks_off ? 2 : 1));
}

// ---- while nobody waits

namespace {

/// A commit, as far as a link knows.
class commit_of final : public net::reliable_frame {
 public:
  explicit commit_of(std::size_t bytes) : body_(bytes) {}
  [[nodiscard]] wire::frame_header header() const override {
    wire::frame_header h;
    h.kind = +wire::kind::commit;
    return h;
  }
  [[nodiscard]] std::span<std::byte const> meta() const override { return {}; }
  void gather(std::vector<std::span<std::byte const>>& body) const override {
    body.emplace_back(body_);
  }

 private:
  std::vector<std::byte> body_;
};

/// A server that answers the n-th question when n bursts of commits have come.
class patient_server {
 public:
  static constexpr int burst = 16;

  explicit patient_server(std::uint32_t processes)
      : run(processes, [this](net::connection& from, wire::frame_header const& header) {
          if (header.kind == +wire::kind::commit)
            ++commits;
          else
            asked_by_ = {&from, header.sequence, ++questions};
          if (asked_by_.from == nullptr || commits < asked_by_.number * burst) return;
          answer_count(*asked_by_.from, asked_by_.ticket);
          asked_by_ = {};
        }) {}

  std::atomic<int> commits = 0;
  std::atomic<int> questions = 0;

 private:
  struct held_question {
    net::connection* from = nullptr;
    std::uint64_t ticket = 0;
    int number = 0;
  };
  held_question asked_by_;

 public:
  played_run run;
};

}  // namespace

TEST_CASE(
    "worker node: the last of many commits go out although their sender makes no further call",
    "[tcp]") {
  constexpr int rounds = 40;
  constexpr std::size_t small = 8;
  bool const another_waits = GENERATE(true, false);
  patient_server at(1);
  process self(at.run);
  std::atomic<bool> over = false;
  std::atomic<int> released = 0;
  std::jthread waiting([&] {
    while (another_waits && released < rounds && !over) {
      detail::inquiry asked;
      detail::count_question q(asked);
      self.node.ask(the_server, q);
      if (self.node.wait_for(asked, [&] { return over.load(); }))
        ++released;
      else
        self.node.withdraw(asked);
    }
  });
  for (int round = 1; round <= rounds && !over; ++round) {
    // The other thread serves the links from here on, until all of the burst has arrived.
    if (another_waits && !comes_to_hold([&] { return at.questions == round; })) over = true;
    for (int i = 0; i < patient_server::burst; ++i)
      self.node.post(the_server, std::make_shared<commit_of const>(small));
    if (!comes_to_hold([&] { return at.commits == round * patient_server::burst; })) over = true;
    if (another_waits && !comes_to_hold([&] { return released == round; })) over = true;
  }
  bool const got_stuck = over.exchange(true);
  self.node.turns().wake();
  CHECK_FALSE(got_stuck);
  CHECK(at.commits == rounds * patient_server::burst);
}

namespace {

/// Asks again as soon as it has been answered, which whoever serves the link does for it.
class endless_question final : public detail::question {
 public:
  explicit endless_question(detail::worker_node& node) : node_(node) {
    header.kind = +wire::kind::count;
    asker = &asked_;
    node_.ask(the_server, *this);
    node_.flush();
  }
  ~endless_question() override { node_.withdraw(asked_); }
  void begin(wire::frame_header const&, std::span<std::byte const>,
             std::vector<std::span<std::byte>>&) override {}
  void done(refusal why) override {
    node_.ask_in_turn(the_server, *this);
    question::done(why);
    ++answers;
  }

  std::atomic<int> answers = 0;

 private:
  detail::worker_node& node_;
  detail::inquiry asked_;
};

}  // namespace

TEST_CASE(
    "worker node: in the background answers are heard when they come, not when somebody looks",
    "[tcp]") {
  constexpr int enough = 300;
  played_run run(2, [](net::connection& from, wire::frame_header const& header) {
    answer_count(from, header.sequence);
  });
  process looking_now_and_then(run);
  process listening(run, true);
  endless_question const slow(looking_now_and_then.node);
  REQUIRE(comes_to_hold([&] { return slow.answers > 0; }));
  int const before = slow.answers;
  endless_question const fast(listening.node);
  // Neither process is called meanwhile. Both are before the same server, on the same machine.
  REQUIRE(comes_to_hold([&] { return fast.answers >= enough || slow.answers - before >= enough; }));
  CHECK(slow.answers - before < enough * 4 / 5);
}

TEST_CASE("worker node: in the background a large commit leaves after the call that sends it",
          "[tcp]") {
  constexpr std::size_t large = 16 * 1024 * 1024;  // more than any socket takes
  std::atomic<bool> listens = false;
  std::atomic<int> questions = 0;
  std::atomic<int> commits = 0;
  played_run run(1, [&](net::connection& from, wire::frame_header const& header) {
    if (header.kind == +wire::kind::commit) {
      ++commits;
      return;
    }
    ++questions;
    while (!listens) std::this_thread::sleep_for(1ms);
    answer_count(from, header.sequence);
  });
  process self(run, true);
  detail::inquiry asked;
  detail::count_question q(asked);
  self.node.ask(the_server, q);
  self.node.flush();
  CHECK(comes_to_hold([&] { return questions == 1; }));  // it reads no more
  std::atomic<bool> sent = false;
  std::jthread const sending([&] {
    self.node.post(the_server, std::make_shared<commit_of const>(large));
    sent = true;
  });
  CHECK(comes_to_hold([&] { return sent.load(); }));
  CHECK(commits == 0);
  listens = true;
  CHECK(comes_to_hold([&] { return commits == 1; }));
  CHECK(comes_to_hold([&] { return asked.missing == 0; }));
  self.node.withdraw(asked);
}

// ---- the end of a worker

namespace {
constexpr std::uint8_t refused_kind = 3;  // of a link
constexpr std::uint8_t acknowledged_kind = 4;

void say(net::connection& to, std::uint8_t kind, std::uint64_t sequence, std::string_view text = {}) {
  wire::frame_header h;
  h.kind = kind;
  h.sequence = sequence;
  to.send(h, std::as_bytes(std::span(text)));
  to.flush();
}
}  // namespace

TEST_CASE("worker node: what was posted has settled once it has been acknowledged", "[tcp]") {
  test::log_capture const log;
  std::atomic<bool> acknowledges = false;
  played_run run(1, [&](net::connection& from, wire::frame_header const& header) {
    if (header.kind == +wire::kind::count && acknowledges) say(from, acknowledged_kind, 1);
  });
  process self(run);
  self.node.post(the_server, std::make_shared<commit_of const>(100));
  std::atomic<bool> settled = false;
  std::jthread ending([&] {
    self.node.settle();
    settled = true;
  });
  detail::inquiry asked;
  detail::count_question q(asked);  // has the server say something
  self.node.ask(the_server, q);
  self.node.flush();
  CHECK_FALSE(settled);
  acknowledges = true;
  detail::count_question again(asked);
  self.node.ask(the_server, again);
  self.node.flush();
  CHECK(comes_to_hold([&] { return settled.load(); }));
  self.node.withdraw(asked);
}

TEST_CASE("worker node: who alone has lost a server tells the coordinator, and is lost", "[tcp]") {
  test::log_capture const log;
  played_run run(1, [](net::connection& from, wire::frame_header const& header) {
    if (header.kind != +wire::kind::count) return;
    say(from, refused_kind, 0, "no more of you");
    from.close();
  });
  process self(run);
  detail::inquiry asked;
  detail::count_question q(asked);
  self.node.ask(the_server, q);
  self.node.flush();
  REQUIRE(comes_to_hold([&] { return self.is_broken.load(); }));
  CHECK_THAT(self.node.why_broken().sentence(),
             Contains("server 0 (") && Contains("was lost: no more of you"));
  self.node.settle();  // nobody waits for what cannot come
  self.node.withdraw(asked);
  REQUIRE(comes_to_hold([&] { return run.is_over(); }));
  CHECK_THAT(run.failure(), Contains("worker 0 (process ") && Contains("was lost: server 0 (") &&
                                Contains("no more of you"));
}

// ---- who waits longer

TEST_CASE("worker node: a server may come back later than the coordinator waits for it", "[tcp]") {
  test::log_capture const log;
  std::atomic<int> questions = 0;
  played_run run(
      1,
      [&](net::connection& from, wire::frame_header const& header) {
        if (header.kind != +wire::kind::count) return;
        if (++questions == 1) from.close();
        else answer_count(from, header.sequence);
      },
      0ms);
  process self(run);
  CHECK(is_answered(self.node));
  CHECK_FALSE(self.is_broken);
  CHECK(run.server().connections() == 2);
}

TEST_CASE("worker node: who is missing the coordinator says, if its patience lasts a little longer", "[tcp]") {
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::coordinator;
  place.coordinator.path = folder.file("coordinator");
  place.patience = 200ms;
  detail::coordinator_node coordinator(place, {.workers = 2, .servers = 1});
  std::jthread const coordinating([&] {
    try {
      coordinator.run();
    } catch (lost_error const&) {  // the worker says so, too
    }
  });
  net::deployment as_worker = place;
  as_worker.as = net::role::worker;
  as_worker.patience = 0ms;
  as_worker.reconnect = 20s;
  std::string said;
  try {
    process const self(as_worker);
  } catch (lost_error const& e) {
    said = e.what();
  }
  CHECK_THAT(said, Contains("only 0 of 1 servers and 1 of 2 workers are here"));
  coordinator.stop();
}
