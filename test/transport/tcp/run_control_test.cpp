// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <rubato/transport/tcp/run_control.hpp>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "seeds.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

using kind = membership_order::kind;
using list = std::vector<std::string>;
using place = run_control::place;

constexpr place worker(std::uint32_t n) { return {net::role::worker, n}; }
constexpr place server(std::uint32_t n) { return {net::role::server, n}; }
constexpr clock_index at(std::int64_t c) { return clock_index{c}; }

std::string number(std::uint64_t n) { return std::to_string(n); }
std::string text(wire::welcome const& m) {
  return "welcome " + number(m.process) + "." + number(m.incarnation) + " to " +
         number(m.servers.size());
}
std::string text(wire::begin_stage const& m) { return "stage " + number(m.stage.value()); }
std::string text(wire::run_begins const& m) {
  std::string s = "begins " + number(m.stage.value()) + " of " + number(m.count) + ":";
  for (worker_id const w : m.workers) s += " " + number(w.value());
  return s;
}
std::string text(wire::worker_starts const& m) {
  return "starts " + number(m.worker.value()) + " at " + std::to_string(m.at.clock.value());
}
std::string text(wire::server_order const& m) {
  constexpr char const* names[] = {"enlist ", "start ", "freeze ", "drop "};
  std::string s = names[static_cast<int>(m.order.what)] + number(m.order.worker.value()) + "." +
                  number(m.order.incarnation.value());
  if (m.order.what == kind::start || m.order.what == kind::drop)
    s += " at " + std::to_string(m.order.clock.value());
  return s;
}
std::string text(wire::end_stage const& m) { return "end " + number(m.stage.value()); }
std::string text(wire::run_over const& m) {
  return "over " + number(m.stage.value()) + (m.crashes > 0 ? " crashes " + number(m.crashes) : "");
}
std::string text(wire::stop_run const& m) {
  return std::string(m.fatal ? "fatal: " : m.failed ? "failed: " : "stop: ") + m.sentence;
}
std::string text(wire::expel const& m) {
  return "expel " + number(m.process) + "." + number(m.incarnation);
}
std::string text(wire::sample_loss const&) { return "sample"; }
std::string text(wire::pace_command const& m) { return "pace " + number(m.to.value()); }
std::string text(wire::cut_grant const& m) { return "cut " + std::to_string(m.c_min.value()); }
std::string text(wire::cut_mark const& m) { return "mark " + std::to_string(m.c_min.value()); }
std::string text(wire::shut_down const& m) {
  return m.failure.empty() ? "shut down" : "shut down: " + m.failure;
}
template <class Other>
std::string text(Other const&) {
  return "something that is not from the coordinator";
}

/// A coordinator, what it said to whom, and the orders that servers have not answered.
struct bench {
  explicit bench(run_control::options const& o) : control(o), servers(o.servers) {}
  bench(std::uint32_t n_servers, std::uint32_t n_workers, net::on_loss when = net::on_loss::end)
      : bench({.workers = n_workers, .servers = n_servers, .when_lost = when}) {}

  run_control control;
  std::uint32_t servers;
  time_point now{};
  std::map<place, list> heard;
  std::map<std::uint32_t, std::deque<membership_order>> orders;

  void pump() {
    for (auto const& [to, message] : control.take()) {
      heard[to].push_back(std::visit([](auto const& m) { return text(m); }, message));
      if (auto const* o = std::get_if<wire::server_order>(&message))
        orders[to.number].push_back(o->order);
    }
  }
  list told(place to) {
    pump();
    return std::exchange(heard[to], {});
  }
  void forget() {
    pump();
    heard.clear();
  }
  std::uint32_t serve() {
    return control.enroll({net::role::server, std::nullopt, "here", "", 1}, now).at.number;
  }
  run_control::enrolment come(std::optional<std::uint32_t> rank = std::nullopt) {
    return control.enroll({net::role::worker, rank, "", "", 1}, now);
  }
  void say(place from, wire::control_message const& m) { control.receive(from, m, now); }
  void ready(std::uint32_t process, std::uint32_t threads = 1) {
    say(worker(process), wire::ready{threads, false});
  }
  /// Server `s` carries out its oldest order.
  void carry_out(std::uint32_t s, std::int64_t clock = 0) {
    pump();
    membership_order const o = orders[s].front();
    orders[s].pop_front();
    std::optional<membership_report> report;
    if (o.what == kind::enlist || o.what == kind::freeze) report = membership_report{at(clock), {}};
    say(server(s), wire::order_done{o, report});
    pump();
  }
  void carry_out_all() {
    pump();
    for (bool any = true; std::exchange(any, false);)
      for (std::uint32_t s = 0; s < servers; ++s)
        for (; !orders[s].empty(); any = true) carry_out(s);
  }
  void ended(std::uint32_t process, std::uint32_t w, std::int64_t clock = 0) {
    say(worker(process), wire::worker_ended{control.stage(), worker_id{w}, at(clock), {}});
  }
  void finish(std::uint32_t s) { say(server(s), wire::stage_over{control.stage(), {}, 0}); }
  void lose(place who, bool expected = false) { control.lose(who, "cut off", expected, now); }
};

