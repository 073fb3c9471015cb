// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The coordinator of peers alone: a test says what peers say, and reads what they are told.
#include <rubato/transport/processes/peer_control.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "seeds.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

using heard_by_peer = std::vector<std::string>;

std::string said_text(wire::welcome const& m) {
  return "welcome " + std::to_string(m.process) + "." + std::to_string(m.incarnation);
}
std::string said_text(wire::peers_begin const& m) {
  std::string s = "begins " + std::to_string(m.stage.value());
  for (wire::absent_peer const& p : m.absent) s += " without " + std::to_string(p.rank);
  return s;
}
std::string said_text(wire::peer_lost const& m) { return "lost " + std::to_string(m.rank); }
std::string said_text(wire::settle const&) { return "settle"; }
std::string said_text(wire::send_share const&) { return "share"; }
std::string said_text(wire::peers_over const& m) {
  return "over " + std::to_string(m.stage.value()) + (m.crashes == 0 ? "" : " crashes " + std::to_string(m.crashes));
}
std::string said_text(wire::stop_run const& m) {
  return (m.fatal ? "fatal: " : m.failed ? "failed: " : "stop: ") + m.sentence;
}
template <class Other>
std::string said_text(Other const&) {
  return "something else";
}

/// A coordinator of peers with two parameters each, and what it has told whom.
struct peers_bench {
  explicit peers_bench(std::uint32_t n, bool running = false)
      : control({.peers = n, .shape = {element_type::float32, 2}, .agreed = "us"}) {
    for (std::uint32_t i = 0; running && i < n; ++i) (void)come();
    for (std::uint32_t i = 0; running && i < n; ++i) say(i, wire::ready{});
    forget();
  }

  static wire::secret secret_of(std::uint32_t draw) {
    wire::secret s{};
    s[0] = static_cast<std::uint8_t>(draw);
    return s;
  }
  coordination::enrolment come(std::optional<std::uint32_t> rank = {}, std::string const& agreed = "us") {
    ++lives;
    std::string const where = "unix:/" + std::to_string(lives);
    return control.enroll({net::role::worker, rank, where, agreed, 100 + lives, {}}, secret_of(lives));
  }
  void say(std::uint32_t from, wire::control_message const& m) { control.receive(place_of(from), m, now); }
  static coordination::place place_of(std::uint32_t rank) { return {net::role::worker, rank}; }
  void pump() {
    for (auto const& [to, message] : control.take()) {
      heard[to.number].push_back(std::visit([](auto const& m) { return said_text(m); }, message));
      if (auto const* m = std::get_if<wire::peers_begin>(&message)) begun[to.number] = *m;
      if (auto const* m = std::get_if<wire::peers_over>(&message)) over = *m;
    }
    for (auto const& [to, frame] : control.take_frames()) {
      heard[to.number].push_back("average");
      std::vector<std::span<std::byte const>> body;
      frame->gather(body);
      std::memcpy(average.data(), body.at(0).data(), sizeof average);
    }
  }
  heard_by_peer told(std::uint32_t rank) {
    pump();
    return std::exchange(heard[rank], {});
  }
  void forget() {
    pump();
    heard.clear();
  }
  void lose(std::uint32_t rank, bool expected = false) { control.lose(place_of(rank), "cut off", expected, now); }
  void cut_off(std::uint32_t rank) { control.set_connected(place_of(rank), false, now); }
  void reconnect(std::uint32_t rank) { control.set_connected(place_of(rank), true, now); }
  void share(std::uint32_t rank, float a, float b) {
    wire::frame_header h;
    h.kind = +wire::kind::share;
    h.length = 2 * sizeof(float);
    auto const room = control.room_for(place_of(rank), h, wire::to_bytes(wire::parameters_meta{control.stage()}));
    REQUIRE(room.size() == h.length);
    std::array<float, 2> const x{a, b};
    std::memcpy(room.data(), x.data(), sizeof x);
    control.take_frame(place_of(rank), now);
  }
  void ended(std::uint32_t rank) { say(rank, wire::peer_ended{control.stage()}); }
  void settled(std::uint32_t rank, std::uint64_t iterations = 0) {
    peer_metrics m;
    m.iterations = iterations;
    say(rank, wire::peer_settled{control.stage(), m});
  }
  void measured(std::uint32_t rank, double d = 0) { say(rank, wire::peer_measured{control.stage(), d}); }

