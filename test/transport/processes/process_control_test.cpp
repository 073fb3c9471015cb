// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/conductor.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/wire/control.hpp>

#include "transport/processes/process_control_bench.hpp"

using namespace rubato;
using namespace rubato::test::control;
using Catch::Contains;

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
  CHECK(b.told(nth_server(0)) == list{"expel 0.0, and its values", "expel 1.0", "shut down"});
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
  b.say(nth_worker(0), wire::end_run{b.control.stage(), false, errc{}, ""});
  CHECK(b.told(nth_worker(0)) == list{"stop: "});
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
