// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Stages of a task: who begins them, and which of them a loss stops.
#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/wire/control.hpp>

#include "transport/processes/process_control_bench.hpp"

using namespace rubato;
using namespace rubato::test::control;
using Catch::Contains;

TEST_CASE("process_control: a stage is what all processes want, and servers hear of it") {
  bench b = gathered(1, 2);
  for (std::uint32_t w = 0; w < 2; ++w) b.say(nth_worker(w), wire::ready{1 - w, false, 0, true});
  auto const told = b.told(nth_server(0));
  REQUIRE_FALSE(told.empty());
  CHECK(told.front() == "stage 1 changes tables");
  b.carry_out_all();
  b.ended(0, 0);  // the only worker; process 1 has none in this stage
  b.carry_out_all();
  b.finish(0);
  for (std::uint32_t w = 0; w < 2; ++w) CHECK(b.told(nth_worker(w)).back() == "over 1");
}

TEST_CASE("process_control: a stage that somebody stops is over for all, and all are told that it was stopped") {
  SECTION("while it runs") {
    bench b = running(1, 2);
    b.say(nth_worker(1), wire::end_run{b.control.stage(), false, errc{}, ""});
    for (std::uint32_t w = 0; w < 2; ++w) CHECK(b.told(nth_worker(w)) == list{"stop: "});
    for (std::uint32_t w = 0; w < 2; ++w) b.ended(w, w);
    b.carry_out_all();
    b.finish(0);
    for (std::uint32_t w = 0; w < 2; ++w) CHECK(b.told(nth_worker(w)) == list{"over 1, stopped"});
    // The next one is another one.
    for (std::uint32_t w = 0; w < 2; ++w) b.ready(w);
    b.carry_out_all();
    for (std::uint32_t w = 0; w < 2; ++w) b.ended(w, w);
    b.carry_out_all();
    b.finish(0);
    CHECK(b.told(nth_worker(0)).back() == "over 2");
  }
  SECTION("but not when all have ended by themselves") {
    bench b = running(1, 2);
    for (std::uint32_t w = 0; w < 2; ++w) b.ended(w, w);
    SECTION("and servers have yet to drop them") {}
    SECTION("and servers have been told to end") { b.carry_out_all(); }
    b.say(nth_worker(1), wire::end_run{b.control.stage(), false, errc{}, ""});
    b.carry_out_all();
    b.finish(0);
    CHECK(b.told(nth_worker(0)).back() == "over 1");
  }
  SECTION("before it begins, and nobody begins it") {
    bench b = gathered(1, 2);
    b.ready(0);
    b.say(nth_worker(1), wire::ready{.has_loss = false, .stops = true});
    for (std::uint32_t w = 0; w < 2; ++w) CHECK(b.told(nth_worker(w)) == list{"stopped before"});
    CHECK(b.told(nth_server(0)).empty());
    for (std::uint32_t w = 0; w < 2; ++w) b.ready(w);
    CHECK(b.told(nth_server(0)).front() == "stage 1");
  }
  SECTION("by who joins it late") {
    bench b = running(1, 1);
    (void)b.come();
    b.say(nth_worker(1), wire::ready{.stops = true});
    CHECK(b.told(nth_worker(0)) == list{"stop: "});
    b.ended(0, 0);
    b.ended(1, 1);
    b.carry_out_all();
    b.finish(0);
    CHECK(b.told(nth_worker(0)) == list{"over 1, stopped"});
  }
}

TEST_CASE("process_control: a failure counts also in a stage that was only to end, and a loss of tables likewise") {
  bool const moves = GENERATE(false, true);
  bench b({.workers = 2, .servers = 1, .moves_tables = {moves}}, asp{}, stand::running);
  b.say(nth_worker(1), wire::end_run{b.control.stage(), false, errc{}, ""});
  CHECK(b.told(nth_worker(0)) == list{"stop: "});
  SECTION("a failure") {
    b.say(nth_worker(1), wire::end_run{b.control.stage(), true, errc::io, "the ink has run out"});
    b.say(nth_worker(1), wire::end_run{b.control.stage(), true, errc::io, "and the paper"});
    CHECK(b.told(nth_worker(0)) == list{"failed: the ink has run out"});
  }
  SECTION("a loss") {
    b.lose(nth_worker(1));
    auto const said = b.told(nth_worker(0));
    if (moves) CHECK(said == list{"failed: worker 1 (process 1) was lost: cut off"});
    else CHECK(said.empty());
  }
}

