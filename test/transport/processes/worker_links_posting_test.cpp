// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Worker processes before a server that a test plays: what goes out and comes in while nobody waits for
// it.
#include <rubato/transport/processes/worker_links.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <rubato/net/connection.hpp>
#include <rubato/net/link.hpp>
#include <rubato/transport/processes/read_question.hpp>
#include <rubato/wire/messages.hpp>

#include "transport/processes/worker_links_bench.hpp"

using namespace rubato;
using namespace rubato::test::working_alone;
using namespace std::chrono_literals;
using Catch::Contains;

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
  played_cluster run;
};

}  // namespace

TEST_CASE(
    "worker_links: the last of many commits go out although their sender makes no further call",
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
      self.links.ask(the_server, q);
      if (self.links.wait_for(asked, [&] { return over.load(); }))
        ++released;
      else
        self.links.withdraw(asked);
    }
  });
  for (int round = 1; round <= rounds && !over; ++round) {
    // The other thread serves the links from here on, until all of the burst has arrived.
    if (another_waits && !comes_to_hold([&] { return at.questions == round; })) over = true;
    for (int i = 0; i < patient_server::burst; ++i)
      self.links.post(the_server, std::make_shared<commit_of const>(small));
    if (!comes_to_hold([&] { return at.commits == round * patient_server::burst; })) over = true;
    if (another_waits && !comes_to_hold([&] { return released == round; })) over = true;
  }
  bool const got_stuck = over.exchange(true);
  self.links.turns().wake();
  CHECK_FALSE(got_stuck);
  CHECK(at.commits == rounds * patient_server::burst);
}

namespace {

/// Asks again as soon as it has been answered, which whoever serves the link does for it.
class endless_question final : public detail::question {
 public:
  explicit endless_question(detail::worker_links& links) : links_(links) {
    header.kind = +wire::kind::count;
    asker = &asked_;
    links_.ask(the_server, *this);
    links_.start({});
  }
  ~endless_question() override { links_.withdraw(asked_); }
  void begin(wire::frame_header const&, std::span<std::byte const>,
             std::vector<std::span<std::byte>>&) override {}
  void done(refusal why) override {
    links_.ask_in_turn(the_server, *this);
    question::done(why);
    ++answers;
  }

  std::atomic<int> answers = 0;

 private:
  detail::worker_links& links_;
  detail::inquiry asked_;
};

}  // namespace

TEST_CASE(
    "worker_links: in the background answers are heard when they come, not when somebody looks",
    "[tcp]") {
  constexpr int enough = 300;
  played_cluster run(2, [](net::connection& from, wire::frame_header const& header) {
    answer_count(from, header.sequence);
  });
  process looking_now_and_then(run);
  process listening(run, true);
  endless_question const slow(looking_now_and_then.links);
  REQUIRE(comes_to_hold([&] { return slow.answers > 0; }));
  int const before = slow.answers;
  endless_question const fast(listening.links);
  // Neither process is called meanwhile. Both are before the same server, on the same machine.
  REQUIRE(comes_to_hold([&] { return fast.answers >= enough || slow.answers - before >= enough; }));
  CHECK(slow.answers - before < enough * 4 / 5);
}

TEST_CASE("worker_links: in the background a large commit leaves after the call that sends it",
          "[tcp]") {
  constexpr std::size_t large = 16 * 1024 * 1024;  // more than any socket takes
  std::atomic<bool> listens = false;
  std::atomic<int> questions = 0;
  std::atomic<int> commits = 0;
  played_cluster run(1, [&](net::connection& from, wire::frame_header const& header) {
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
  self.links.ask(the_server, q);
  self.links.start({});
  CHECK(comes_to_hold([&] { return questions == 1; }));  // it reads no more
  std::atomic<bool> sent = false;
  std::jthread const sending([&] {
    self.links.post(the_server, std::make_shared<commit_of const>(large));
    sent = true;
  });
  CHECK(comes_to_hold([&] { return sent.load(); }));
  CHECK(commits == 0);
  listens = true;
  CHECK(comes_to_hold([&] { return commits == 1; }));
  CHECK(comes_to_hold([&] { return asked.missing == 0; }));
  self.links.withdraw(asked);
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

TEST_CASE("worker_links: to a server that is near little is under way, so that none of it grows cold", "[tcp]") {
  constexpr std::size_t large = 1024 * 1024;
  constexpr int under_way = 2;  // it waits once more than 1 MiB has not arrived
  std::atomic<int> commits = 0;
  played_cluster run(1, [&](net::connection& from, wire::frame_header const& header) {
    if (header.kind == +wire::kind::commit) ++commits;
    else say(from, acknowledged_kind, static_cast<std::uint64_t>(commits));
  });
  process self(run);
  std::atomic<int> posted = 0;
  std::jthread const posting([&] {
    for (int i = 0; i < 2 * under_way; ++i) {
      self.links.post(the_server, std::make_shared<commit_of const>(large));
      ++posted;
    }
  });
  CHECK(comes_to_hold([&] { return commits == under_way; }));
  std::this_thread::sleep_for(50ms);
  CHECK(commits == under_way);
  CHECK(posted == under_way - 1);
  for (int const all : {under_way, 2 * under_way}) {
    detail::inquiry asked;
    detail::count_question q(asked);  // it acknowledges what has come
    CHECK(comes_to_hold([&] { return commits == all; }));
    self.links.ask(the_server, q);
    self.links.start({});
    CHECK(comes_to_hold([&] { return posted >= all; }));
    self.links.withdraw(asked);
  }
}

TEST_CASE("worker_links: what was posted has settled once it has been acknowledged", "[tcp]") {
  test::log_capture const log;
  std::atomic<bool> acknowledges = false;
  played_cluster run(1, [&](net::connection& from, wire::frame_header const& header) {
    if (header.kind == +wire::kind::count && acknowledges) say(from, acknowledged_kind, 1);
  });
  process self(run);
  self.links.post(the_server, std::make_shared<commit_of const>(100));
  std::atomic<bool> settled = false;
  std::jthread ending([&] {
    self.links.settle();
    settled = true;
  });
  detail::inquiry asked;
  detail::count_question q(asked);  // has the server say something
  self.links.ask(the_server, q);
  self.links.start({});
  CHECK_FALSE(settled);
  acknowledges = true;
  detail::count_question again(asked);
  self.links.ask(the_server, again);
  self.links.start({});
  CHECK(comes_to_hold([&] { return settled.load(); }));
  self.links.withdraw(asked);
}

TEST_CASE("worker_links: who alone has lost a server tells the coordinator, and is lost", "[tcp]") {
  test::log_capture const log;
  played_cluster run(1, [](net::connection& from, wire::frame_header const& header) {
    if (header.kind != +wire::kind::count) return;
    say(from, refused_kind, 0, "no more of you");
    from.close();
  });
  process self(run);
  detail::inquiry asked;
  detail::count_question q(asked);
  self.links.ask(the_server, q);
  self.links.start({});
  REQUIRE(comes_to_hold([&] { return self.is_broken.load(); }));
  CHECK_THAT(self.links.why_broken().sentence(),
             Contains("server 0 (") && Contains("): no more of you"));
  self.links.settle();  // nobody waits for what cannot come
  self.links.withdraw(asked);
  REQUIRE(comes_to_hold([&] { return run.is_over(); }));
  CHECK_THAT(run.failure(), Contains("worker 0 (process ") && Contains("was lost: server 0 (") &&
                                Contains("no more of you"));
}
