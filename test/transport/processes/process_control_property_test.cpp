// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Any order of events.
#include <rubato/transport/processes/process_control.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>

#include "seeds.hpp"
#include "transport/processes/process_control_bench.hpp"

using namespace rubato;
using namespace rubato::test::control;

namespace {

using life = std::pair<worker_id, incarnation_id>;

/// Servers that only know who is registered, worker processes that do anything they may at any
/// time, and a network that keeps the order of each pair and nothing else.
class world {
 public:
  world(std::uint64_t seed, net::on_loss when)
      : random_(seed),
        servers_(1 + random_() % 3),
        begins_with_(static_cast<std::uint32_t>(1 + random_() % 3)),
        synchronized_(random_() % 2 == 0),
        control_(std::vector{synchronized_ ? rules(basic_ssp<stable_cut>{}) : rules(asp{})},
                 {.workers = begins_with_,
                  .servers = static_cast<std::uint32_t>(servers_.size()),
                  .when_lost = when}),
        when_(when) {
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      (void)control_.enroll({net::role::server, std::nullopt, "", "", 1}, {});
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
  enum class state { gone, waits, idle, ready, runs, given_up };
  struct process_model {
    state now = state::gone;
    std::uint32_t incarnation = 0;
    bool stopping = false;
    bool has_failed = false;
    stage_id stage{};
    std::map<worker_id, bool> workers;  // whether they have started
    std::deque<wire::control_message> in, out;
  };

  bool chance(unsigned one_in) { return random_() % one_in == 0; }

  void enroll(std::optional<std::uint32_t> rank) {
    if (control_.is_over()) return;
    auto const e = control_.enroll({net::role::worker, rank, "", "", 1}, {});
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
    if (chance(2) && deliver_from(nth_server(s), m)) return;
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
    if (p.now == state::given_up ? chance(4) : !calm_ && chance(60)) return lose(n, p);
    if (chance(3) && deliver_from(nth_worker(n), p)) return;
    if (chance(2) && !p.in.empty()) {
      wire::control_message const message = std::move(p.in.front());
      p.in.pop_front();
      std::visit([&](auto const& m) { hear(p, m); }, message);
      return;
    }
    act(n, p);
  }

  void lose(std::uint32_t n, process_model& p) {
    if (when_ == net::on_loss::end && p.now < state::runs && !chance(20)) return;
    p.now = state::gone;
    control_.lose(nth_worker(n), "gone", false, now_);
    route();
  }

  void act(std::uint32_t n, process_model& p) {
    if (p.now == state::idle && chance(4)) {
      if (calm_ || chance(40)) return leave(n, p);
      p.now = state::ready;
      p.out.emplace_back(wire::ready{static_cast<std::uint32_t>(1 + random_() % 3), false, 0, false});
    } else if (p.now == state::runs) {
      work(p);
    }
  }

  /// Leaves once all that it said has arrived.
  void leave(std::uint32_t n, process_model& p) {
    p.out.emplace_back(wire::farewell{});
    while (deliver_from(nth_worker(n), p)) {
    }
    p.now = state::gone;
    control_.lose(nth_worker(n), "", true, now_);
    route();
  }

  void work(process_model& p) {
    if (p.workers.empty()) return;
    if (!calm_ && chance(30)) p.out.emplace_back(wire::add_worker{p.stage});
    if (!calm_ && chance(60)) {
      p.has_failed = true;
      p.out.emplace_back(wire::end_run{p.stage, true, errc::lost, ""});
    }
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
    if (m.fatal) {
      // Else all is over.
      CHECK((control_.is_over() || (when_ == net::on_loss::go_on && p.has_failed)));
      p.now = state::given_up;
      return;
    }
    CHECK((p.now == state::runs && p.stage == m.stage && !p.stopping));
    p.stopping = true;
  }
  template <class Other>
  void hear(process_model&, Other const&) {
    FAIL("a process heard what is not for it");
  }

  std::mt19937_64 random_;
  std::vector<server_model> servers_;
  std::uint32_t begins_with_;
  bool synchronized_;
  process_control control_;
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
    INFO(test::repeat_by(seed));
    world w(seed, when);
    w.run(3000);
    runs += w.runs_ended();
    later += w.lives_later();
  }
  INFO(runs << " runs were heard to end, and " << later << " workers started in a later life");
  if (test::seed_count(400) < 400) return;
  CHECK(runs > 500);
  CHECK(later > 100);
}

}  // namespace

TEST_CASE(
    "process_control: whoever is lost, comes back, joins or leaves, lives do not overlap, and "
    "every run ends") {
  check_worlds(net::on_loss::go_on);
}

TEST_CASE("process_control: the same when a loss ends the run") { check_worlds(net::on_loss::end); }
