// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Processes that are lost, and such that come back.
#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>
#include <malloc.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "transport/processes/process_control_bench.hpp"

using namespace rubato;
using namespace rubato::test::control;
using Catch::Contains;

TEST_CASE("process_control: a lost worker is frozen, then dropped below what all servers have") {
  bench b = running(2, 2, net::on_loss::go_on);
  b.lose(nth_worker(0));
  for (std::uint32_t s = 0; s < 2; ++s) CHECK(b.told(nth_server(s)) == list{"freeze 0.0", "expel 0.0"});
  b.carry_out(0, 9);
  b.carry_out(1, 7);
  CHECK(b.told(nth_server(0)) == list{"drop 0.0 at 7"});
  CHECK(b.told(nth_worker(1)).empty());
  b.carry_out_all();
  b.ended(1, 1);
  b.carry_out_all();
  b.finish(0);
  b.finish(1);
  CHECK(b.told(nth_worker(1)) == list{"over 1 crashes 1, cut off"});
  CHECK(b.told(nth_worker(0)).empty());
}

TEST_CASE("process_control: under end a lost worker ends the run for the others, with its name") {
  bench b = running(1, 2);
  b.lose(nth_worker(0));
  list const said = b.told(nth_worker(1));
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Contains("failed: worker 0 (process 1) was lost: cut off"));
  b.ended(1, 1);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(nth_worker(1)) == list{"over 1 crashes 1, cut off"});
}

TEST_CASE("process_control: a worker lost while it joins never starts") {
  for (int confirmed = 0; confirmed < 4; ++confirmed) {
    bench b = gathered(2, 1, net::on_loss::go_on);
    b.ready(0);
    for (int i = 0; i < confirmed; ++i) b.carry_out(static_cast<std::uint32_t>(i % 2));
    b.lose(nth_worker(0));
    b.forget();
    b.carry_out_all();
    INFO("after " << confirmed << " answers");
    CHECK(b.told(nth_worker(0)).empty());
    list const said = b.told(nth_server(0));
    REQUIRE(said.size() >= 2);
    CHECK(list(said.end() - 2, said.end()) == list{"drop 0.0 at 0", "end 1"});
    b.finish(0);
    b.finish(1);
    CHECK(b.control.is_over());
    CHECK(b.told(nth_server(0)) == list{"shut down: worker 0 (process 1) was lost: cut off"});
  }
}

TEST_CASE("process_control: a worker lost while the run ends hangs nobody") {
  for (auto const when : {net::on_loss::end, net::on_loss::go_on}) {
    bench b = running(1, 2, when);
    b.ended(0, 0);
    b.ended(1, 1);
    b.carry_out_all();
    b.lose(nth_worker(0));
    b.finish(0);
    CHECK(b.told(nth_worker(1)).back() == "over 1 crashes 1");
    CHECK_FALSE(b.control.is_over());
  }
}

TEST_CASE("process_control: an idle worker that is lost ends all, or is done without") {
  bench strict = running(1, 2);
  for (std::uint32_t w = 0; w < 2; ++w) strict.ended(w, w);
  strict.carry_out_all();
  strict.finish(0);
  strict.lose(nth_worker(0));
  CHECK(strict.control.is_over());
  CHECK_THAT(strict.told(nth_worker(1)).back(), Contains("fatal: worker 0"));
  bench lax = gathered(1, 2, net::on_loss::go_on);
  lax.ready(0);
  lax.lose(nth_worker(1));
  CHECK(lax.told(nth_worker(0)) == list{"begins 1 of 1: 0"});
}

TEST_CASE("process_control: a restarted worker joins once its earlier life is over everywhere") {
  bench b = running(2, 2, net::on_loss::go_on);
  b.lose(nth_worker(0));
  CHECK(b.come(0).incarnation == 1);
  b.ready(0, 2);
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.1 to 2"});
  b.forget();
  b.carry_out(0);  // frozen on one server
  b.carry_out(1);
  CHECK(b.told(nth_server(0)) == list{"drop 0.0 at 0"});
  b.carry_out(0);
  CHECK(b.told(nth_worker(0)).empty());
  b.carry_out(1);
  CHECK(b.told(nth_worker(0)) == list{"begins 1 of 2: 0 2"});
  CHECK(b.told(nth_server(1)) == list{"drop 0.0 at 0", "enlist 0.1", "enlist 2.1"});
}

