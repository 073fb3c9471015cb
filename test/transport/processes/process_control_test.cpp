// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>

#include <algorithm>

#include <chrono>
#include <cstdint>
#include <span>

#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/conductor.hpp>
#include <rubato/protocol/ssp.hpp>

#include "transport/processes/process_control_bench.hpp"

using namespace rubato;
using namespace rubato::test::control;
using Catch::Contains;

// ---- gathering

TEST_CASE("process_control: workers are welcomed once all servers are there, and told where they are") {
  bench b(2, 2);
  CHECK(b.come().at == nth_worker(0));
  CHECK(b.serve() == 0);
  CHECK(b.told(nth_worker(0)).empty());
  CHECK(b.control.attendance() == "1 of 2 servers and 1 of 2 workers are here");
  CHECK(b.told(nth_server(0)) == list{"welcome 0.0 to 0", "admit 0.0"});
  CHECK(b.serve() == 1);
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.0 to 2, initial values"});
  CHECK_FALSE(b.control.is_complete());
  CHECK(b.come().at == nth_worker(1));
  CHECK(b.told(nth_worker(1)) == list{"welcome 1.0 to 2"});
  CHECK(b.told(nth_worker(0)).empty());
  CHECK(b.control.is_complete());
}

TEST_CASE("process_control: who asks for a number gets it, others the next one that is free") {
  bench b(1, 3);
  CHECK(b.come(1).at == nth_worker(1));
  CHECK(b.come().at == nth_worker(0));
  CHECK(b.come().at == nth_worker(2));
}

TEST_CASE("process_control: servers hear of each life of a worker process, those that come late of all that are here") {
  bench b(2, 2, net::on_loss::go_on);
  CHECK(b.serve() == 0);
  (void)b.come(1);
  CHECK(b.told(nth_server(0)) == list{"welcome 0.0 to 0", "admit 1.0"});
  b.lose(nth_worker(1));
  CHECK(b.come(1).incarnation == 1);
  CHECK(b.told(nth_server(0)) == list{"expel 1.0", "admit 1.1"});
  CHECK(b.serve() == 1);
  CHECK(b.told(nth_server(1)) == list{"welcome 1.0 to 0", "admit 1.1"});
  (void)b.come(0);
  CHECK(b.told(nth_server(0)) == list{"admit 0.0"});
  CHECK(b.told(nth_server(1)) == list{"admit 0.0"});
}

TEST_CASE("process_control: a worker process and the servers are told its secret, each life's its own") {
  bench b(1, 1);
  std::uint32_t const rank = 0;
  wire::secret const drawn{1, 2, 3};
  (void)b.control.enroll({net::role::worker, rank, "", "", 1}, drawn);
  (void)b.serve();
  int told = 0;
  for (auto const& [to, message] : b.control.take()) {
    if (auto const* w = std::get_if<wire::welcome>(&message); w != nullptr && to == nth_worker(0))
      told += w->secret == drawn ? 1 : 0;
    if (auto const* a = std::get_if<wire::admission>(&message))
      told += a->secret == drawn && to == nth_server(0) ? 1 : 0;
    if (auto const* w = std::get_if<wire::welcome>(&message); w != nullptr && to == nth_server(0))
      CHECK(w->secret == wire::secret{});
  }
  CHECK(told == 2);
}

TEST_CASE("process_control: places that are taken, or not there, are refused with a sentence") {
  bench b = gathered(1, 1);
  CHECK_THAT(refusal_of([&] { b.serve(); }), Contains("no room for number 1"));
  CHECK_THAT(refusal_of([&] { (void)b.come(0); }), Contains("worker 0 is here already"));
  CHECK_THAT(refusal_of([&] { (void)b.come(1); }),
             Contains("this run has 1 workers, numbered from 0, and no room for number 1"));
  CHECK(b.come().at == nth_worker(1));  // who comes late may be one more
  b.lose(nth_worker(1));
  CHECK(b.come(1).incarnation == 1);
  wire::registration r{net::role::server, 0U, "", "", 1};
  CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, {}); }),
             Contains("server 0 is here already"));
  r.as = net::role::coordinator;
  CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, {}); }),
             Contains("coordinator already"));
  b.lose(nth_server(0));
  CHECK_THAT(refusal_of([&] { (void)b.come(); }), Contains("the run is over: server 0 (here)"));
}