/// All servers and workers are here, and nobody is ready.
bench gathered(std::uint32_t servers, std::uint32_t workers,
               net::on_loss when = net::on_loss::end) {
  bench b(servers, workers, when);
  for (std::uint32_t s = 0; s < servers; ++s) b.serve();
  for (std::uint32_t w = 0; w < workers; ++w) (void)b.come();
  b.forget();
  return b;
}
/// A run has begun, with one worker in each process, and all of them have started.
bench running(std::uint32_t servers, std::uint32_t workers, net::on_loss when = net::on_loss::end) {
  bench b = gathered(servers, workers, when);
  for (std::uint32_t w = 0; w < workers; ++w) b.ready(w);
  b.carry_out_all();
  b.forget();
  return b;
}

template <class F>
std::string refusal_of(F f) {
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

// ---- gathering

TEST_CASE("run_control: workers are welcomed once all servers are there, and told where they are") {
  bench b(2, 2);
  CHECK(b.come().at == worker(0));
  CHECK(b.serve() == 0);
  CHECK(b.told(worker(0)).empty());
  CHECK(b.control.attendance() == "1 of 2 servers and 1 of 2 workers are here");
  CHECK(b.told(server(0)) == list{"welcome 0.0 to 0"});
  CHECK(b.serve() == 1);
  CHECK(b.told(worker(0)) == list{"welcome 0.0 to 2"});
  CHECK_FALSE(b.control.is_complete());
  CHECK(b.come().at == worker(1));
  CHECK(b.told(worker(1)) == list{"welcome 1.0 to 2"});
  CHECK(b.told(worker(0)).empty());
  CHECK(b.control.is_complete());
}

TEST_CASE("run_control: who asks for a number gets it, others the next one that is free") {
  bench b(1, 3);
  CHECK(b.come(1).at == worker(1));
  CHECK(b.come().at == worker(0));
  CHECK(b.come().at == worker(2));
}

TEST_CASE("run_control: places that are taken, or not there, are refused with a sentence") {
  bench b = gathered(1, 1);
  CHECK_THAT(refusal_of([&] { b.serve(); }), Contains("no room for number 1"));
  CHECK_THAT(refusal_of([&] { (void)b.come(0); }), Contains("worker 0 is here already"));
  wire::registration r{net::role::server, 0U, "", "", 1};
  CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, b.now); }),
             Contains("server 0 is here already"));
  r.as = net::role::coordinator;
  CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, b.now); }),
             Contains("coordinator already"));
  b.lose(server(0));
  CHECK_THAT(refusal_of([&] { (void)b.come(); }), Contains("the run is over: server 0 (here)"));
}

TEST_CASE("run_control: a worker that is lost while others are awaited ends all, or is replaced") {
  bench strict(1, 2);
  strict.serve();
  (void)strict.come();
  strict.lose(worker(0));
  CHECK(strict.control.is_over());
  bench lax(1, 2, net::on_loss::go_on);
  lax.serve();
  (void)lax.come();
  lax.lose(worker(0));
  CHECK_FALSE(lax.control.is_over());
  CHECK(lax.come(0).incarnation == 1);
  CHECK(lax.come(1).incarnation == 0);
  lax.ready(0);
  CHECK_FALSE(lax.control.is_running());
  lax.ready(1);
  CHECK(lax.control.is_running());
}

// ---- a run

TEST_CASE("run_control: a run from its beginning to its end, and what each is told, in order") {
  bench b = gathered(2, 2);
  b.ready(1, 2);
  CHECK(b.told(server(0)).empty());
  b.ready(0);
  for (std::uint32_t s = 0; s < 2; ++s)
    CHECK(b.told(server(s)) == list{"stage 1", "enlist 0.0", "enlist 1.0", "enlist 2.0"});
  CHECK(b.told(worker(0)) == list{"begins 1 of 3: 0"});
  CHECK(b.told(worker(1)) == list{"begins 1 of 3: 1 2"});
  b.carry_out(0, 4);
  CHECK(b.told(server(0)).empty());
  b.carry_out(1, 6);
  CHECK(b.told(server(0)) == list{"start 0.0 at 6"});
  b.carry_out(0);  // enlists worker 1
  b.carry_out(0);
  b.carry_out(0);  // starts worker 0
  CHECK(b.told(worker(0)).empty());
  b.carry_out_all();
  CHECK(b.told(worker(0)) == list{"starts 0 at 6"});
  CHECK(b.told(worker(1)) == list{"starts 1 at 0", "starts 2 at 0"});
  b.forget();

  b.ended(1, 2, 9);
  b.ended(0, 0, 7);
  b.ended(1, 1, 8);
  CHECK(b.told(server(1)) == list{"drop 2.0 at 9", "drop 0.0 at 7", "drop 1.0 at 8"});
  b.carry_out_all();
  CHECK(b.told(server(1)) == list{"end 1"});
  b.finish(1);
  CHECK(b.told(worker(0)).empty());
  b.finish(0);
  CHECK(b.told(worker(0)) == list{"over 1"});
  CHECK(b.told(worker(1)) == list{"over 1"});
  CHECK_FALSE(b.control.is_running());
  b.ready(0);
  b.ready(1);
  CHECK(b.told(worker(0)) == list{"begins 2 of 2: 0"});
}

