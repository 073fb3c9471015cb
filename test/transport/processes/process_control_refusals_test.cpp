// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What processes must not say to the coordinator.
#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <optional>

#include "transport/processes/process_control_bench.hpp"

using namespace rubato;
using namespace rubato::test::control;
using Catch::Contains;

TEST_CASE("process_control: what a process must not say is a frame error, and changes nothing") {
  bench b = running(2, 2);
  auto const wrong = [&](place from, wire::control_message const& m) {
    INFO("message of kind " << m.index());
    CHECK_THAT(refusal_of([&] { b.say(from, m); }), Contains("frame error"));
  };
  stage_id const s = b.control.stage();
  for (std::uint32_t n : {0U, 1U}) {
    wrong(nth_server(n), wire::ready{1, false, 0, false});
    wrong(nth_server(n), wire::add_worker{});
    wrong(nth_server(n), wire::worker_ended{s, worker_id{0}, at(0), {}});
    wrong(nth_server(n), wire::end_run{s, true, errc::lost, ""});
    wrong(nth_server(n), wire::pace_note{s, {}});
    wrong(nth_server(n), wire::loss_sample{s, {}, 0});
    wrong(nth_server(n), wire::farewell{});
    wrong(nth_server(n), wire::stage_over{s, {}, 0});  // it has not been told to end
  }
  wrong(nth_worker(0), wire::ready{1, false, 0, false});  // twice
  wrong(nth_worker(0), wire::worker_ended{s, worker_id{1}, at(0), {}});
  wrong(nth_worker(0), wire::worker_ended{s, worker_id{77}, at(0), {}});
  wrong(nth_worker(0), wire::order_done{});
  wrong(nth_worker(0), wire::stage_over{s, {}, 0});
  wrong(nth_worker(0), wire::progress_note{s, worker_id{0}, at(1)});
  wrong(nth_worker(0), wire::registration{});
  wrong(nth_worker(0), wire::shut_down{});
  wrong(nth_worker(0), wire::cut_request{{worker_id{0}, {}, s}, at(0), {}, true});
  wrong(nth_worker(0), wire::cut_release{{worker_id{0}, {}, s}});
  for (place const p : {nth_worker(0), nth_worker(1), nth_server(0), nth_server(1)}) CHECK(b.told(p).empty());
}

TEST_CASE("process_control: a server's word is refused before any worker is there") {
  bench b(1, 1);
  b.serve();
  CHECK_THAT(refusal_of([&] { b.say(nth_server(0), wire::ready{1, false, 0, false}); }), Contains("frame error"));
  CHECK_THAT(refusal_of([&] { b.say(nth_server(0), wire::add_worker{}); }), Contains("frame error"));
}

TEST_CASE("process_control: a process wants at most 4096 workers, under a protocol that there is") {
  bench b = gathered(1, 1);
  CHECK_THAT(refusal_of([&] { b.ready(0, 4097); }), Contains("expected at most 4096"));
  CHECK_THAT(refusal_of([&] { b.say(nth_worker(0), wire::ready{1, false, 1, {}}); }),
             Contains("wants protocol 1, expected one below 1"));
}

TEST_CASE("process_control: who has said farewell is not listened to") {
  bench b = gathered(1, 2);
  b.say(nth_worker(0), wire::farewell{});
  CHECK_THAT(refusal_of([&] { b.ready(0); }), Contains("frame error"));
}

TEST_CASE("process_control: a server says that an order is done once, and only of those it was given") {
  bench b = gathered(2, 1);
  b.ready(0);
  b.pump();
  membership_order const given = b.orders[0].front();
  auto const done = [&](membership_order o, bool reports = true) {
    std::optional<membership_report> report;
    if (reports) report = membership_report{};
    return refusal_of([&] { b.say(nth_server(0), wire::order_done{o, report}); });
  };
  CHECK_THAT(done(given, false), Contains("frame error"));
  membership_order unknown = given;
  unknown.epoch = epoch_id{99};
  CHECK_THAT(done(unknown), Contains("frame error"));
  CHECK(done(given).empty());
  CHECK_THAT(done(given), Contains("frame error"));  // it does not count for the other server
  b.forget();
  CHECK(b.told(nth_server(1)).empty());
}

TEST_CASE("process_control: of an order that is done, what it was is not the server's to say") {
  bench b = gathered(1, 1);
  b.ready(0);
  b.carry_out(0, 3);
  membership_order forged = b.orders[0].front();
  b.forget();
  forged.worker = worker_id{4'000'000'000};
  forged.clock = at(1000);
  b.say(nth_server(0), wire::order_done{forged, std::nullopt});
  CHECK(b.told(nth_worker(0)) == list{"starts 0 at 3"});
}