TEST_CASE("process_control: who goes before the first run is replaced by the next with its number") {
  net::on_loss const when = GENERATE(net::on_loss::end, net::on_loss::go_on);
  bench b(1, 2, when);
  b.serve();
  (void)b.come();
  b.lose(nth_worker(0));
  CHECK_FALSE(b.control.is_over());
  CHECK(b.come(0).incarnation == 1);
  CHECK(b.come(1).incarnation == 0);
  b.ready(0);
  CHECK_FALSE(b.control.is_running());
  b.ready(1);
  CHECK(b.control.is_running());
}

TEST_CASE("process_control: a server that goes before workers know it is replaced, and gets its values anew") {
  bench b(2, 1);
  b.serve();
  b.lose(nth_server(0));
  (void)b.come();
  CHECK_FALSE(b.control.is_over());
  CHECK(b.serve() == 0);
  CHECK(b.serve() == 1);
  CHECK(b.told(nth_worker(0)) == list{"welcome 0.0 to 2, initial values"});
  b.lose(nth_server(0));  // its address is known
  CHECK(b.control.is_over());

  bench again(1, 2);
  again.serve();
  (void)again.come();
  again.say(nth_worker(0), wire::ready{0, false, 0, false, 0, 1});  // the values are where they belong
  again.lose(nth_worker(0));
  again.lose(nth_server(0));
  again.serve();
  again.forget();
  (void)again.come();
  CHECK(again.told(nth_worker(0)) == list{"welcome 0.1 to 1, initial values"});
}

// ---- what all agree on

TEST_CASE("process_control: what is agreed on is what those say who are here, not who was first") {
  bench b(1, 1);
  SECTION("a worker that has left") {
    (void)b.come(0, "bsp; 2 rows");
    b.say(nth_worker(0), wire::farewell{});
  }
  SECTION("a worker that was lost") {
    (void)b.come(0, "bsp; 2 rows");
    b.lose(nth_worker(0));
  }
  SECTION("a server that was lost") {
    b.serve("bsp; 2 rows");
    b.lose(nth_server(0));
  }
  SECTION("one that was refused") {
    wire::registration const r{net::role::server, 7U, "", "bsp; 2 rows", 1};
    CHECK_THAT(refusal_of([&] { (void)b.control.enroll(r, {}); }), Contains("no room for number 7"));
  }
  CHECK(b.serve("ssp; 3 rows") == 0);
  (void)b.come(0, "ssp; 3 rows");
  b.ready(0);
  CHECK(b.control.is_running());
  b.say(nth_worker(0), wire::farewell{});
  CHECK_THAT(refusal_of([&] { (void)b.come(1, "bsp; 2 rows"); }), Contains("expected \"ssp; 3 rows\""));
}

TEST_CASE("process_control: who does not agree is told who says what") {
  bench b(2, 3);
  (void)b.come(1, "ssp; 2 servers; table 0: 500 rows; table 1: 7 rows");
  auto const refused = [&](char const* agreed) {
    return refusal_of([&] { (void)b.control.enroll({net::role::server, 0U, "", agreed, 12}, {}); });
  };
  std::string const wrong = "server 0 (process 12) runs another protocol or other tables than worker 1 (process 1)";
  CHECK(refused("ssp; 2 servers; table 0: 501 rows; table 1: 7 rows") ==
        wrong + ": it says \"table 0: 501 rows\"; expected \"table 0: 500 rows\"");
  CHECK(refused("ssp; 2 servers; table 0: 500 rows") == wrong + ": it says nothing; expected \"table 1: 7 rows\"");
  CHECK(refused("\x1b[2J; 2 servers; table 0: 500 rows; table 1: 7 rows") ==
        wrong + ": it says \"\\x1b[2J\"; expected \"ssp\"");
  (void)b.come(0, "ssp; 2 servers; table 0: 500 rows; table 1: 7 rows");
  CHECK_THAT(refused("asp"), Contains("than worker 0 (process 1) and another one: it says \"asp\""));
  CHECK(refused(("ssp; " + std::string(9000, 'x')).c_str()).size() < 1000);
  CHECK_THAT(refused(("ssp; 2 servers; table 0: 500 rows; table 1: 7 rows" + std::string(5000, 'x') + "7").c_str()),
             Contains("7 rowsxxx"));

  process_control::options o{.workers = 1, .servers = 1};
  o.agreed = "ssp";
  bench fixed(o);
  CHECK_THAT(refusal_of([&] { (void)fixed.come(0, "asp"); }),
             Contains("worker 0 (process 1) runs another protocol or other tables than the coordinator: it says "
                      "\"asp\"; expected \"ssp\""));
}