TEST_CASE("run_control: when all have said farewell it is over, and servers are told") {
  bench b = gathered(1, 2);
  b.say(worker(0), wire::farewell{});
  CHECK_FALSE(b.control.is_over());
  b.say(worker(1), wire::farewell{});
  CHECK(b.control.is_over());
  CHECK(b.told(server(0)) == list{"expel 0.0", "expel 1.0", "shut down"});
}

TEST_CASE("run_control: a process that comes late joins the run under way") {
  bench b = running(1, 1);
  CHECK(b.come().at == worker(1));
  CHECK(b.told(worker(1)) == list{"welcome 1.0 to 1"});
  b.ready(1, 2);
  CHECK(b.told(worker(1)) == list{"begins 1 of 1: 1 2"});
  b.carry_out_all();
  CHECK(b.told(worker(1)) == list{"starts 1 at 0", "starts 2 at 0"});
  b.ended(0, 0);
  b.ended(1, 1);
  b.carry_out_all();
  CHECK(b.control.is_running());
  b.ended(1, 2);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(worker(1)) == list{"over 1"});
}

TEST_CASE("run_control: who comes while a run ends takes part in the next one") {
  bench b = running(1, 1);
  b.ended(0, 0);
  b.carry_out_all();
  (void)b.come();
  b.ready(1);
  b.forget();
  b.finish(0);
  CHECK(b.told(worker(0)) == list{"over 1"});
  CHECK(b.told(worker(1)).empty());
  b.ready(0);
  CHECK(b.told(worker(1)) == list{"begins 2 of 2: 1"});
}

TEST_CASE("run_control: a process may add workers until the run ends") {
  bench b = running(1, 1);
  b.say(worker(0), wire::add_worker{});
  CHECK(b.told(worker(0)) == list{"begins 1 of 1: 1"});
  b.carry_out_all();
  CHECK(b.told(worker(0)) == list{"starts 1 at 0"});
  b.say(worker(0), wire::end_run{b.control.stage(), false, errc{}, "enough"});
  CHECK(b.told(worker(0)) == list{"stop: enough"});
  b.say(worker(0), wire::add_worker{});
  CHECK(b.told(worker(0)).empty());
}

TEST_CASE("run_control: a process cannot add workers without end") {
  bench b = gathered(1, 1);
  b.ready(0, 4096);
  CHECK_THAT(refusal_of([&] { b.say(worker(0), wire::add_worker{}); }), Contains("add a worker"));
}

TEST_CASE("run_control: a body that ends the run ends it for all, once") {
  bench b = running(1, 2);
  b.say(worker(0), wire::end_run{stage_id{1}, true, errc::not_finite, "NaN"});
  b.say(worker(1), wire::end_run{stage_id{1}, true, errc::not_finite, "another NaN"});
  CHECK(b.told(worker(0)) == list{"failed: NaN"});
  CHECK(b.told(worker(1)) == list{"failed: NaN"});
  (void)b.come();
  b.ready(2);  // too late for this one
  b.ended(0, 0);
  b.ended(1, 1);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(worker(1)) == list{"over 1"});
  b.ready(0);
  b.ready(1);
  CHECK(b.told(worker(2)) == list{"welcome 2.0 to 1", "begins 2 of 3: 2"});
}

TEST_CASE("run_control: a worker that ends before it has started is given up") {
  bench b = gathered(2, 1);
  b.ready(0);
  b.ended(0, 0);
  b.forget();
  b.carry_out_all();
  CHECK(b.told(worker(0)).empty());
  CHECK(b.told(server(0)) == list{"drop 0.0 at 0", "end 1"});
}

TEST_CASE("run_control: messages of a stage before count for nothing") {
  bench b = running(1, 1);
  b.say(worker(0), wire::worker_ended{stage_id{0}, worker_id{0}, at(1), {}});
  b.say(worker(0), wire::end_run{stage_id{0}, true, errc::lost, "late"});
  b.say(server(0), wire::stage_over{stage_id{0}, {}, 0});
  b.say(server(0),
        wire::order_done{{kind::start, worker_id{9}, {}, {}, epoch_id{1}, stage_id{0}, {}},
                         std::nullopt});
  CHECK(b.told(worker(0)).empty());
  CHECK(b.told(server(0)).empty());
}

