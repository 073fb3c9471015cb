// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/run/run_control.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/ssp.hpp>

using namespace rubato;

namespace {

using list = std::vector<std::string>;

constexpr stage_id stage{1};
constexpr clock_index at(std::int64_t c) { return clock_index{c}; }
constexpr time_point second(int s) { return time_point(std::chrono::seconds(s)); }

std::string number(std::int64_t n) { return std::to_string(n); }
std::string name(worker_id w) { return number(w.value()); }

/// Writes down what it is told, and answers orders when the test says so.
struct scribe final : run_control::carrier {
  list said;
  std::vector<std::int64_t> marks;
  std::vector<membership_order> orders;

  void order(membership_order const& o) override {
    constexpr char const* names[] = {"enlist ", "start ", "freeze ", "drop "};
    said.push_back(names[static_cast<int>(o.what)] + name(o.worker) + " at " + number(o.clock.value()));
    orders.push_back(o);
  }
  void start(worker_id w, starting_point const& p) override {
    said.push_back("begin " + name(w) + " at " + number(p.clock.value()));
  }
  void grant(worker_id w, shared_cut const& cut, duration held) override {
    said.push_back("grant " + name(w) + " " + number(cut->c_min().value()) + " held " +
                   number(std::chrono::duration_cast<std::chrono::seconds>(held).count()));
  }
  void mark(shared_cut const& below) override { marks.push_back(below->c_min().value()); }
  void command(worker_id w, conductor::order const& o) override {
    said.push_back("command " + name(w) + " " + number(static_cast<std::int64_t>(o.size())));
  }
  list told() { return std::exchange(said, {}); }
};

/// A run on two servers, whose answers the test gives.
struct bench {
  explicit bench(rules const& protocol) : control({&protocol, 1}, 2, out) { control.begin(stage); }

  scribe out;
  run_control control;
  time_point now{};

  /// Both servers carry out the oldest order that is left, and report these clocks.
  void carry_out(std::int64_t first = 0, std::int64_t second = 0) {
    membership_order const o = out.orders.front();
    out.orders.erase(out.orders.begin());
    using kind = membership_order::kind;
    if (o.what == kind::start) return control.started(o, now);
    if (o.what == kind::drop) return;
    control.reported(o, {at(first), {}}, now);
    control.reported(o, {at(second), {}}, now);
  }
  void join(std::uint32_t w, std::int64_t clock = 0) {
    control.join(worker_id{w}, {});
    carry_out(clock, clock);
    carry_out();
    (void)out.told();
  }
  void received(std::uint32_t w, std::int64_t clock) {
    for (std::uint32_t s = 0; s < 2; ++s) control.progress(server_id{s}, worker_id{w}, at(clock), now);
  }
  refusal ask(std::uint32_t w, std::int64_t clock, staleness bound = {}, std::uint32_t incarnation = 0) {
    return control.ask_cut({{worker_id{w}, incarnation_id{incarnation}, stage}, at(clock), bound, {}}, true,
                           now);
  }
};

}  // namespace

// ---- membership

TEST_CASE("run_control: a worker begins once all servers have enlisted it and know where it starts") {
  bench b(asp{});
  b.control.join(worker_id{0}, {});
  CHECK(b.out.told() == list{"enlist 0 at 0"});
  b.carry_out(4, 6);
  CHECK(b.out.told() == list{"start 0 at 6"});
  b.carry_out();
  CHECK(b.out.told() == list{"begin 0 at 6"});
}

TEST_CASE("run_control: who leaves is dropped at its clock, who is lost is frozen first, and only once") {
  bench b(asp{});
  b.join(0);
  b.join(1);
  b.control.leave(worker_id{0}, at(7), b.now);
  CHECK(b.out.told() == list{"drop 0 at 7"});
  b.carry_out();
  b.control.lose(worker_id{0}, b.now);
  b.control.lose(worker_id{1}, b.now);
  b.control.lose(worker_id{1}, b.now);
  CHECK(b.out.told() == list{"freeze 1 at 0"});
  b.carry_out(9, 5);
  CHECK(b.out.told() == list{"drop 1 at 5"});
}

TEST_CASE("run_control: a new run knows nobody of the one before") {
  bench b(basic_ssp<stable_cut>{});
  b.join(0);
  CHECK(b.ask(0, 1) == refusal::none);  // it waits
  b.control.begin(stage_id{2});
  CHECK(b.ask(0, 1) == refusal::stage);
  b.control.lose(worker_id{0}, b.now);
  CHECK(b.out.told().empty());
}