// ---- a run

TEST_CASE("process_control: a run from its beginning to its end, and what each is told, in order") {
  bench b = gathered(2, 2);
  b.ready(1, 2);
  CHECK(b.told(nth_server(0)).empty());
  b.ready(0);
  for (std::uint32_t s = 0; s < 2; ++s)
    CHECK(b.told(nth_server(s)) == list{"stage 1", "enlist 0.0", "enlist 1.0", "enlist 2.0"});
  CHECK(b.told(nth_worker(0)) == list{"begins 1 of 3: 0"});
  CHECK(b.told(nth_worker(1)) == list{"begins 1 of 3: 1 2"});
  b.carry_out(0, 4);
  CHECK(b.told(nth_server(0)).empty());
  b.carry_out(1, 6);
  CHECK(b.told(nth_server(0)) == list{"start 0.0 at 6"});
  b.carry_out(0);  // enlists worker 1
  b.carry_out(0);
  b.carry_out(0);  // starts worker 0
  CHECK(b.told(nth_worker(0)).empty());
  b.carry_out_all();
  CHECK(b.told(nth_worker(0)) == list{"starts 0 at 6"});
  CHECK(b.told(nth_worker(1)) == list{"starts 1 at 0", "starts 2 at 0"});
  b.forget();

  b.ended(1, 2, 9);
  b.ended(0, 0, 7);
  b.ended(1, 1, 8);
  CHECK(b.told(nth_server(1)) == list{"drop 2.0 at 9", "drop 0.0 at 7", "drop 1.0 at 8"});
  b.carry_out_all();
  CHECK(b.told(nth_server(1)) == list{"end 1"});
  b.finish(1);
  CHECK(b.told(nth_worker(0)).empty());
  b.finish(0);
  CHECK(b.told(nth_worker(0)) == list{"over 1"});
  CHECK(b.told(nth_worker(1)) == list{"over 1"});
  CHECK_FALSE(b.control.is_running());
  b.ready(0);
  b.ready(1);
  CHECK(b.told(nth_worker(0)) == list{"begins 2 of 2: 0"});
}

TEST_CASE("process_control: when all have said farewell it is over, and servers are told") {
  bench b = gathered(1, 2);
  b.say(nth_worker(0), wire::farewell{});
  CHECK_FALSE(b.control.is_over());
  b.say(nth_worker(1), wire::farewell{});
  CHECK(b.control.is_over());
  CHECK(b.told(nth_server(0)) == list{"expel 0.0", "expel 1.0", "shut down"});
}