TEST_CASE("process_control: nobody is waited for once a first stage was stopped before it began") {
  bench b = gathered(1, 2);
  b.ready(0);
  b.say(nth_worker(1), wire::ready{.stops = true});
  b.say(nth_worker(0), wire::farewell{});
  CHECK_FALSE(b.control.is_starting());
  CHECK_FALSE(b.control.is_over());
  b.say(nth_worker(1), wire::farewell{});
  CHECK(b.control.is_over());
  CHECK(b.control.failure().empty());
}

TEST_CASE("process_control: who wants another stage than the others is told in what") {
  auto const [other, what] = GENERATE(table<wire::ready, std::string>({
      {{.changes_tables = true}, "change of tables is one, expected none"},
      {{.step = 2}, "step of its task is 2, expected 0"},
      {{.workers = 3}, "number of workers is 3, expected 0"},
      {{.recover = recovery::keep}, "attempt is the first, expected one that nothing is kept for"},
      {{.keeper = 0}, "node with the tables is 0, expected none"},
      {{.run = 5}, "run is 0, expected 5"},
      {{.iterations = 50}, "number of iterations is 50, expected 0"},
  }));
  bench b = gathered(1, 2);
  b.ready(0);
  b.say(nth_worker(1), other);
  CHECK_THAT(b.control.failure(), Contains("it is at another stage than the others: its " + what));
}

TEST_CASE("process_control: who wants another stage than the others goes") {
  SECTION("and ends it for all") {
    bench b = gathered(1, 2);
    b.ready(0);
    b.say(nth_worker(1), wire::ready{1, false, 0, true});
    CHECK(b.control.is_over());
    CHECK_THAT(b.control.failure(), Contains("it is at another stage than the others"));
  }
  SECTION("and the others go on") {
    bench b = gathered(1, 2, net::on_loss::go_on);
    b.ready(0);
    b.say(nth_worker(1), wire::ready{1, false, 0, true});
    CHECK_FALSE(b.control.is_over());
    CHECK(b.told(nth_server(0)).front() == "expel 1.0");
    b.carry_out_all();
    b.ended(0, 0);
    b.carry_out_all();
    b.finish(0);
    CHECK(b.told(nth_worker(0)).back() == "over 1");
  }
  SECTION("also if it comes late") {
    bench b = running(1, 1);
    CHECK(b.come().at.number == 1);
    b.say(nth_worker(1), wire::ready{1, false, 0, true});
    CHECK_FALSE(b.control.is_over());
    CHECK_THAT(b.told(nth_worker(1)).back(), Contains("another stage"));
  }
}

TEST_CASE("process_control: who is to have the tables of a stage says where, and all of the run hear it") {
  bool const moves = GENERATE(true, false);
  bench b({.workers = 2, .servers = 1, .moves_tables = {moves}}, asp{}, stand::running);
  wire::tables_wanted const wanted{b.control.stage(), "here:1", 5};
  if (!moves) {
    CHECK_THAT(refusal_of([&] { b.say(nth_worker(0), wanted); }),
               Contains("frame error") && Contains("send me the tables"));
    return;
  }
  b.say(nth_worker(1), wanted);
  for (std::uint32_t w = 0; w < 2; ++w) CHECK(b.told(nth_worker(w)) == list{"send tables to here:1 5"});
  b.say(nth_worker(1), wire::tables_wanted{stage_id{77}, "there", 5});  // too late
  CHECK(b.told(nth_worker(0)).empty());
  CHECK_THAT(refusal_of([&] { b.say(nth_server(0), wanted); }), Contains("frame error"));
  b.ended(1, 1);
  CHECK_THAT(refusal_of([&] { b.say(nth_worker(1), wanted); }), Contains("frame error"));
}

TEST_CASE("process_control: a stage that can be begun again stops when somebody is lost, and says who") {
  auto const begin = [](bench& b, recovery what) {
    for (std::uint32_t w = 0; w < 3; ++w)
      b.say(nth_worker(w), wire::ready{.threads = w == 2 ? 0U : 1U, .step = 1, .workers = 2, .recover = what});
    b.carry_out_all();
    b.forget();
  };
  for (recovery const what : {recovery::none, recovery::keep, recovery::restore})
    for (std::uint32_t const lost : {0U, 2U}) {  // process 2 has no workers in it
      INFO("recovery " << static_cast<int>(what) << ", process " << lost << " is lost");
      bench b = gathered(1, 3, net::on_loss::go_on);
      begin(b, what);
      b.lose(nth_worker(lost));
      bool const stops = what != recovery::none && lost == 0;
      auto const told = b.told(nth_worker(1));
      CHECK(std::ranges::any_of(told, [](auto const& s) { return s.find("stop") != std::string::npos; }) == stops);
      for (std::uint32_t w = 0; w < 2; ++w)
        if (w != lost) b.ended(w, w);
      b.carry_out_all();
      b.finish(0);
      CHECK(b.told(nth_worker(1)).back() == (lost == 0 ? "over 1 crashes 1, cut off" : "over 1 crashes 1"));
      CHECK(b.lost_nodes == std::vector{lost});
      CHECK_FALSE(b.control.is_over());
    }
}