// ---- synchronized reads

TEST_CASE("run_control: a cut is granted when all servers have received enough, and how long that took") {
  bench b(basic_ssp<stable_cut>{});
  b.join(0);
  b.join(1);
  b.received(0, 2);
  b.received(1, 1);
  b.now = second(3);
  CHECK(b.ask(0, 2) == refusal::none);
  CHECK(b.out.told().empty());
  b.now = second(8);
  b.control.progress(server_id{0}, worker_id{1}, at(2), b.now);
  CHECK(b.out.told().empty());
  b.control.progress(server_id{1}, worker_id{1}, at(2), b.now);
  CHECK(b.out.told() == list{"grant 0 2 held 5"});
}

TEST_CASE("run_control: a cut that is there already is granted at once") {
  bench b(basic_ssp<stable_cut>{});
  b.join(0);
  CHECK(b.ask(0, 1, staleness{1}) == refusal::none);
  CHECK(b.out.told() == list{"grant 0 0 held 0"});
}

TEST_CASE("run_control: of a worker's requests for a cut the last one counts, and none when it withdraws") {
  bench b(basic_ssp<stable_cut>{});
  b.join(0);
  b.join(1);
  (void)b.ask(0, 1);
  (void)b.ask(0, 2);
  b.received(0, 3);
  b.received(1, 1);
  CHECK(b.out.told().empty());
  SECTION("the last") {
    b.received(1, 2);
    CHECK(b.out.told() == list{"grant 0 2 held 0"});
  }
  SECTION("none") {
    b.control.withdraw_cut(worker_id{0});
    b.received(1, 2);
    CHECK(b.out.told().empty());
  }
}

TEST_CASE("run_control: who is no member, or one of an earlier life, is refused a cut") {
  bench b(basic_ssp<stable_cut>{});
  b.join(0);
  CHECK(b.ask(1, 0) == refusal::stranger);
  CHECK(b.ask(0, 0, {}, 1) == refusal::incarnation);
  b.control.lose(worker_id{0}, b.now);
  CHECK(b.ask(0, 0) == refusal::stranger);
}

TEST_CASE("run_control: a worker that is lost keeps nobody from a cut, and gets none") {
  bench b(basic_ssp<stable_cut>{});
  for (std::uint32_t w = 0; w < 3; ++w) b.join(w);
  b.received(0, 1);
  b.received(1, 1);
  (void)b.ask(0, 1);
  (void)b.ask(1, 1);
  b.control.lose(worker_id{1}, b.now);
  b.control.lose(worker_id{2}, b.now);
  b.carry_out(1, 1);
  CHECK(b.out.told() == list{"freeze 1 at 0", "freeze 2 at 0", "drop 1 at 1"});
  b.carry_out(0, 0);
  CHECK(b.out.told() == list{"drop 2 at 0", "grant 0 1 held 0"});
}

TEST_CASE("run_control: what nobody reads any more is said once per as many commits as there are workers") {
  bench b(basic_ssp<stable_cut>{});
  b.join(0);
  b.join(1);
  b.received(0, 1);
  b.received(1, 1);
  CHECK(b.out.marks == std::vector<std::int64_t>{1});
  (void)b.ask(0, 1);
  b.received(0, 3);
  b.received(1, 3);
  CHECK(b.out.marks == std::vector<std::int64_t>{1});  // worker 0 reads what is above
  b.control.release_cut(worker_id{0}, b.now);
  CHECK(b.out.marks == std::vector<std::int64_t>{1, 3});
}

// ---- the conductor

namespace {

struct events {
  list seen;
  time_point next_tick = second(2);
  std::chrono::seconds step{2};
};

/// A pace whose conductor writes down what it hears, and orders everybody something at each tick.
struct audible {
  class conductor {
   public:
    using order_type = std::int32_t;

    explicit conductor(events& e) : events_(&e) {}
    void join(worker_id w, clock_index c, time_point, pace_orders<order_type>& out) {
      events_->seen.push_back("join " + name(w) + " at " + number(c.value()));
      out.push_back({w, 1});
    }
    void leave(worker_id w) { events_->seen.push_back("leave " + name(w)); }
    void commit(worker_id w, clock_index c, time_point) {
      events_->seen.push_back("commit " + name(w) + " at " + number(c.value()));
    }
    void observe(time_point, double) { events_->seen.emplace_back("observe"); }
    void tick(time_point, pace_orders<order_type>& out) {
      events_->seen.emplace_back("tick");
      events_->next_tick = events_->next_tick + events_->step;
      for (std::uint32_t w = 0; w < 2; ++w) out.push_back({worker_id{w}, 1});
    }
    [[nodiscard]] time_point next_tick() const noexcept { return events_->next_tick; }
    [[nodiscard]] time_point next_sample() const noexcept { return second(3); }
    [[nodiscard]] std::span<pace_change const> changes() const noexcept { return {}; }