TEST_CASE("process_control: who was in the run to its end is there for the next one, and who is started again is not") {
  auto const as_worker = [](std::optional<std::uint32_t> rank, std::uint32_t pid, std::uint64_t life = 0) {
    return wire::registration{
        .as = net::role::worker, .rank = rank, .listens = "", .agreed = "", .pid = pid, .life = life};
  };
  auto const as_server = [](std::uint32_t rank, std::uint32_t pid, std::uint64_t life = 0) {
    return wire::registration{
        .as = net::role::server, .rank = rank, .listens = "", .agreed = "", .pid = pid, .life = life};
  };
  bench b = running(1, 2);  // all of them in process 1
  CHECK_FALSE(b.control.was_here(as_worker(0, 1)));
  for (std::uint32_t w : {0u, 1u}) b.ended(w, w);
  b.carry_out_all();
  b.finish(0);
  CHECK_FALSE(b.control.was_here(as_worker(0, 1)));  // it has not left
  b.say(nth_worker(0), wire::farewell{});
  CHECK(b.control.was_here(as_worker(0, 1)));
  CHECK(b.control.was_here(as_worker(std::nullopt, 1)));
  CHECK_FALSE(b.control.was_here(as_worker(0, 2)));
  CHECK_FALSE(b.control.was_here(as_worker(0, 1, 7)));  // in containers all may have one number
  CHECK_FALSE(b.control.was_here(as_worker(1, 1)));
  CHECK_FALSE(b.control.was_here(as_server(0, 1)));
  b.say(nth_worker(1), wire::farewell{});
  REQUIRE(b.control.is_over());
  CHECK(b.control.was_here(as_worker(1, 1)));
  CHECK(b.control.was_here(as_server(0, 1)));
  CHECK_FALSE(b.control.was_here(as_server(0, 1, 7)));
  CHECK_FALSE(b.control.was_here(as_server(0, 2)));
  CHECK_FALSE(b.control.was_here(as_server(1, 1)));
}

TEST_CASE("process_control: a process that comes late joins the run under way") {
  bench b = running(1, 1);
  CHECK(b.come().at == nth_worker(1));
  CHECK(b.told(nth_worker(1)) == list{"welcome 1.0 to 1"});
  b.ready(1, 2);
  CHECK(b.told(nth_worker(1)) == list{"begins 1 of 1: 1 2"});
  b.carry_out_all();
  CHECK(b.told(nth_worker(1)) == list{"starts 1 at 0", "starts 2 at 0"});
  b.ended(0, 0);
  b.ended(1, 1);
  b.carry_out_all();
  CHECK(b.control.is_running());
  b.ended(1, 2);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(nth_worker(1)) == list{"over 1"});
}

TEST_CASE("process_control: who comes while a run ends takes part in the next one") {
  bench b = running(1, 1);
  b.ended(0, 0);
  b.carry_out_all();
  (void)b.come();
  b.ready(1);
  b.forget();
  b.finish(0);
  CHECK(b.told(nth_worker(0)) == list{"over 1"});
  CHECK(b.told(nth_worker(1)).empty());
  b.ready(0);
  CHECK(b.told(nth_worker(1)) == list{"begins 2 of 2: 1"});
}

TEST_CASE("process_control: a process may add workers until the run ends") {
  bench b = running(1, 1);
  b.say(nth_worker(0), wire::add_worker{b.control.stage()});
  CHECK(b.told(nth_worker(0)) == list{"begins 1 of 1: 1"});
  b.carry_out_all();
  CHECK(b.told(nth_worker(0)) == list{"starts 1 at 0"});
  b.say(nth_worker(0), wire::end_run{b.control.stage(), false, errc{}, "enough"});
  CHECK(b.told(nth_worker(0)) == list{"stop: enough"});
  b.say(nth_worker(0), wire::add_worker{b.control.stage()});
  CHECK(b.told(nth_worker(0)).empty());
}

TEST_CASE("process_control: a worker added as the last one ends keeps the run going, or comes too late") {
  bool const in_time = GENERATE(true, false);
  bench b = running(1, 1);
  b.ended(0, 0);  // the server has yet to drop it
  if (!in_time) b.carry_out_all();
  b.forget();
  b.say(nth_worker(0), wire::add_worker{b.control.stage()});
  if (in_time) {
    CHECK(b.told(nth_worker(0)) == list{"begins 1 of 1: 1"});
    b.carry_out_all();
    CHECK(b.told(nth_worker(0)) == list{"starts 1 at 0"});
    CHECK(b.control.is_running());
    b.ended(0, 1, 3);
    b.carry_out_all();
  }
  CHECK_FALSE(b.control.is_running());
  b.finish(0);
  CHECK(b.told(nth_worker(0)) == list{"over 1"});
}

TEST_CASE("process_control: a process cannot add workers without end") {
  bench b = gathered(1, 1);
  b.ready(0, 4096);
  CHECK_THAT(refusal_of([&] { b.say(nth_worker(0), wire::add_worker{b.control.stage()}); }),
             Contains("add a worker"));
}