// ---- what must not be said

TEST_CASE("run_control: what a process must not say is a frame error, and changes nothing") {
  bench b = running(2, 2);
  auto const wrong = [&](place from, wire::control_message const& m) {
    INFO("message of kind " << m.index());
    CHECK_THAT(refusal_of([&] { b.say(from, m); }), Contains("frame error"));
  };
  stage_id const s = b.control.stage();
  for (std::uint32_t n : {0U, 1U}) {
    wrong(server(n), wire::ready{1, false});
    wrong(server(n), wire::add_worker{});
    wrong(server(n), wire::worker_ended{s, worker_id{0}, at(0), {}});
    wrong(server(n), wire::end_run{s, true, errc::lost, ""});
    wrong(server(n), wire::pace_note{s, {}});
    wrong(server(n), wire::loss_sample{s, {}, 0});
    wrong(server(n), wire::farewell{});
    wrong(server(n), wire::stage_over{s, {}, 0});  // it has not been told to end
  }
  wrong(worker(0), wire::ready{1, false});  // twice
  wrong(worker(0), wire::worker_ended{s, worker_id{1}, at(0), {}});
  wrong(worker(0), wire::worker_ended{s, worker_id{77}, at(0), {}});
  wrong(worker(0), wire::order_done{});
  wrong(worker(0), wire::stage_over{s, {}, 0});
  wrong(worker(0), wire::progress_note{s, worker_id{0}, at(1)});
  wrong(worker(0), wire::registration{});
  wrong(worker(0), wire::shut_down{});
  wrong(worker(0), wire::cut_request{{worker_id{0}, {}, s}, at(0), {}, true});
  wrong(worker(0), wire::cut_release{{worker_id{0}, {}, s}});
  for (place const p : {worker(0), worker(1), server(0), server(1)}) CHECK(b.told(p).empty());
}

TEST_CASE("run_control: a server's word is refused before any worker is there") {
  bench b(1, 1);
  b.serve();
  CHECK_THAT(refusal_of([&] { b.say(server(0), wire::ready{1, false}); }), Contains("frame error"));
  CHECK_THAT(refusal_of([&] { b.say(server(0), wire::add_worker{}); }), Contains("frame error"));
}

TEST_CASE("run_control: a process wants 1 to 4096 workers") {
  bench b = gathered(1, 1);
  CHECK_THAT(refusal_of([&] { b.ready(0, 0); }), Contains("expected 1 to 4096"));
  CHECK_THAT(refusal_of([&] { b.ready(0, 4097); }), Contains("expected 1 to 4096"));
}

TEST_CASE("run_control: who has said farewell is not listened to") {
  bench b = gathered(1, 2);
  b.say(worker(0), wire::farewell{});
  CHECK_THAT(refusal_of([&] { b.ready(0); }), Contains("frame error"));
}

TEST_CASE("run_control: a server says that an order is done once, and only of those it was given") {
  bench b = gathered(2, 1);
  b.ready(0);
  b.pump();
  membership_order const given = b.orders[0].front();
  auto const done = [&](membership_order o, bool reports = true) {
    std::optional<membership_report> report;
    if (reports) report = membership_report{};
    return refusal_of([&] { b.say(server(0), wire::order_done{o, report}); });
  };
  CHECK_THAT(done(given, false), Contains("frame error"));
  membership_order unknown = given;
  unknown.epoch = epoch_id{99};
  CHECK_THAT(done(unknown), Contains("frame error"));
  CHECK(done(given).empty());
  CHECK_THAT(done(given), Contains("frame error"));  // it does not count for the other server
  b.forget();
  CHECK(b.told(server(1)).empty());
}

TEST_CASE("run_control: of an order that is done, what it was is not the server's to say") {
  bench b = gathered(1, 1);
  b.ready(0);
  b.carry_out(0, 3);
  membership_order forged = b.orders[0].front();
  b.forget();
  forged.worker = worker_id{4'000'000'000};
  forged.clock = at(1000);
  b.say(server(0), wire::order_done{forged, std::nullopt});
  CHECK(b.told(worker(0)) == list{"starts 0 at 3"});
}

// ---- losses

TEST_CASE("run_control: a lost worker is frozen, then dropped below what all servers have") {
  bench b = running(2, 2, net::on_loss::go_on);
  b.lose(worker(0));
  for (std::uint32_t s = 0; s < 2; ++s) CHECK(b.told(server(s)) == list{"freeze 0.0", "expel 0.0"});
  b.carry_out(0, 9);
  b.carry_out(1, 7);
  CHECK(b.told(server(0)) == list{"drop 0.0 at 7"});
  CHECK(b.told(worker(1)).empty());
  b.carry_out_all();
  b.ended(1, 1);
  b.carry_out_all();
  b.finish(0);
  b.finish(1);
  CHECK(b.told(worker(1)) == list{"over 1 crashes 1"});
  CHECK(b.told(worker(0)).empty());
}

TEST_CASE("run_control: under end a lost worker ends the run for the others, with its name") {
  bench b = running(1, 2);
  b.lose(worker(0));
  list const said = b.told(worker(1));
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Contains("failed: worker 0 (process 1) was lost: cut off"));
  b.ended(1, 1);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(worker(1)) == list{"over 1 crashes 1"});
}