   private:
    events* events_;
  };

  events* heard;
  [[nodiscard]] commit_due due(pace_point const&) const noexcept { return {}; }
  [[nodiscard]] conductor make_conductor() const { return conductor(*heard); }
  void follow(std::int32_t, pace_point const&) {}
  void spent(duration) {}
};

}  // namespace

TEST_CASE("run_control: without a conductor its time never comes") {
  bench b(asp{});
  b.join(0);
  CHECK_FALSE(b.control.has_conductor());
  CHECK(b.control.next_tick() == time_point::max());
  CHECK(b.control.next_sample() == time_point::max());
  CHECK(b.control.changes().empty());
  b.control.tick(second(100));
  b.control.observe(1, second(100));
  b.control.committed(worker_id{0}, at(1), second(100));
  CHECK(b.out.told().empty());
}

TEST_CASE("run_control: the conductor hears of everybody, and its orders go to their workers") {
  events e;
  bench b(with(rules(asp{}), audible{&e}));
  CHECK(b.control.has_conductor());
  b.control.join(worker_id{0}, {});
  b.carry_out(3, 3);
  CHECK(e.seen.empty());
  (void)b.out.told();
  b.carry_out();
  CHECK(e.seen == list{"join 0 at 3"});
  CHECK(b.out.told() == list{"command 0 4", "begin 0 at 3"});
  b.join(1);
  b.control.committed(worker_id{1}, at(1), second(1));
  b.control.observe(0.5, second(1));
  b.control.leave(worker_id{0}, at(4), second(1));
  b.control.lose(worker_id{1}, second(1));
  CHECK(e.seen ==
        list{"join 0 at 3", "join 1 at 0", "commit 1 at 1", "observe", "leave 0", "leave 1"});
}

TEST_CASE("run_control: the conductor is called when its time has come, and not before") {
  events e;
  bench b(with(rules(asp{}), audible{&e}));
  for (std::uint32_t w = 0; w < 2; ++w) b.join(w);
  e.seen.clear();
  (void)b.out.told();
  CHECK(b.control.next_tick() == second(2));
  CHECK(b.control.next_sample() == second(3));
  b.control.tick(second(1));
  CHECK(e.seen.empty());
  b.control.tick(second(2));
  CHECK(e.seen == list{"tick"});
  CHECK(b.out.told() == list{"command 0 4", "command 1 4"});
  CHECK(b.control.next_tick() == second(4));
}

TEST_CASE("run_control: a conductor orders workers that there have been, and nobody else") {
  events e;
  bench b(with(rules(asp{}), audible{&e}));
  b.join(0);
  CHECK_THROWS_WITH(b.control.tick(second(2)), Catch::Contains("orders worker 1 to do something, expected one of 1"));
  b.join(1);
  b.control.leave(worker_id{1}, at(1), second(3));
  CHECK_NOTHROW(b.control.tick(second(4)));
  b.control.begin(stage_id{2});
  CHECK_THROWS_AS(b.control.tick(second(6)), option_error);
}

TEST_CASE("run_control: a conductor whose time stands still is an error, and no endless loop") {
  events e;
  e.step = std::chrono::seconds(0);
  bench b(with(rules(asp{}), audible{&e}));
  for (std::uint32_t w = 0; w < 2; ++w) b.join(w);
  CHECK_THROWS_WITH(b.control.tick(second(9)), Catch::Contains("next_tick() stands still"));
}

TEST_CASE("run_control: when the run is over there is no conductor") {
  events e;
  bench b(with(rules(asp{}), audible{&e}));
  b.control.end();
  CHECK_FALSE(b.control.has_conductor());
  b.control.begin(stage_id{2});
  CHECK(b.control.has_conductor());
}

TEST_CASE("run_control: a pace that cannot be meant is refused before anything begins") {
  scribe out;
  CHECK_THROWS_AS(run_control(std::vector<rules>{adsp{.check_period = duration{}}}, 1, out), option_error);
}