TEST_CASE("process_control: a body that ends the run ends it for all, once") {
  bench b = running(1, 2);
  b.say(nth_worker(0), wire::end_run{stage_id{1}, true, errc::not_finite, "NaN"});
  b.say(nth_worker(1), wire::end_run{stage_id{1}, true, errc::not_finite, "another NaN"});
  CHECK(b.told(nth_worker(0)) == list{"failed: NaN"});
  CHECK(b.told(nth_worker(1)) == list{"failed: NaN"});
  (void)b.come();
  b.ready(2);  // too late for this one
  b.ended(0, 0);
  b.ended(1, 1);
  b.carry_out_all();
  b.finish(0);
  CHECK(b.told(nth_worker(1)) == list{"over 1"});
  b.ready(0);
  b.ready(1);
  CHECK(b.told(nth_worker(2)) == list{"welcome 2.0 to 1", "begins 2 of 3: 2"});
}

TEST_CASE("process_control: a worker that ends before it has started is given up") {
  bench b = gathered(2, 1);
  b.ready(0);
  b.ended(0, 0);
  b.forget();
  b.carry_out_all();
  CHECK(b.told(nth_worker(0)).empty());
  CHECK(b.told(nth_server(0)) == list{"drop 0.0 at 0", "end 1"});
}

TEST_CASE("process_control: messages of a stage before count for nothing") {
  bench b = running(1, 1);
  b.say(nth_worker(0), wire::worker_ended{stage_id{0}, worker_id{0}, at(1), {}});
  b.say(nth_worker(0), wire::end_run{stage_id{0}, true, errc::lost, "late"});
  b.say(nth_server(0), wire::stage_over{stage_id{0}, {}, 0});
  b.say(nth_server(0),
        wire::order_done{{kind::start, worker_id{9}, {}, {}, epoch_id{1}, stage_id{0}, {}},
                         std::nullopt});
  CHECK(b.told(nth_worker(0)).empty());
  CHECK(b.told(nth_server(0)).empty());
}

// ---- the conductor and cuts

namespace {

/// A pace whose conductor wants a loss every second, and orders nothing.
struct sampling {
  class conductor {
   public:
    struct order_type {};

    explicit conductor(int& seen) : seen_(&seen) {}
    void join(worker_id, clock_index, time_point, pace_orders<order_type>&) {}
    void leave(worker_id) {}
    void commit(worker_id, clock_index, time_point) {}
    void observe(time_point, double) {
      ++*seen_;
      next_ += std::chrono::seconds(1);
    }
    void tick(time_point, pace_orders<order_type>&) {}
    [[nodiscard]] time_point next_tick() const noexcept { return time_point::max(); }
    [[nodiscard]] time_point next_sample() const noexcept { return next_; }
    [[nodiscard]] std::span<pace_change const> changes() const noexcept { return {}; }

   private:
    int* seen_;
    time_point next_{};
  };

  int* seen;
  [[nodiscard]] commit_due due(pace_point const&) const noexcept { return {}; }
  [[nodiscard]] conductor make_conductor() const { return conductor(*seen); }
  void follow(conductor::order_type, pace_point const&) {}
  void spent(duration) {}
};

}  // namespace

TEST_CASE("process_control: when the process asked for a loss is lost, another one is asked") {
  int seen = 0;
  bench b({.workers = 2, .servers = 1, .when_lost = net::on_loss::go_on}, with(rules(asp{}), sampling{&seen}),
          stand::gathered);
  for (std::uint32_t w = 0; w < 2; ++w) b.say(nth_worker(w), wire::ready{1, true, 0, {}});
  b.carry_out_all();
  b.forget();
  b.control.tick(b.now);
  b.control.tick(b.now);
  CHECK(b.told(nth_worker(0)) == list{"sample"});
  CHECK(b.control.next_tick() == time_point::max());
  b.lose(nth_worker(0));
  CHECK(b.control.next_tick() == b.now);
  b.control.tick(b.now);
  CHECK(b.told(nth_worker(1)) == list{"sample"});
  b.say(nth_worker(1), wire::loss_sample{b.control.stage(), {}, 1});
  b.say(nth_worker(1), wire::loss_sample{b.control.stage(), {}, 1});  // unasked
  CHECK(seen == 1);
}