TEST_CASE("run_control: a worker lost while it joins never starts") {
  for (int confirmed = 0; confirmed < 4; ++confirmed) {
    bench b = gathered(2, 1, net::on_loss::go_on);
    b.ready(0);
    for (int i = 0; i < confirmed; ++i) b.carry_out(static_cast<std::uint32_t>(i % 2));
    b.lose(worker(0));
    b.forget();
    b.carry_out_all();
    INFO("after " << confirmed << " answers");
    CHECK(b.told(worker(0)).empty());
    list const said = b.told(server(0));
    REQUIRE(said.size() >= 2);
    CHECK(list(said.end() - 2, said.end()) == list{"drop 0.0 at 0", "end 1"});
    b.finish(0);
    b.finish(1);
    CHECK(b.control.is_over());
    CHECK(b.told(server(0)) == list{"shut down"});
  }
}

TEST_CASE("run_control: a worker lost while the run ends hangs nobody") {
  for (auto const when : {net::on_loss::end, net::on_loss::go_on}) {
    bench b = running(1, 2, when);
    b.ended(0, 0);
    b.ended(1, 1);
    b.carry_out_all();
    b.lose(worker(0));
    b.finish(0);
    CHECK(b.told(worker(1)).back() == "over 1 crashes 1");
    CHECK_FALSE(b.control.is_over());
  }
}

TEST_CASE("run_control: an idle worker that is lost ends all, or is done without") {
  bench strict = gathered(1, 2);
  strict.lose(worker(0));
  CHECK(strict.control.is_over());
  CHECK_THAT(strict.told(worker(1)).back(), Contains("fatal: worker 0"));
  bench lax = gathered(1, 2, net::on_loss::go_on);
  lax.ready(1);
  lax.lose(worker(0));
  CHECK(lax.told(worker(1)) == list{"begins 1 of 1: 0"});
}

TEST_CASE("run_control: a restarted worker joins once its earlier life is over everywhere") {
  bench b = running(2, 2, net::on_loss::go_on);
  b.lose(worker(0));
  CHECK(b.come(0).incarnation == 1);
  b.ready(0, 2);
  CHECK(b.told(worker(0)) == list{"welcome 0.1 to 2"});
  b.forget();
  b.carry_out(0);  // frozen on one server
  b.carry_out(1);
  CHECK(b.told(server(0)) == list{"drop 0.0 at 0"});
  b.carry_out(0);
  CHECK(b.told(worker(0)).empty());
  b.carry_out(1);
  CHECK(b.told(worker(0)) == list{"begins 1 of 2: 0 2"});
  CHECK(b.told(server(1)) == list{"drop 0.0 at 0", "enlist 0.1", "enlist 2.1"});
}

TEST_CASE("run_control: a worker may be lost and restarted again before its first life is over") {
  bench b = running(2, 2, net::on_loss::go_on);
  b.lose(worker(0));
  (void)b.come(0);
  b.ready(0);
  b.lose(worker(0));
  CHECK(b.come(0).incarnation == 2);
  b.ready(0);
  b.forget();
  b.carry_out_all();
  CHECK(b.told(worker(0)) == list{"begins 1 of 2: 0", "starts 0 at 0"});
  CHECK(b.told(server(0)) == list{"drop 0.0 at 0", "enlist 0.2", "start 0.2 at 0"});
}

TEST_CASE("run_control: the last worker's restart keeps the run going") {
  bench b = running(1, 1, net::on_loss::go_on);
  b.lose(worker(0));
  (void)b.come(0);
  b.ready(0);
  b.carry_out_all();
  CHECK(b.control.is_running());
  CHECK(b.told(worker(0)).back() == "starts 0 at 0");
}

TEST_CASE("run_control: a server that is lost ends everything, in whatever phase") {
  for (int phase = 0; phase < 3; ++phase) {
    bench b = phase == 0 ? gathered(2, 1) : running(2, 1, net::on_loss::go_on);
    if (phase == 2) {
      b.ended(0, 0);
      b.carry_out_all();
    }
    b.forget();
    b.lose(server(1));
    CHECK(b.control.is_over());
    CHECK(b.told(worker(0)) == list{"fatal: server 1 (here) was lost: cut off"});
    CHECK(b.told(server(0)) == list{"shut down: server 1 (here) was lost: cut off"});
  }
}

TEST_CASE("run_control: a farewell in the middle of a run is a loss") {
  bench b = running(1, 2);
  b.say(worker(0), wire::farewell{});
  CHECK_THAT(b.told(worker(1)).back(), Contains("failed: worker 0"));
}