TEST_CASE("process_control: a stage whose lost process had ended its workers need not begin again") {
  bench b = gathered(1, 2, net::on_loss::go_on);
  for (std::uint32_t w = 0; w < 2; ++w)
    b.say(nth_worker(w), wire::ready{.step = 1, .workers = 2, .recover = recovery::keep});
  b.carry_out_all();
  b.ended(0, 0);
  b.carry_out_all();
  b.forget();
  b.lose(nth_worker(0));
  CHECK(b.told(nth_worker(1)).empty());
  b.ended(1, 1);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(nth_worker(1)) == list{"over 1 crashes 1"});
  CHECK(b.lost_nodes == std::vector{0U});
}

TEST_CASE("process_control: nobody goes on without the process that keeps the tables after its stage") {
  process_control::options const o{
      .workers = 2, .servers = 1, .when_lost = net::on_loss::go_on, .moves_tables = {true}};
  for (bool const keeps : {true, false})
    for (int phase = 0; phase < 3; ++phase) {
      INFO("keeps " << keeps << ", phase " << phase);
      bench b(o, asp{}, stand::gathered);
      for (std::uint32_t w = 0; w < 2; ++w)
        b.say(
            nth_worker(w),
            wire::ready{.threads = 1 - w, .step = 1, .workers = 1, .keeper = keeps ? std::optional(0U) : std::nullopt});
      b.carry_out_all();
      b.ended(0, 0);
      if (phase > 0) b.carry_out_all();
      if (phase > 1) b.finish(0);
      b.forget();
      b.lose(nth_worker(0));
      CHECK(b.control.is_over() == keeps);
      if (keeps)
        CHECK(b.told(nth_worker(1)) ==
              list{"fatal: worker 0 (process 1) was lost: cut off, with the tables of its stage"});
    }
}

TEST_CASE("process_control: a stage that had workers where somebody was lost before it is not begun, and says who") {
  for (recovery const what : {recovery::none, recovery::keep, recovery::restore}) {
    bench b = gathered(1, 3, net::on_loss::go_on);
    b.lose(nth_worker(1));
    b.say(nth_worker(0), wire::ready{.threads = 1, .step = 1, .workers = 2, .recover = what});
    b.say(nth_worker(2), wire::ready{.threads = 0, .step = 1, .workers = 2, .recover = what});
    CHECK(b.told(nth_server(0)) == list{"expel 1.0"});
    for (std::uint32_t const w : {0U, 2U}) CHECK(b.told(nth_worker(w)) == list{"not begun"});
    CHECK(b.lost_nodes == std::vector{1U});
    // They know, and ask for another one.
    for (std::uint32_t const w : {0U, 2U})
      b.say(nth_worker(w), wire::ready{.threads = 1, .step = 2, .workers = 2, .recover = what});
    CHECK(b.told(nth_worker(2)) == list{"begins 1 of 2: 1"});
  }
}

TEST_CASE("process_control: a stage whose workers are not there, as is known, is not taken for run") {
  bench b = gathered(1, 2, net::on_loss::go_on);
  b.lose(nth_worker(1));
  for (std::uint32_t step = 1; step < 3; ++step)
    b.say(nth_worker(0), wire::ready{.threads = 1, .step = step, .workers = 2});
  b.carry_out_all();
  list const told = b.told(nth_worker(0));
  REQUIRE(told.size() >= 2);
  CHECK(told[0] == "not begun");
  CHECK(std::ranges::any_of(told, [](auto const& s) { return s.starts_with("failed: a stage of 2 workers"); }));
}

TEST_CASE("process_control: who is at another step of a task goes; who is new does not decide") {
  bench b = gathered(1, 2, net::on_loss::go_on);
  for (std::uint32_t w = 0; w < 2; ++w) b.say(nth_worker(w), wire::ready{1, false, 0, false, 1, 2});
  b.carry_out_all();
  for (std::uint32_t w = 0; w < 2; ++w) b.ended(w, w);
  b.carry_out_all();
  b.finish(0);
  b.lose(nth_worker(0));
  (void)b.come(0);
  b.forget();
  b.say(nth_worker(0), wire::ready{1, false, 0, false, 1, 2});  // from the start
  b.say(nth_worker(1), wire::ready{1, false, 0, false, 2, 1});
  CHECK_THAT(b.told(nth_worker(0)).back(), Contains("another stage"));
  CHECK(b.told(nth_worker(1)).size() == 1);  // and it is in the run
}