  peer_control control;
  std::uint32_t lives = 0;
  time_point now{};
  std::map<std::uint32_t, heard_by_peer> heard;
  std::map<std::uint32_t, wire::peers_begin> begun;
  wire::peers_over over{};
  std::array<float, 2> average{};
};

peers_bench peers_running(std::uint32_t n) { return peers_bench(n, true); }

template <class F>
std::string peers_refusal(F f) {
  try {
    f();
  } catch (wire::frame_error const& e) {
    return "frame error: " + std::string(e.what());
  } catch (error const& e) {
    CHECK(e.code() == errc::refused);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("peer control: a run begins when all are ready, and each hears where the others are") {
  peers_bench b(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(b.come().at.number == i);
    CHECK(b.told(i) == heard_by_peer{"welcome " + std::to_string(i) + ".0"});
  }
  CHECK(b.control.is_complete());
  b.say(0, wire::ready{});
  b.say(2, wire::ready{});
  CHECK(b.told(0).empty());
  CHECK(b.control.awaited() == "peer 1 (here, but not ready)");
  b.say(1, wire::ready{});
  std::set<wire::secret> secrets;
  for (std::uint32_t i = 0; i < 3; ++i) {
    CHECK(b.told(i) == heard_by_peer{"begins 1"});
    REQUIRE(b.begun[i].others.size() == 2);
    for (wire::peer_place const& p : b.begun[i].others) {
      CHECK(p.rank != i);
      CHECK(p.listens == "unix:/" + std::to_string(p.rank + 1));
      // The two ends of a pair have one secret, and no other pair has it, nor is it one of those drawn.
      auto const& back = b.begun[p.rank].others;
      auto const mine = std::ranges::find(back, i, &wire::peer_place::rank);
      if (mine != back.end()) CHECK(mine->secret == p.secret);
      secrets.insert(p.secret);
      for (std::uint32_t draw = 1; draw <= 3; ++draw) CHECK(p.secret != peers_bench::secret_of(draw));
    }
  }
  CHECK(secrets.size() == 3);
}

TEST_CASE("peer control: the first run does not begin with a peer whose connection is broken") {
  bool const is_back = GENERATE(true, false);
  peers_bench b(2);
  (void)b.come(0);
  b.say(0, wire::ready{});
  b.cut_off(0);
  (void)b.come(1);
  b.say(1, wire::ready{});
  CHECK_FALSE(b.control.is_running());
  CHECK(b.control.is_starting());
  CHECK(b.control.awaited() == "peer 0 (here, but its connection is broken)");
  if (is_back) {
    b.reconnect(0);
  } else {  // its place is free then, and nobody has lost anything
    b.lose(0);
    CHECK(b.control.awaited() == "peer 0; peer 0 (process 101) was lost: cut off");
    CHECK(b.come(0).incarnation == 1);
    CHECK_FALSE(b.control.is_running());
    b.say(0, wire::ready{});
  }
  CHECK(b.control.is_running());
  b.cut_off(1);  // a later one does: whoever does not come back is lost to it
  for (std::uint32_t i = 0; i < 2; ++i) b.ended(i);
  for (std::uint32_t i = 0; i < 2; ++i) b.settled(i);
  for (std::uint32_t i = 0; i < 2; ++i) b.share(i, 1, 1);
  for (std::uint32_t i = 0; i < 2; ++i) b.measured(i);
  b.forget();
  for (std::uint32_t i = 0; i < 2; ++i) b.say(i, wire::ready{});
  CHECK(b.told(0) == heard_by_peer{"begins 2"});
}

TEST_CASE("peer control: a run ends when all is answered, with the average of all that are there") {
  auto b = peers_running(3);
  b.ended(1);
  b.ended(0);
  CHECK(b.told(0).empty());
  b.now = time_point(duration(70));
  b.ended(2);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(b.told(i) == heard_by_peer{"settle"});
  b.settled(2, 7);
  b.settled(0, 5);
  CHECK(b.told(0).empty());
  b.settled(1, 6);
  CHECK(b.told(0) == heard_by_peer{"share"});
  CHECK(b.told(1).empty());  // one after another: in the order of ranks, whatever arrives when
  b.share(0, 1, 10);
  CHECK(b.told(1) == heard_by_peer{"share"});
  b.share(1, 2, 20);
  b.share(2, 6, 0);
  CHECK(b.told(0) == heard_by_peer{"average"});
  CHECK(b.average == std::array<float, 2>{3, 10});
  b.measured(0, 0.5);
  b.measured(1, 2.5);
  b.measured(2, 1);
  CHECK(b.told(2) == heard_by_peer{"share", "average", "over 1"});
  CHECK(b.over.spread == 2.5);
  CHECK(b.over.elapsed == duration(70));
  REQUIRE(b.over.peers.size() == 3);
  CHECK(b.over.peers[1].iterations == 6);
  CHECK(b.over.peers[2].iterations == 7);
  // The next one: everybody knows already where the others are.
  for (std::uint32_t i = 0; i < 3; ++i) b.say(i, wire::ready{});
  b.pump();
  CHECK(b.begun[0].stage == stage_id{2});
  CHECK(b.begun[0].others.empty());
}

TEST_CASE("peer control: a distance that is no number is the spread, whenever it is told") {
  std::uint32_t const whose = GENERATE(0U, 1U, 2U);
  auto b = peers_running(3);
  for (std::uint32_t i = 0; i < 3; ++i) b.ended(i);
  for (std::uint32_t i = 0; i < 3; ++i) b.settled(i, 1);
  for (std::uint32_t i = 0; i < 3; ++i) b.share(i, 1, 1);
  b.pump();
  for (std::uint32_t i = 0; i < 3; ++i) b.measured(i, i == whose ? std::numeric_limits<double>::quiet_NaN() : 1.0 * i);
  CHECK(b.told(0).back() == "over 1");
  CHECK(std::isnan(b.over.spread));
}

TEST_CASE("peer control: of a lost peer the others hear at once, and nobody waits for it in any phase") {
  auto b = peers_running(3);
  SECTION("while bodies run") {
    b.ended(0);
    b.ended(2);
    b.lose(1);
    CHECK(b.told(0) == heard_by_peer{"lost 1", "settle"});
    b.settled(0);
    b.settled(2);
    b.share(0, 1, 1);
    b.share(2, 3, 3);
  }
  SECTION("while answers settle") {
    for (std::uint32_t i = 0; i < 3; ++i) b.ended(i);
    b.settled(0);
    b.settled(2);
    b.lose(1);
    b.share(0, 1, 1);
    b.share(2, 3, 3);
  }
  SECTION("when its share is awaited") {
    for (std::uint32_t i = 0; i < 3; ++i) b.ended(i);
    for (std::uint32_t i = 0; i < 3; ++i) b.settled(i);
    b.share(0, 1, 1);
    b.lose(1);
    b.share(2, 3, 3);
  }
  SECTION("when the last share is awaited") {
    for (std::uint32_t i = 0; i < 3; ++i) b.ended(i);
    for (std::uint32_t i = 0; i < 3; ++i) b.settled(i);
    b.share(0, 1, 1);
    b.share(1, 3, 3);
    b.lose(2);
    b.pump();
    CHECK(b.average == std::array<float, 2>{2, 2});
    b.measured(0);
    b.measured(1);
    CHECK(b.told(1).back() == "over 1 crashes 1");
    return;
  }
  b.pump();
  CHECK(b.average == std::array<float, 2>{2, 2});
  b.measured(0);
  b.measured(2);
  CHECK(b.told(0).back() == "over 1 crashes 1");
  CHECK(b.told(2).back() == "over 1 crashes 1");
  // In the next run it is missing from the start.
  b.say(0, wire::ready{});
  b.say(2, wire::ready{});
  CHECK(b.told(0) == heard_by_peer{"begins 2 without 1"});
  CHECK_THAT(b.begun[0].absent.at(0).sentence, Contains("peer 1 (process 102) was lost: cut off"));
}

TEST_CASE("peer control: a run that fails ends for all, and has no average") {
  auto b = peers_running(2);
  if (GENERATE(false, true)) {  // also where it was to end anyway
    b.say(0, wire::end_run{b.control.stage(), false, errc::bad_option, ""});
    for (std::uint32_t p = 0; p < 2; ++p) CHECK(b.told(p) == heard_by_peer{"stop: "});
  }
  b.say(1, wire::end_run{b.control.stage(), true, errc::lost, "peer 1: no"});
  b.say(0, wire::end_run{b.control.stage(), true, errc::lost, "peer 0: neither"});  // a consequence
  CHECK(b.told(0) == heard_by_peer{"failed: peer 1: no"});
  CHECK(b.told(1) == heard_by_peer{"failed: peer 1: no"});
  b.ended(0);
  b.ended(1);
  b.settled(0);
  b.settled(1);
  CHECK(b.told(0) == heard_by_peer{"settle", "over 1"});
  b.say(0, wire::farewell{});
  b.say(1, wire::farewell{});
  CHECK(b.control.is_over());
  CHECK(b.control.failure() == "peer 1: no");
}

TEST_CASE("peer control: a run that somebody stops has an average, and is no failure") {
  auto b = peers_running(2);
  b.say(1, wire::end_run{b.control.stage(), false, errc::bad_option, ""});
  CHECK(b.told(0) == heard_by_peer{"stop: "});
  b.ended(0);
  b.ended(1);
  b.settled(0);
  b.settled(1);
  CHECK(b.told(0) == heard_by_peer{"settle", "share"});
  b.share(0, 1, 1);
  b.share(1, 1, 1);
  b.measured(0);
  b.measured(1);
  b.say(0, wire::farewell{});
  CHECK_FALSE(b.control.is_over());
  b.say(1, wire::farewell{});
  CHECK(b.control.is_over());
  CHECK(b.control.failure().empty());
}

TEST_CASE("peer control: what is said out of turn is a frame error, and changes nothing") {
  auto b = peers_running(2);
  CHECK_THAT(peers_refusal([&] { b.say(0, wire::ready{}); }), Contains("must not say \"ready\" now"));
  CHECK_THAT(peers_refusal([&] { b.settled(0); }), Contains("answers what it has not been asked"));
  CHECK_THAT(peers_refusal([&] { b.measured(0); }), Contains("answers what it has not been asked"));
  CHECK_THAT(peers_refusal([&] { b.say(0, wire::worker_ended{}); }), Contains("not for the coordinator of peers"));
  b.ended(0);
  CHECK_THAT(peers_refusal([&] { b.ended(0); }), Contains("answers what it has not been asked"));
  b.say(0, wire::peer_ended{stage_id{9}});  // of another run
  wire::frame_header h;
  h.kind = +wire::kind::share;
  h.length = 2 * sizeof(float);
  auto const meta = wire::to_bytes(wire::parameters_meta{b.control.stage()});
  auto const send = [&](std::uint32_t from) { (void)b.control.room_for(peers_bench::place_of(from), h, meta); };
  CHECK_THAT(peers_refusal([&] { send(0); }), Contains("that it was not asked for"));
  b.ended(1);
  b.settled(0);
  b.settled(1);
  CHECK_THAT(peers_refusal([&] { send(1); }), Contains("that it was not asked for"));
  h.length = std::uint64_t{1} << 40;
  CHECK_THAT(peers_refusal([&] { send(0); }), Contains("that it was not asked for"));
  h.kind = +wire::kind::commit;
  CHECK_THAT(peers_refusal([&] { send(0); }), Contains("not for the coordinator"));
  b.share(0, 1, 1);
  b.share(1, 1, 1);
  CHECK(b.told(0).back() == "average");
}

TEST_CASE("peer control: who has no place is told why") {
  peers_bench b(2);
  CHECK_THAT(peers_refusal([&] { (void)b.come(2); }), Contains("2 nodes, numbered from 0, and no room for peer 2"));
  CHECK_THAT(peers_refusal([&] { (void)b.come(0, "them"); }),
             Contains("peer 0 (process 102) is of another group") && Contains("\"them\"") && Contains("\"us\""));
  CHECK_THAT(b.control.awaited(), Contains("peers 0 and 1") && Contains("is of another group"));
  wire::registration other_silence{.as = net::role::worker, .rank = 0U, .listens = "", .agreed = "us", .pid = 7};
  other_silence.silence = 60000;
  CHECK_THAT(peers_refusal([&] { (void)b.control.enroll(other_silence, {}); }),
             Contains("peer 0 (process 7) has a silence (RUBATO_SILENCE) of 60000 ms; expected the coordinator's, 0"));
  CHECK_THAT(peers_refusal([&] {
               (void)b.control.enroll({net::role::server, 0U, "here", "us", 1, {}}, {});
             }),
             Contains("peers have no servers"));
  (void)b.come(0);
  CHECK_THAT(peers_refusal([&] { (void)b.come(0); }), Contains("peer 0 is here already"));
  CHECK(b.control.awaited() == "peer 1");
  CHECK(b.control.attendance() == "1 of 2 peers are here");
  // Before the first run one that has gone is replaced.
  b.lose(0);
  CHECK_THAT(b.control.awaited(), Contains("peer 0 (process 103) was lost: cut off"));
  CHECK(b.come().incarnation == 1);
  (void)b.come();
  CHECK_THAT(peers_refusal([&] { (void)b.come(); }), Contains("no room for peer 2"));
  b.say(0, wire::ready{});
  b.say(1, wire::ready{});
  CHECK_THAT(peers_refusal([&] { (void)b.come(1); }), Contains("a run is under way, and peers do not join one"));
  b.lose(1);
  CHECK_THAT(peers_refusal([&] { (void)b.come(1); }), Contains("a run is under way, and peers do not join one"));
  b.ended(0);
  b.settled(0);
  b.share(0, 1, 1);
  b.measured(0);
  CHECK_THAT(peers_refusal([&] { (void)b.come(1); }), Contains("peers do not join later"));
}

TEST_CASE("peer control: who was in the last run to its end comes too early for the next group, and no one else") {
  auto b = peers_running(2);
  wire::registration again{net::role::worker, 0U, "", "us", 101, {}};
  CHECK_FALSE(b.control.was_here(again));
  for (std::uint32_t i = 0; i < 2; ++i) b.ended(i);
  for (std::uint32_t i = 0; i < 2; ++i) b.settled(i);
  b.share(0, 1, 1);
  b.share(1, 1, 1);
  for (std::uint32_t i = 0; i < 2; ++i) b.measured(i);
  b.say(0, wire::farewell{});
  CHECK(b.control.was_here(again));
  again.pid = 55;  // started again
  CHECK_FALSE(b.control.was_here(again));
  again.pid = 101;
  again.life = 1;  // the same, in a container
  CHECK_FALSE(b.control.was_here(again));
}

TEST_CASE("peer control: all lost, the run is over and has failed; without patience, too") {
  auto b = peers_running(2);
  b.lose(0);
  b.lose(1);
  CHECK(b.control.is_over());
  CHECK_THAT(b.control.failure(), Contains("was lost: cut off"));
  peers_bench waiting(2);
  (void)waiting.come();
  waiting.control.give_up("nobody comes");
  CHECK(waiting.told(0).back() == "fatal: nobody comes");
  CHECK(waiting.control.is_over());
}

TEST_CASE("peer control: whatever the order of answers and losses, runs come to their end") {
  for (std::uint64_t s = 0; s < test::seed_count(200); ++s) {
    std::uint64_t const seed = test::first_seed() + s;
    INFO(test::repeat_by(seed));
    random_stream random(seed, 0);
    auto const n = static_cast<std::uint32_t>(1 + random.below(5));
    auto b = peers_running(n);
    std::vector<bool> here(n, true);
    // Each peer does what it was told, in its own time; some are lost.
    std::map<std::uint32_t, std::vector<std::string>> to_do;
    for (std::uint32_t i = 0; i < n; ++i) to_do[i] = {"body"};
    int over = 0;
    for (int turn = 0; turn < 400 && !b.control.is_over() && over == 0; ++turn) {
      auto const i = static_cast<std::uint32_t>(random.below(n));
      if (!here[i]) continue;
      if (random.below(30) == 0) {
        here[i] = false;
        b.lose(i);
      } else if (!to_do[i].empty()) {
        std::string const what = to_do[i].front();
        to_do[i].erase(to_do[i].begin());
        if (what == "body") b.ended(i);
        else if (what == "settle") b.settled(i);
        else if (what == "share") b.share(i, 1, 2);
        else if (what == "average") b.measured(i);
      }
      for (std::uint32_t j = 0; j < n; ++j)
        for (std::string const& said : b.told(j)) {
          if (!said.starts_with("over")) to_do[j].push_back(said);
          else over += here[j] ? 1 : 0;
        }
    }
    CHECK((over != 0 || b.control.is_over()));
    if (over != 0) CHECK(b.average == std::array<float, 2>{1, 2});
  }
}