// ---- the conductor and cuts

namespace {

/// Wants a loss every second, and orders nothing.
class sampler final : public any_conductor {
 public:
  explicit sampler(int& seen) : seen_(seen) {}
  void join(worker_id, clock_index, time_point, orders&) override {}
  void leave(worker_id) override {}
  void commit(worker_id, clock_index, time_point) override {}
  void observe(time_point, double) override {
    ++seen_;
    next_ += std::chrono::seconds(1);
  }
  void tick(time_point, orders&) override {}
  [[nodiscard]] time_point next_tick() const override { return time_point::max(); }
  [[nodiscard]] time_point next_sample() const override { return next_; }
  [[nodiscard]] std::span<pace_change const> changes() const override { return {}; }

 private:
  int& seen_;
  time_point next_{};
};

}  // namespace

TEST_CASE("run_control: when the process asked for a loss is lost, another one is asked") {
  int seen = 0;
  bench b({.workers = 2, .servers = 1, .when_lost = net::on_loss::go_on, .make_conductor = [&seen] {
             return std::make_unique<sampler>(seen);
           }});
  b.serve();
  for (std::uint32_t w = 0; w < 2; ++w) (void)b.come();
  for (std::uint32_t w = 0; w < 2; ++w) b.say(worker(w), wire::ready{1, true});
  b.carry_out_all();
  b.forget();
  b.control.tick(b.now);
  b.control.tick(b.now);
  CHECK(b.told(worker(0)) == list{"sample"});
  CHECK(b.control.next_tick() == time_point::max());
  b.lose(worker(0));
  CHECK(b.control.next_tick() == b.now);
  b.control.tick(b.now);
  CHECK(b.told(worker(1)) == list{"sample"});
  b.say(worker(1), wire::loss_sample{b.control.stage(), {}, 1});
  b.say(worker(1), wire::loss_sample{b.control.stage(), {}, 1});  // unasked
  CHECK(seen == 1);
}

TEST_CASE(
    "run_control: a cut is granted when all servers are far enough, and what was asked last "
    "counts") {
  bench b({.workers = 2,
           .servers = 1,
           .when_lost = net::on_loss::go_on,
           .synchronized = true,
           .need = [](clock_index c, staleness s) { return c - s; }});
  b.serve();
  for (std::uint32_t w = 0; w < 2; ++w) (void)b.come();
  for (std::uint32_t w = 0; w < 2; ++w) b.ready(w);
  b.carry_out_all();
  b.forget();
  stage_id const s = b.control.stage();
  sender const me{worker_id{0}, {}, s};
  auto const received = [&](std::uint32_t w, std::int64_t clock) {
    b.say(server(0), wire::progress_note{s, worker_id{w}, at(clock)});
  };
  b.say(worker(0), wire::cut_request{me, at(1), staleness{0}, true});
  b.say(worker(0), wire::cut_request{me, at(2), staleness{0}, true});
  received(0, 2);
  received(1, 1);
  CHECK(b.told(worker(0)).empty());
  received(1, 2);
  CHECK(b.told(worker(0)) == list{"cut 2"});
  CHECK_THAT(refusal_of([&] {
               b.say(worker(1), wire::cut_request{me, at(2), staleness{0}, true});
             }),
             Contains("not its own"));
  b.say(worker(0), wire::cut_request{me, at(3), staleness{0}, true});
  b.lose(worker(1));
  b.carry_out_all();
  received(0, 3);
  CHECK(b.told(worker(0)) == list{"cut 3"});
}

// ---- any order of events

namespace {

using life = std::pair<worker_id, incarnation_id>;

/// Servers that only know who is registered, worker processes that do anything they may at any
/// time, and a network that keeps the order of each pair and nothing else.
class world {
 public:
  world(std::uint64_t seed, net::on_loss when)
      : random_(seed), control_(options_for(random_, when)), when_(when) {
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      (void)control_.enroll({net::role::server, std::nullopt, "", "", 1}, now_);
      route();
    }
    for (std::uint32_t w = 0; w < begins_with_; ++w) enroll(w);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !control_.is_over(); ++i) step();
    calm_ = true;
    for (int i = 0; i < 20'000 && !control_.is_over(); ++i) step();
    CHECK(control_.is_over());
  }
  [[nodiscard]] std::uint64_t runs_ended() const noexcept { return runs_ended_; }
  [[nodiscard]] std::uint64_t lives_later() const noexcept { return lives_later_; }

 private:
  struct server_model {
    stage_id stage{};
    epoch_id newest{};
    bool ending = false;
    std::map<worker_id, incarnation_id> registered;
    std::set<life> started;
    std::deque<wire::control_message> in, out;
  };
  enum class state { gone, waits, idle, ready, runs };
  struct process_model {
    state now = state::gone;
    std::uint32_t incarnation = 0;
    bool stopping = false;
    stage_id stage{};
    std::map<worker_id, bool> workers;  // whether they have started
    std::deque<wire::control_message> in, out;
  };