TEST_CASE("process_control: a loss that is due at a tick is there before it") {
  using namespace std::chrono_literals;
  bool const both = GENERATE(true, false);  // evaluate the loss
  bench b({.workers = 2, .servers = 1, .when_lost = net::on_loss::go_on},
          ada_comm{.first_steps = 16, .interval = 1s}, stand::gathered);
  for (std::uint32_t w = 0; w < 2; ++w) b.say(nth_worker(w), wire::ready{1, both || w == 0, 0, {}});
  b.carry_out_all();
  b.forget();
  auto const after = [&b](duration d) {
    b.now += d;
    b.control.tick(b.now);
  };
  after(0s);
  CHECK(b.told(nth_worker(0)) == list{"sample"});
  CHECK(b.control.next_tick() == time_point(1s));  // which does not depend on it
  b.say(nth_worker(0), wire::loss_sample{b.control.stage(), b.now, 1});
  after(1s);
  CHECK(b.told(nth_worker(0)) == list{"sample"});
  CHECK(b.control.next_tick() == time_point::max());
  after(10ms);
  CHECK(b.told(nth_worker(0)).empty());
  b.say(nth_worker(0), wire::loss_sample{b.control.stage(), time_point(1s - 1ms), 0.25});  // its clock is behind
  CHECK(b.control.next_tick() == time_point(1s));
  after(0s);
  CHECK(b.told(nth_worker(0)) == list{"pace 0"});
  CHECK(b.told(nth_worker(1)) == list{"pace 1"});
  CHECK(b.control.next_tick() == time_point(2s));
  after(1s);
  CHECK(b.told(nth_worker(0)) == list{"sample"});
  b.lose(nth_worker(0));
  CHECK(b.control.next_tick() == time_point(2s));  // not held for ever
  b.forget();
  after(0s);
  CHECK(b.told(nth_worker(1)) == (both ? list{"sample"} : list{}));
  if (both) b.say(nth_worker(1), wire::loss_sample{b.control.stage(), b.now, 0.0625});
  after(0s);
  CHECK(b.told(nth_worker(1)) == (both ? list{"pace 1"} : list{}));
  CHECK(b.control.next_tick() == time_point(3s));
  b.carry_out_all();
  after(1s);  // again out while the run ends
  b.ended(1, 1, 1);
  b.carry_out_all();
  b.finish(0);
  CHECK_THAT(b.told(nth_worker(1)).back(), Contains("over 1"));
  CHECK(b.control.next_tick() == time_point::max());
}

// ---- stages

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

TEST_CASE(
    "process_control: a cut is granted when all servers are far enough, and what was asked last "
    "counts") {
  bench b({.workers = 2, .servers = 1, .when_lost = net::on_loss::go_on}, basic_ssp<stable_cut>{},
          stand::running);
  stage_id const s = b.control.stage();
  sender const me{worker_id{0}, {}, s};
  auto const received = [&](std::uint32_t w, std::int64_t clock) {
    b.say(nth_server(0), wire::progress_note{s, worker_id{w}, at(clock)});
  };
  b.say(nth_worker(0), wire::cut_request{me, at(1), staleness{0}, true});
  b.say(nth_worker(0), wire::cut_request{me, at(2), staleness{0}, true});
  received(0, 2);
  received(1, 1);
  CHECK(b.told(nth_worker(0)).empty());
  received(1, 2);
  CHECK(b.told(nth_worker(0)) == list{"cut 2"});
  CHECK_THAT(refusal_of([&] {
               b.say(nth_worker(1), wire::cut_request{me, at(2), staleness{0}, true});
             }),
             Contains("not its own"));
  b.say(nth_worker(0), wire::cut_request{me, at(3), staleness{0}, true});
  b.lose(nth_worker(1));
  b.carry_out_all();
  received(0, 3);
  CHECK(b.told(nth_worker(0)) == list{"cut 3"});
}