TEST_CASE("process_control: a worker that is started again and again costs no memory") {
  bench b = running(2, 2, net::on_loss::go_on);
  std::size_t before = 0;
  for (int life = 1; life <= 2000; ++life) {
    if (life == 500) before = ::mallinfo2().uordblks;
    b.lose(nth_worker(1));
    (void)b.come(1);
    b.ready(1);
    b.carry_out_all();
    b.forget();
  }
  CHECK(::mallinfo2().uordblks < before + 10'000);  // which is 7 bytes for each
}

TEST_CASE("process_control: those who come without a rank, and go again, cost no memory either") {
  bench b(1, 2, net::on_loss::go_on);
  b.serve();
  for (int w = 0; w < 2; ++w) (void)b.come();
  int const how = GENERATE(0, 1, 2, 3);
  recovery const recover = how == 1 ? recovery::keep : recovery::none;  // then the report says who was lost
  for (std::uint32_t w = 0; w < 2; ++w) b.say(nth_worker(w), wire::ready{.recover = recover});
  b.carry_out_all();
  INFO((std::array{"lost", "ended and left", "never ready", "at another stage"}[static_cast<std::size_t>(how)]));
  std::size_t before = 0;
  for (std::uint32_t life = 0; life < 2000; ++life) {
    if (life == 500) before = ::mallinfo2().uordblks;
    auto const e = b.come();
    REQUIRE(e.at == nth_worker(2));
    REQUIRE(e.incarnation == life);
    if (how != 2) b.say(nth_worker(2), wire::ready{.changes_tables = how == 3, .recover = recover});
    b.carry_out_all();
    if (how == 1) b.ended(2, 2);
    if (how == 1) b.say(nth_worker(2), wire::farewell{});
    b.lose(nth_worker(2));
    b.carry_out_all();
    b.forget();
  }
  CHECK(::mallinfo2().uordblks < before + 4'000);  // which is less than 3 bytes for each
}

TEST_CASE("process_control: a number is given again once its process has gone, and higher than before as a life") {
  bench b = running(1, 2, net::on_loss::go_on);
  CHECK(b.come().at == nth_worker(2));
  b.lose(nth_worker(1));
  CHECK(b.come().at == nth_worker(3));  // 1 is for who comes with it
  b.lose(nth_worker(2));
  b.forget();
  auto const again = b.come();
  CHECK(again.at == nth_worker(2));
  CHECK(again.incarnation == 1);
  CHECK(b.told(nth_server(0)) == list{"admit 2.1"});
  // The others go on without who is still there: not yet.
  b.ready(2);
  b.carry_out_all();
  b.say(nth_worker(2), wire::end_run{b.control.stage(), true, errc::io, "the ink has run out"});
  CHECK(b.come().at == nth_worker(4));
  b.lose(nth_worker(2));
  CHECK(b.come().at == nth_worker(2));
}

TEST_CASE("process_control: who is given a number again begins once its last life is over everywhere") {
  bench b = running(2, 1, net::on_loss::go_on);
  (void)b.come();
  b.ready(1);
  b.carry_out_all();
  b.lose(nth_worker(1));
  REQUIRE(b.come().at == nth_worker(1));
  b.ready(1);
  b.forget();
  b.carry_out(0);  // frozen on one server
  CHECK(b.told(nth_worker(1)).empty());
  b.carry_out_all();
  CHECK(b.told(nth_worker(1)) == list{"begins 1 of 1: 1", "starts 1 at 0"});
}

TEST_CASE("process_control: a worker may be lost and restarted again before its first life is over") {
  bench b = running(2, 2, net::on_loss::go_on);
  b.lose(nth_worker(0));
  (void)b.come(0);
  b.ready(0);
  b.lose(nth_worker(0));
  CHECK(b.come(0).incarnation == 2);
  b.ready(0);
  b.forget();
  b.carry_out_all();
  CHECK(b.told(nth_worker(0)) == list{"begins 1 of 2: 0", "starts 0 at 0"});
  CHECK(b.told(nth_server(0)) == list{"drop 0.0 at 0", "enlist 0.2", "start 0.2 at 0"});
}

TEST_CASE("process_control: the last worker's restart keeps the run going") {
  bench b = running(1, 1, net::on_loss::go_on);
  b.lose(nth_worker(0));
  (void)b.come(0);
  b.ready(0);
  b.carry_out_all();
  CHECK(b.control.is_running());
  CHECK(b.told(nth_worker(0)).back() == "starts 0 at 0");
}

TEST_CASE("process_control: a run of which nobody has come to the end has failed, also where it goes on after losses") {
  bench b = running(1, 2, net::on_loss::go_on);
  b.lose(nth_worker(0));
  b.carry_out_all();
  SECTION("as all are lost") {
    b.lose(nth_worker(1));
    b.carry_out_all();
    b.finish(0);
    CHECK(b.told(nth_server(0)).back() == "shut down: worker 1 (process 1) was lost: cut off");
    CHECK(b.control.failure() == "worker 1 (process 1) was lost: cut off");
  }
  SECTION("but not where one has come to its end, and is lost then") {
    b.ended(1, 1);
    b.carry_out_all();
    b.finish(0);
    b.lose(nth_worker(1));
    CHECK(b.told(nth_server(0)).back() == "shut down");
    CHECK(b.control.failure().empty());
  }
  SECTION("but not where one is left") {
    b.ended(1, 1);
    b.carry_out_all();
    b.finish(0);
    b.say(nth_worker(1), wire::farewell{});
    CHECK(b.told(nth_server(0)).back() == "shut down");
    CHECK(b.control.failure().empty());
  }
}

TEST_CASE("process_control: a server that is lost ends everything, in whatever phase") {
  for (int phase = 0; phase < 3; ++phase) {
    bench b = phase == 0 ? gathered(2, 1) : running(2, 1, net::on_loss::go_on);
    if (phase == 2) {
      b.ended(0, 0);
      b.carry_out_all();
    }
    b.forget();
    b.lose(nth_server(1));
    CHECK(b.control.is_over());
    CHECK(b.told(nth_worker(0)) == list{"fatal: server 1 (here) was lost: cut off"});
    CHECK(b.told(nth_server(0)) == list{"shut down: server 1 (here) was lost: cut off"});
  }
}

TEST_CASE("process_control: nobody goes on without the process that has the tables of a stage") {
  bool const moves = GENERATE(true, false);
  process_control::options const o{
      .workers = 2, .servers = 1, .when_lost = net::on_loss::go_on, .moves_tables = {moves}};
  for (int phase = 0; phase < 3; ++phase) {
    bench b(o, asp{}, phase == 0 ? stand::gathered : stand::running);
    if (phase == 2) {  // it has given them back
      b.ended(0, 0);
      b.carry_out_all();
    }
    b.forget();
    b.lose(nth_worker(0));
    INFO("moves tables: " << moves << ", phase " << phase);
    CHECK(b.control.is_over() == (moves && phase == 1));
    if (!b.control.is_over()) continue;
    CHECK(b.told(nth_worker(1)) ==
          list{"fatal: worker 0 (process 1) was lost: cut off, with the tables of its stage"});
  }
}

TEST_CASE("process_control: a farewell in the middle of a run is a loss") {
  bench b = running(1, 2);
  b.say(nth_worker(0), wire::farewell{});
  CHECK_THAT(b.told(nth_worker(1)).back(), Contains("failed: worker 0"));
}

// ---- before the first run

TEST_CASE("process_control: whoever takes worker 0's place before it was ready sends the initial values") {
  auto const rank = GENERATE(std::optional<std::uint32_t>{0U}, std::optional<std::uint32_t>{});
  bench b(1, 2, net::on_loss::go_on);
  b.serve();
  (void)b.come();
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.0 to 1, initial values"});
  (void)b.come();
  CHECK(b.told(nth_worker(1)) == list{"welcome 1.0 to 1"});
  b.ready(1);
  b.forget();
  b.lose(nth_worker(0));  // perhaps in the middle of them
  CHECK(b.told(nth_server(0)) == list{"expel 0.0, and its values"});
  CHECK_FALSE(b.control.is_over());
  CHECK_FALSE(b.control.is_complete());
  CHECK(b.control.attendance() == "1 of 1 servers and 1 of 2 workers are here, without worker 0");
  CHECK_FALSE(b.control.is_running());  // though it may go on without others
  process_control::enrolment const next = b.come(rank);
  CHECK(next.at == nth_worker(0));
  CHECK(next.incarnation == 1);
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.1 to 1, initial values"});
  CHECK_FALSE(b.control.is_running());
  b.ready(0);
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: no run begins without worker 0, which has the initial values") {
  bench b(1, 2);
  b.serve();
  for (int i = 0; i < 3; ++i) (void)b.come();
  b.lose(nth_worker(0));
  b.ready(1);
  b.ready(2);
  CHECK_FALSE(b.control.is_complete());
  CHECK_FALSE(b.control.is_running());
  CHECK(b.control.attendance() == "1 of 1 servers and 2 of 2 workers are here, without worker 0");
  CHECK(b.control.awaited() == "worker 0; worker 0 (process 1) was lost: cut off");
  (void)b.come(0);
  CHECK(b.control.is_complete());
  b.ready(0);
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: initial values are sent once, and a run goes on without who has sent them") {
  bench b = gathered(1, 2, net::on_loss::go_on);
  b.ready(0);
  b.lose(nth_worker(0));
  CHECK(b.come().at == nth_worker(0));
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.1 to 1"});
  b.lose(nth_worker(0));
  b.ready(1);
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: who leaves before the first run is waited for by those who stay") {
  net::on_loss const when = GENERATE(net::on_loss::end, net::on_loss::go_on);
  bench b = gathered(1, 2, when);
  if (GENERATE(true, false)) b.say(nth_worker(0), wire::farewell{});
  else b.lose(nth_worker(0));
  b.ready(1);
  CHECK_FALSE(b.control.is_over());
  CHECK_FALSE(b.control.is_running());  // it has the initial values
  (void)b.come(0);
  b.ready(0);
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: who says that it cannot go on is lost, whether the run goes on or not") {
  std::string const why = "server 1 (there) was lost";
  bench b = running(1, 2);
  b.say(nth_worker(0), wire::farewell{why});
  CHECK(b.told(nth_worker(1)) == list{"failed: worker 0 (process 1) was lost: " + why});
  bench lax = running(1, 2, net::on_loss::go_on);
  lax.say(nth_worker(0), wire::farewell{why});
  CHECK(lax.told(nth_worker(1)).empty());
  CHECK(lax.told(nth_server(0)) == list{"freeze 0.0", "expel 0.0"});
  bench idle = gathered(1, 2);
  idle.say(nth_worker(0), wire::farewell{why});
  CHECK(idle.control.is_over());
}

TEST_CASE("process_control: a loss that ends the run ends the servers with an error once all have left") {
  bench b = running(1, 2);
  b.lose(nth_worker(1));
  b.carry_out_all();
  b.ended(0, 0);
  b.carry_out_all();
  b.finish(0);
  b.forget();
  SECTION("and nobody begins another") {
    b.say(nth_worker(0), wire::farewell{});
    CHECK(b.told(nth_server(0)).back() == "shut down: worker 1 (process 1) was lost: cut off");
    CHECK(b.control.failure() == "worker 1 (process 1) was lost: cut off");
  }
  SECTION("but a run after it may end well") {
    b.ready(0);
    b.carry_out_all();
    b.ended(0, 0);
    b.carry_out_all();
    b.finish(0);
    b.say(nth_worker(0), wire::farewell{});
    CHECK(b.told(nth_server(0)).back() == "shut down");
    CHECK(b.control.failure().empty());
  }
}

TEST_CASE(
    "process_control: of several losses the first has ended the run, and none where it was ended "
    "before") {
  bench b = running(1, 3);
  SECTION("the first") { b.lose(nth_worker(1)); }
  SECTION("none") { b.say(nth_worker(0), wire::end_run{b.control.stage(), false, errc::stopped, ""}); }
  bool const wanted = b.told(nth_worker(0)) == list{"stop: "};
  b.lose(nth_worker(2));
  b.carry_out_all();
  for (std::uint32_t w = 0; w < (wanted ? 2U : 1U); ++w) b.ended(w, w);
  b.carry_out_all();
  b.finish(0);
  for (std::uint32_t w = 0; w < (wanted ? 2U : 1U); ++w) b.say(nth_worker(w), wire::farewell{});
  CHECK(b.control.is_over());
  CHECK(b.control.failure() == (wanted ? "" : "worker 1 (process 1) was lost: cut off"));
}

TEST_CASE("process_control: whose body throws is lost, where the others go on without who is lost") {
  bench b = running(1, 3, net::on_loss::go_on);
  b.say(nth_worker(1), wire::end_run{b.control.stage(), true, errc::io, "the ink has run out"});
  CHECK(b.told(nth_worker(1)) == list{"fatal: the ink has run out"});
  CHECK(b.told(nth_worker(0)).empty());
  CHECK(b.told(nth_server(0)) == list{"freeze 1.0", "expel 1.0"});
  // It may not have heard of it.
  b.ended(1, 1, 7);
  b.say(nth_worker(1), wire::farewell{"the ink has run out"});
  b.lose(nth_worker(1));
  b.carry_out_all();
  CHECK(b.told(nth_server(0)) == list{"drop 1.0 at 0"});
  CHECK(b.come(1).incarnation == 1);
  b.ready(1);
  b.carry_out_all();
  CHECK(b.told(nth_worker(1)) == list{"welcome 1.1 to 1", "begins 1 of 3: 1", "starts 1 at 0"});
  // Who asks for the end of the run ends it.
  b.say(nth_worker(2), wire::end_run{b.control.stage(), false, errc::stopped, ""});
  CHECK(b.told(nth_worker(0)) == list{"stop: "});
}

TEST_CASE("process_control: who comes when the others are done does not begin anew, alone") {
  bench b = running(1, 2, net::on_loss::go_on);
  b.lose(nth_worker(1));
  b.carry_out_all();
  b.ended(0, 0);
  b.carry_out_all();
  b.finish(0);
  (void)b.come(1);
  b.ready(1);
  b.forget();
  SECTION("when the last of them leaves") {
    b.say(nth_worker(0), wire::farewell{});
    CHECK(b.told(nth_worker(1)) ==
          list{"fatal: the run is over: those who took part in it have left"});
    CHECK(b.told(nth_server(0)) == list{"expel 0.0", "shut down"});
    CHECK(b.control.is_over());
  }
  SECTION("but goes on where they were lost") {
    b.lose(nth_worker(0));
    CHECK(b.told(nth_worker(1)) == list{"begins 2 of 1: 0"});
  }
  SECTION("and takes part in their next run") {
    b.ready(0);
    CHECK(b.told(nth_worker(1)) == list{"begins 2 of 2: 1"});
  }
}

TEST_CASE("process_control: who was done after a run before does not count for a later one") {
  bench b = running(1, 2, net::on_loss::go_on);
  for (std::uint32_t w = 0; w < 2; ++w) b.ended(w, w);
  b.carry_out_all();
  b.finish(0);
  b.say(nth_worker(1), wire::farewell{});
  b.ready(0);
  b.carry_out_all();
  CHECK(b.control.is_running());
  (void)b.come();
  b.lose(nth_worker(0));
  b.carry_out_all();
  b.finish(0);
  CHECK_FALSE(b.control.is_over());
  b.ready(2);
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: who was let in ends at the clock it was let in at, or later") {
  bench b = running(1, 1);
  (void)b.come();
  b.ready(1);
  b.carry_out(0, 5);  // enlisted at 5
  b.carry_out_all();  // and told so
  b.forget();
  b.ended(1, 1, 0);  // it has not heard of it
  CHECK(b.told(nth_server(0)) == list{"drop 1.0 at 5"});
}

TEST_CASE("process_control: who is one too many may leave before the first run") {
  bench b = gathered(1, 2);
  (void)b.come();
  b.ready(0);
  b.ready(1);
  CHECK_FALSE(b.control.is_running());  // it waits for all who are here
  b.say(nth_worker(2), wire::farewell{});
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: whoever waits for the first run is told for whom") {
  bench b(2, 3);
  CHECK(b.control.is_starting());
  CHECK(b.control.awaited() == "servers 0 and 1, and workers 0, 1 and 2");
  b.serve();
  (void)b.come(1);
  CHECK(b.control.awaited() == "server 1, and workers 0 and 2");
  b.serve();
  b.ready(1);
  (void)b.come(0);
  CHECK(b.control.awaited() == "worker 2, and worker 0 (here, but not ready)");
  b.lose(nth_worker(0));
  CHECK(b.control.awaited() == "workers 0 and 2; worker 0 (process 1) was lost: cut off");
  (void)b.come(0);
  CHECK_THAT(refusal_of([&] { (void)b.come(2, "other tables"); }), Contains("other tables"));
  (void)b.come(2);
  CHECK(b.control.is_complete());
  CHECK(b.control.is_starting());
  CHECK(b.control.awaited() == "workers 0 and 2 (here, but not ready)");
  b.ready(0);
  b.ready(2);
  CHECK(b.control.is_running());
  CHECK_FALSE(b.control.is_starting());

  bench calm = gathered(1, 2);  // nobody is ready, so nobody waits
  CHECK_FALSE(calm.control.is_starting());
  bench many(1, 2147483647);
  CHECK(many.control.awaited() == "server 0, and workers 0, 1, 2, 3, 4, 5, 6, 7 and 2147483639 others");
}

TEST_CASE("process_control: the first run does not begin with a process whose connection is broken") {
  coordination::place const who = GENERATE(nth_worker(0), nth_server(0));
  bench b = gathered(1, 2);
  b.ready(0);
  b.control.set_connected(who, false, b.now);
  b.ready(1);
  CHECK_FALSE(b.control.is_running());
  CHECK(b.control.is_starting());
  CHECK(b.control.awaited() ==
        (who == nth_worker(0) ? "worker 0" : "server 0") + std::string(" (here, but its connection is broken)"));
  SECTION("it is back") {
    b.control.set_connected(who, true, b.now);
    CHECK(b.control.is_running());
  }
  SECTION("it is lost") {
    b.lose(who);
    CHECK_FALSE(b.control.is_running());
    CHECK(b.control.is_over() == (who == nth_server(0)));  // whose address the workers know
    if (who == nth_server(0)) return;
    (void)b.come(0);
    b.ready(0);
    CHECK(b.control.is_running());
  }
}

TEST_CASE("process_control: who was turned away is quoted until somebody is in its place") {
  bench b(1, 9);
  (void)b.come(0);
  std::string const here = "server 0, and workers 1, 2, 3, 4, 5, 6, 7 and 8";
  CHECK(b.control.awaited() == here);
  auto const turned_away = [&](std::optional<std::uint32_t> rank) {
    std::string const why = refusal_of([&] { (void)b.come(rank, "other tables"); });
    CHECK_THAT(why, Contains("other tables"));
    return "; " + why;
  };
  std::string const second = turned_away(2), third = turned_away(3), nameless = turned_away(std::nullopt);
  CHECK(b.control.awaited() == here + nameless + second + third);
  SECTION("also while others enroll") {
    b.serve();
    (void)b.come(1);
    CHECK(b.control.awaited() == "workers 2, 3, 4, 5, 6, 7 and 8" + nameless + second + third);
    (void)b.come(2);
    CHECK(b.control.awaited() == "workers 3, 4, 5, 6, 7 and 8" + nameless + third);
    (void)b.come();  // and is given number 3
    CHECK(b.control.awaited() == "workers 4, 5, 6, 7 and 8");
  }
  SECTION("with few others") {
    for (std::uint32_t w = 4; w < 1000; ++w) (void)turned_away(w);
    CHECK(b.control.awaited().size() < 1000);
  }
}

TEST_CASE("process_control: when patience ends, all are told what was missing") {
  bench b(2, 2);
  b.serve();
  (void)b.come();
  CHECK_FALSE(b.control.is_awaited());
  b.ready(0);
  CHECK(b.control.is_awaited());
  b.forget();
  b.control.give_up("only " + b.control.attendance());
  CHECK(b.control.is_over());
  std::string const sentence = "only 1 of 2 servers and 1 of 2 workers are here";
  CHECK(b.told(nth_worker(0)) == list{"fatal: " + sentence});
  CHECK(b.told(nth_server(0)) == list{"shut down: " + sentence});
}

TEST_CASE(
    "process_control: workers that come and go one by one, and never run, end it when all have been "
    "here") {
  bench b(1, 2);
  b.serve();
  (void)b.come(0);
  b.say(nth_worker(0), wire::farewell{});
  CHECK_FALSE(b.control.is_over());
  (void)b.come(1);
  b.say(nth_worker(1), wire::farewell{});
  CHECK(b.control.is_over());
  CHECK(b.control.failure().empty());
}