  run_control::options options_for(std::mt19937_64& random, net::on_loss when) {
    servers_.resize(1 + random() % 3);
    begins_with_ = static_cast<std::uint32_t>(1 + random() % 3);
    return {.workers = begins_with_,
            .servers = static_cast<std::uint32_t>(servers_.size()),
            .when_lost = when,
            .synchronized = synchronized_ = random() % 2 == 0,
            .need = [](clock_index c, staleness bound) { return c - bound; }};
  }
  bool chance(unsigned one_in) { return random_() % one_in == 0; }

  void enroll(std::optional<std::uint32_t> rank) {
    if (control_.is_over()) return;
    auto const e = control_.enroll({net::role::worker, rank, "", "", 1}, now_);
    if (rank) CHECK(e.at.number == *rank);
    process_model& p = processes_[e.at.number];
    p = {};
    p.now = state::waits;
    p.incarnation = e.incarnation;
    route();
  }

  void route() {
    for (auto& [to, message] : control_.take())
      if (to.as == net::role::server)
        servers_[to.number].in.push_back(std::move(message));
      else if (process_model& p = processes_[to.number]; p.now != state::gone)
        p.in.push_back(std::move(message));
  }

  void step() {
    now_ += std::chrono::milliseconds(1);
    std::size_t const who = random_() % (servers_.size() + processes_.size());
    if (who < servers_.size()) return step(static_cast<std::uint32_t>(who), servers_[who]);
    auto const at_process =
        std::next(processes_.begin(), static_cast<std::ptrdiff_t>(who - servers_.size()));
    step(at_process->first, at_process->second);
    if (!calm_ && processes_.size() < 5 && chance(200)) enroll(std::nullopt);
  }

  template <class Model>
  bool deliver_from(place from, Model& m) {
    if (m.out.empty()) return false;
    wire::control_message const message = std::move(m.out.front());
    m.out.pop_front();
    control_.receive(from, message, now_);
    route();
    return true;
  }

  // ---- servers

  void step(std::uint32_t s, server_model& m) {
    if (chance(2) && deliver_from(server(s), m)) return;
    if (m.in.empty()) return;
    wire::control_message const message = std::move(m.in.front());
    m.in.pop_front();
    if (auto const* b = std::get_if<wire::begin_stage>(&message)) {
      CHECK(m.registered.empty());
      CHECK(m.stage < b->stage);
      m.stage = b->stage;
      m.started.clear();
    } else if (auto const* o = std::get_if<wire::server_order>(&message)) {
      carry_out(m, o->order);
    } else if (std::holds_alternative<wire::end_stage>(message)) {
      m.ending = true;
    }
    if (m.ending && m.registered.empty()) {
      m.ending = false;
      m.out.emplace_back(wire::stage_over{m.stage, {}, 0});
    }
  }

  void carry_out(server_model& m, membership_order const& o) {
    CHECK(o.stage == m.stage);
    CHECK(m.newest < o.epoch);
    m.newest = o.epoch;
    std::optional<membership_report> report;
    auto const there = m.registered.find(o.worker);
    if (o.what == kind::enlist) {
      CHECK(there == m.registered.end());  // no two lives at a time
      m.registered[o.worker] = o.incarnation;
    } else {
      CHECK((there != m.registered.end() && there->second == o.incarnation));
    }
    if (o.what == kind::start) m.started.insert({o.worker, o.incarnation});
    if (o.what == kind::drop) m.registered.erase(o.worker);
    if (o.what == kind::enlist || o.what == kind::freeze)
      report = membership_report{at(static_cast<std::int64_t>(random_() % 5)), {}};
    m.out.emplace_back(wire::order_done{o, report});
  }

  // ---- processes

  void step(std::uint32_t n, process_model& p) {
    if (p.now == state::gone) {
      if (!calm_ && chance(20)) enroll(n);
      return;
    }
    if (!calm_ && chance(60)) return lose(n, p);
    if (chance(3) && deliver_from(worker(n), p)) return;
    if (chance(2) && !p.in.empty()) {
      wire::control_message const message = std::move(p.in.front());
      p.in.pop_front();
      std::visit([&](auto const& m) { hear(p, m); }, message);
      return;
    }
    act(n, p);
  }

  void lose(std::uint32_t n, process_model& p) {
    if (when_ == net::on_loss::end && p.now != state::runs && !chance(20)) return;
    p.now = state::gone;
    control_.lose(worker(n), "gone", false, now_);
    route();
  }

  void act(std::uint32_t n, process_model& p) {
    if (p.now == state::idle && chance(4)) {
      if (calm_ || chance(10)) return leave(n, p);
      p.now = state::ready;
      p.out.emplace_back(wire::ready{static_cast<std::uint32_t>(1 + random_() % 3), false});
    } else if (p.now == state::runs) {
      work(p);
    }
  }