TEST_CASE("process_control: a stage in which nobody has workers is over at once") {
  bench b = gathered(1, 1);
  b.ready(0, 0);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(nth_worker(0)).back() == "over 1");
}

TEST_CASE("process_control: who comes to a cluster later is passed over in runs that are over, and joins the next") {
  bench b = gathered(1, 2, net::on_loss::go_on);
  auto const ready = [&](std::uint32_t w, std::uint32_t run) { b.say(nth_worker(w), wire::ready{.run = run}); };
  auto const end = [&](std::uint32_t w, std::uint32_t number) {
    b.ended(w, number);
    b.carry_out_all();
  };
  for (std::uint32_t w = 0; w < 2; ++w) ready(w, 1);
  b.carry_out_all();
  end(0, 0);
  end(1, 1);
  b.finish(0);
  b.lose(nth_worker(1));
  bool const run_is_under_way = GENERATE(true, false);
  if (run_is_under_way) ready(0, 2);
  b.carry_out_all();
  (void)b.come(1);
  b.forget();
  ready(1, 1);
  if (!run_is_under_way) {
    CHECK(b.told(nth_worker(1)).empty());
    ready(0, 2);
    CHECK(b.told(nth_worker(0)) == list{"begins 2 of 1: 0"});
  }
  CHECK(b.told(nth_worker(1)) == list{"not begun"});
  ready(1, 2);
  CHECK(b.told(nth_worker(1)).size() == 1);
  b.carry_out_all();
  end(0, 0);
  end(1, 1);
  b.finish(0);
  CHECK(b.told(nth_worker(1)).back() == "over 2");
}

TEST_CASE("process_control: nobody waits in the next run for who is new and does not get ready, or misses who goes") {
  bench b = running(1, 1, GENERATE(net::on_loss::end, net::on_loss::go_on));
  (void)b.come();
  b.ended(0, 0);
  b.carry_out_all();
  b.finish(0);
  b.forget();
  b.ready(0);
  CHECK(b.told(nth_worker(0)) == list{"begins 2 of 1: 0"});
  CHECK(b.told(nth_worker(1)).empty());
  b.carry_out_all();
  SECTION("it joins late") {
    b.ready(1);
    CHECK(b.told(nth_worker(1)) == list{"begins 2 of 1: 1"});
  }
  SECTION("it goes") {
    b.lose(nth_worker(1));
    CHECK_FALSE(b.control.is_over());
    CHECK(b.control.is_running());
  }
  SECTION("it wants another stage, between two") {
    b.ended(0, 0);
    b.carry_out_all();
    b.finish(0);
    b.say(nth_worker(1), wire::ready{.changes_tables = true});
    b.forget();
    b.ready(0);
    CHECK_THAT(b.told(nth_worker(1)).back(), Contains("another stage"));
    CHECK(b.control.is_running());
  }
}

TEST_CASE("process_control: a task goes on without one whose next life has come, and is not ready") {
  bench b = gathered(1, 2, net::on_loss::go_on);
  for (std::uint32_t w = 0; w < 2; ++w) b.say(nth_worker(w), wire::ready{.step = 1, .workers = 2});
  b.carry_out_all();
  b.lose(nth_worker(1));
  (void)b.come(1);
  b.carry_out_all();
  b.ended(0, 0);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(nth_worker(0)).back() == "over 1 crashes 1, cut off");
  CHECK(b.lost_nodes == std::vector<std::uint32_t>{1});
  b.say(nth_worker(0), wire::ready{.step = 2, .workers = 1});
  CHECK(b.told(nth_worker(0)) == list{"begins 2 of 1: 0"});
}

TEST_CASE("process_control: where all who were in a run are gone, who is new is in none before it") {
  bench b = gathered(1, 2, net::on_loss::go_on);
  auto const ready = [&](std::uint32_t w, std::uint32_t run) { b.say(nth_worker(w), wire::ready{.run = run}); };
  for (std::uint32_t run = 1; run <= 2; ++run) {
    for (std::uint32_t w = 0; w < 2; ++w) ready(w, run);
    b.carry_out_all();
    if (run == 2) break;
    for (std::uint32_t w = 0; w < 2; ++w) b.ended(w, w);
    b.carry_out_all();
    b.finish(0);
  }
  for (std::uint32_t w = 0; w < 2; ++w) {
    b.lose(nth_worker(w));
    (void)b.come(w);
  }
  b.carry_out_all();
  b.finish(0);
  b.forget();
  ready(0, 1);
  CHECK(b.told(nth_worker(0)) == list{"not begun"});
  ready(1, 1);
  ready(1, 2);
  ready(0, 2);
  CHECK(b.told(nth_worker(0)).size() == 1);
  CHECK_FALSE(b.control.is_over());
}