  /// Leaves once all that it said has arrived.
  void leave(std::uint32_t n, process_model& p) {
    p.out.emplace_back(wire::farewell{});
    while (deliver_from(worker(n), p)) {
    }
    p.now = state::gone;
    control_.lose(worker(n), "", true, now_);
    route();
  }

  void work(process_model& p) {
    if (p.workers.empty()) return;
    if (!calm_ && chance(30)) p.out.emplace_back(wire::add_worker{});
    if (!calm_ && chance(60)) p.out.emplace_back(wire::end_run{p.stage, true, errc::lost, ""});
    if (!calm_ && !p.stopping && !chance(8)) return;
    auto const w =
        std::next(p.workers.begin(), static_cast<std::ptrdiff_t>(random_() % p.workers.size()));
    if (w->second && synchronized_ && chance(2)) {
      auto const clock = static_cast<std::int64_t>(random_() % 5);
      p.out.emplace_back(wire::cut_request{
          {w->first, incarnation_id{p.incarnation}, p.stage}, at(clock), staleness{1}, true});
      return;
    }
    if (!w->second && !p.stopping) return;  // only who has started, or was stopped, ends
    p.out.emplace_back(
        wire::worker_ended{p.stage, w->first, at(static_cast<std::int64_t>(random_() % 9)), {}});
    p.workers.erase(w);
  }

  void hear(process_model& p, wire::welcome const& m) {
    CHECK(p.now == state::waits);
    CHECK(m.incarnation == p.incarnation);
    CHECK(m.servers.size() == servers_.size());
    p.now = state::idle;
  }
  void hear(process_model& p, wire::run_begins const& m) {
    if (p.now == state::ready) {
      CHECK(p.stage < m.stage);
      p.stage = m.stage;
      p.stopping = false;
      p.now = state::runs;
    }
    CHECK(p.now == state::runs);
    CHECK(p.stage == m.stage);
    CHECK(m.incarnation == p.incarnation);
    for (worker_id const w : m.workers) CHECK(p.workers.emplace(w, false).second);
  }
  void hear(process_model& p, wire::worker_starts const& m) {
    CHECK(p.stage == m.stage);
    for (server_model const& s : servers_)
      CHECK(s.started.contains({m.worker, incarnation_id{p.incarnation}}));
    auto const w = p.workers.find(m.worker);
    if (w == p.workers.end()) return;  // it was stopped before
    CHECK_FALSE(w->second);
    w->second = true;
    lives_later_ += p.incarnation > 0 ? 1 : 0;
  }
  void hear(process_model& p, wire::cut_grant const& m) {
    CHECK(m.to.incarnation == incarnation_id{p.incarnation});
    CHECK(m.to.stage == p.stage);
    p.out.emplace_back(wire::cut_release{m.to});
  }
  void hear(process_model& p, wire::run_over const& m) {
    CHECK(p.now == state::runs);
    CHECK(p.stage == m.stage);
    CHECK(p.workers.empty());
    p.now = state::idle;
    ++runs_ended_;
  }
  void hear(process_model& p, wire::stop_run const& m) {
    CHECK((p.now == state::runs && p.stage == m.stage && !p.stopping));
    CHECK_FALSE(m.fatal);  // nobody hears those, as all is over then
    p.stopping = true;
  }
  template <class Other>
  void hear(process_model&, Other const&) {
    FAIL("a process heard what is not for it");
  }

  std::mt19937_64 random_;
  std::vector<server_model> servers_;
  std::uint32_t begins_with_ = 0;
  bool synchronized_ = false;
  run_control control_;
  net::on_loss when_;
  time_point now_{};
  std::map<std::uint32_t, process_model> processes_;
  std::uint64_t runs_ended_ = 0;   // as processes heard
  std::uint64_t lives_later_ = 0;  // workers that started in a process that had been lost
  bool calm_ = false;              // nobody is lost or comes any more, and who is idle leaves
};

void check_worlds(net::on_loss when) {
  std::uint64_t runs = 0;
  std::uint64_t later = 0;
  for (std::uint64_t i = 0; i < test::seed_count(400); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO("repeat with --seed " << seed);
    world w(seed, when);
    w.run(3000);
    runs += w.runs_ended();
    later += w.lives_later();
  }
  INFO(runs << " runs were heard to end, and " << later << " workers started in a later life");
  if (test::seed_count(400) < 400) return;
  CHECK(runs > 1000);
  CHECK(later > 100);
}

}  // namespace

TEST_CASE(
    "run_control: whoever is lost, comes back, joins or leaves, lives do not overlap, and "
    "every run ends") {
  check_worlds(net::on_loss::go_on);
}

TEST_CASE("run_control: the same when a loss ends the run") { check_worlds(net::on_loss::end); }
