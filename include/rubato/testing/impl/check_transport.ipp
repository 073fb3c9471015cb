// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/testing/check_transport.hpp"
#include "rubato/testing/observed_run.hpp"

namespace rubato::testing::detail {

/// The transport that is checked.
struct opened_transport {
  opener open_it;

  using runtime_type = runtime;
  [[nodiscard]] std::unique_ptr<runtime> open(run_setup setup) const { return open_it(std::move(setup)); }
};

/// Counts the commits of all workers in one row: `clocks` of each worker.
inline void count_clocks(auto& worker, int clocks) {
  std::vector<std::int64_t> const one{1};
  std::vector<std::int64_t> seen(1);
  for (int i = 0; i < clocks; ++i) {
    worker.pull(seen);
    worker.push(one);
    worker.step();
  }
}

class transport_checker {
 public:
  transport_checker(opener const& open, transport_check const& how) : open_{open}, how_(how) {}

  sentences run() {
    attempt("rules of bsp", [&] { check_rules(bsp{}, strict_rules(0)); });
    attempt("rules of ssp", [&] { check_rules(ssp{.staleness = 2}, eager_rules(2)); });
    attempt("rules of asp", [&] { check_rules(asp{}, eager_rules(staleness::infinite())); });
    attempt("rules of synchronized reads", [&] {
      check_rules(with(ssp{.staleness = 2}, stable_cut{}), synchronized_rules(2));
    });
    attempt("two runs", [&] { check_two_runs(); });
    attempt("several tables", [&] { check_several_tables(); });
    attempt("a body that throws", [&] { check_failure(); });
    attempt("stop", [&] { check_stop(); });
    attempt("stop before it begins", [&] { check_early_stop(); });
    attempt("add_worker", [&] { check_joiner(); });
    attempt("a pace that pauses", [&] { check_pause(); });
    attempt("a conductor", [&] { check_conductor(); });
    attempt("a conductor that asks for the loss", [&] { check_sampled_loss(); });
    return found_.take();
  }

 private:
  /// What is thrown where nothing should be is a finding, too.
  template <class F>
  void attempt(char const* what, F f) {
    try {
      f();
    } catch (std::exception const& e) {
      found_.expect(false, what, ": ", e.what());
    }
  }

  [[nodiscard]] auto counter(rules const& p) const {
    return cluster<opened_transport, rules, dense<std::int64_t, sum>>(
        open_, p, dense<std::int64_t, sum>{.rows = 1});
  }

  void check_rules(rules p, expectations r) {
    p.pace = every{.steps = std::int64_t{1} << 62};  // the actors say when to commit
    // Chunks may be folded one after the other, and a server's may lag behind another's.
    r.atomic_servers = r.holds_back && (r.bound == staleness{0} || r.same_cut);
    for (std::uint64_t i = 0; i < how_.schedules; ++i) {
      std::uint64_t const seed = how_.first_seed + i;
      schedule s = random_schedule(seed, {.joins = false, .leaves = true, .crashes = false});
      s.workers = how_.workers;
      s.servers = how_.servers;
      s.prompt = false;
      s.scenario.crashes.clear();
      s.manners.resize(s.workers, s.manners.front());
      observer o(r, s.workers, s.workers, servers_of_rows(s));
      std::vector<float> const init = first_weights(seed);
      auto c = make_cluster(open_, p, s, init);
      run_report const report = c.run([&](auto& w) { (void)actor(w, o, s, r.bound).run(); });
      check_result(c, o, s, report);
      for (std::string const& v : o.violations())
        found_.expect(false, p.name, ", schedule ", seed, ": ", v);
    }
  }

  /// The parameters stay from run to run, and clocks begin anew.
  void check_two_runs() {
    auto c = counter(ssp{.staleness = 1});
    constexpr int clocks = 20;
    for (int i = 1; i <= 2; ++i) {
      std::atomic<bool> went_back = false;
      std::atomic<bool> begins_late = false;
      run_report const r = c.run([&](auto& w) {
        if (w.clock() != clock_index{0}) begins_late = true;
        time_point last = w.now();
        for (int k = 0; k < clocks; ++k) {
          count_clocks(w, 1);
          time_point const now = w.now();
          if (now < last) went_back = true;
          last = now;
        }
      });
      std::int64_t const expected = std::int64_t{clocks} * how_.workers * i;
      found_.expect(c.parameters()[0] == expected, "after run ", i, " of two the sum of all commits is ",
                    c.parameters()[0], ", expected ", expected);
      found_.expect(!went_back, "now() goes back");
      found_.expect(!begins_late, "a run's first clock is not 0");
      check_books(r, clocks, i);
    }
  }

  void check_books(run_report const& r, std::uint64_t clocks, int run) {
    found_.expect(r.workers.size() == how_.workers, "run ", run, " reports ", r.workers.size(),
                  " workers, expected ", how_.workers);
    for (worker_metrics const& m : r.workers)
      found_.expect(m.commits == clocks && m.pushes == clocks && m.pulls == clocks && m.steps == clocks,
                    "a worker of run ", run, " reports ", m.commits, " commits, ", m.pushes, " pushes, ",
                    m.pulls, " pulls and ", m.steps, " steps, expected ", clocks, " each");
    for (worker_metrics const& m : r.workers) check_times(m, r.elapsed, run);
    std::uint64_t const updates = clocks * how_.workers;
    found_.expect(r.updates == updates, "run ", run, " reports ", r.updates, " updates, expected ", updates);
    found_.expect(r.elapsed >= duration::zero(), "run ", run, " has taken less than no time");
  }

  /// Where the run as a whole is measured elsewhere, clocks differ a little.
  void check_times(worker_metrics const& m, duration elapsed, int run) {
    auto const none = duration::zero();
    found_.expect(m.compute >= none && m.send >= none && m.wait >= none, "a worker of run ", run, " reports ",
                  to_seconds(m.compute), " s of compute, ", to_seconds(m.send), " s of send and ", to_seconds(m.wait),
                  " s of wait, expected none below 0");
    found_.expect(m.total() <= elapsed + std::chrono::milliseconds(1), "a worker of run ", run, " reports ",
                  to_seconds(m.total()), " s of compute, send and wait together, but the run has taken ",
                  to_seconds(elapsed), " s");
  }

  /// In each clock all tables are asked for before there is a wait, most often too early.
  void check_several_tables() {
    using counts = dense<std::int64_t, sum>;
    constexpr std::array<std::int64_t, 3> steps{1, 100, 10'000};
    counts const two{.rows = 2};
    cluster<opened_transport, rules, counts, counts, counts> c(open_, rules(bsp{}), two, two, two);
    std::atomic<std::int64_t> wrong = 0;
    c.run([&](auto& w) {
      std::array<std::vector<std::int64_t>, 3> seen;
      for (auto& s : seen) s.resize(2);
      for (std::int64_t clock = 0; clock < 20; ++clock) {
        w.pull_all(seen[0], seen[1], seen[2]);
        for (std::size_t i = 0; i < steps.size(); ++i)
          if (seen[i] != std::vector<std::int64_t>(2, steps[i] * clock * how_.workers)) ++wrong;
        w.push(std::vector<std::int64_t>(2, steps[0]));
        w[table<1>].push(std::vector<std::int64_t>(2, steps[1]));
        w[table<2>].push(std::vector<std::int64_t>(2, steps[2]));
        w.step();
      }
    });
    found_.expect(wrong == 0, "of tables that were asked for together ", wrong.load(), " were not as they are");
  }

  /// The others wait for one that throws, and would do so for ever.
  void check_failure() {
    auto c = counter(bsp{});
    std::string said;
    std::atomic<std::uint32_t> unwound = 0;
    struct at_end {
      std::atomic<std::uint32_t>& count;
      ~at_end() { ++count; }
    };
    try {
      c.run([&](auto& w) {
        at_end const when_unwound{unwound};
        count_clocks(w, 2);
        if (w.rank() == 0) throw std::runtime_error("the body of worker 0");
        for (;;) count_clocks(w, 1);
      });
    } catch (std::runtime_error const& e) {
      said = e.what();
    }
    found_.expect(said == "the body of worker 0", "a body threw, and run() ",
                  said.empty() ? "returned" : "threw \"" + said + "\"");
    found_.expect(unwound == how_.workers, "after a body threw, ", unwound.load(), " bodies of ",
                  how_.workers, " had ended when run() did");
    c.run([](auto& w) { count_clocks(w, 3); });  // it goes on from there
  }

  void check_stop() {
    auto c = counter(asp{});
    std::atomic<bool> threw = false;
    run_report const r = c.run([&](auto& w) {
      try {
        for (;;) {
          count_clocks(w, 1);
          if (w.rank() == 0 && w.clock() > clock_index{5}) c.stop();
        }
      } catch (std::exception const&) {
        threw = true;
        throw;
      }
    });
    found_.expect(!threw, "a run that is stopped unwinds bodies by a std::exception");
    found_.expect(r.stopped, "a run that was stopped reports that it was not");
    found_.expect(!c.run([](auto& w) { count_clocks(w, 1); }).stopped,
                  "the run after one that was stopped reports that it was, too");
  }

  /// As `task::stop` does that comes between two stages.
  void check_early_stop() {
    auto c = counter(asp{});
    std::atomic<bool> asked = true;
    std::atomic<std::uint32_t> clocks = 0;
    run_request request;
    request.body = [&](worker_core& w) {
      count_clocks(static_cast<decltype(c)::worker_type&>(w), 1);
      ++clocks;
    };
    request.stop_asked = &asked;
    run_report const r = c.runtime().run(std::move(request));
    found_.expect(r.stopped && r.completed == completion::not_begun,
                  "a run whose end was asked for before it began (`stop_asked`) does not report that it was not begun");
    found_.expect(clocks == 0, "a run whose end was asked for before it began had ", clocks.load(),
                  " workers that made a step");
  }

  void check_joiner() {
    auto c = counter(ssp{.staleness = 2});
    constexpr std::int64_t clocks = 30;
    std::atomic<std::uint32_t> rank = 0;
    run_report const r = c.run([&](auto& w) {
      if (w.rank() == 0) rank = c.add_worker();
      while (w.clock() < clock_index{clocks}) count_clocks(w, 1);
    });
    found_.expect(rank == how_.workers, "the first joiner has rank ", rank.load(), ", expected ",
                  how_.workers);
    found_.expect(r.workers.size() == how_.workers + 1, "a run with a joiner reports ", r.workers.size(),
                  " workers, expected ", how_.workers + 1);
    std::uint64_t commits = 0;
    for (worker_metrics const& m : r.workers) commits += m.commits;
    found_.expect(c.parameters()[0] == static_cast<std::int64_t>(commits), "with a joiner the sum of all ",
                  "commits is ", c.parameters()[0], ", expected ", commits);
  }

  /// After each step the worker lets the time pass until its commit is due.
  struct by_time {
    [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
      return {.at = p.committed_at + std::chrono::milliseconds(5), .steps_max = 1};
    }
  };

  void check_pause() {
    auto c = counter(with(asp{}, by_time{}));
    std::atomic<std::uint64_t> early = 0;
    c.run([&](auto& w) {
      for (int i = 0; i < 4; ++i)
        if (!w.step()) ++early;
    });
    found_.expect(early == 0, "workers that were to pause until their commits were due went on before ", early.load(),
                  " times");
  }

  /// What a conductor has heard.
  struct hearing {
    static constexpr double loss = 0.25;

    bool samples = false;  ///< whether it asks for the loss until it is told
    std::atomic<std::uint64_t> commits = 0;
    std::atomic<std::uint64_t> losses = 0;
  };

  /// Orders everybody to commit after every third step.
  struct thirds {
    struct order {
      std::int64_t steps;
    };
    struct conductor_type {
      using order_type = order;
      void join(worker_id w, clock_index, time_point, pace_orders<order>& out) { out.push_back({w, {3}}); }
      void leave(worker_id) {}
      void commit(worker_id, clock_index, time_point) { ++heard->commits; }
      void observe(time_point, double loss) { heard->losses += loss == hearing::loss ? 1 : 0; }
      void tick(time_point, pace_orders<order>&) {}
      [[nodiscard]] time_point next_tick() const noexcept { return time_point::max(); }
      [[nodiscard]] time_point next_sample() const noexcept {
        return heard->samples && heard->losses == 0 ? time_point{} : time_point::max();
      }
      [[nodiscard]] std::span<pace_change const> changes() const noexcept { return {}; }

      hearing* heard;
    };

    [[nodiscard]] commit_due due(pace_point const&) const noexcept { return {.steps = steps}; }
    [[nodiscard]] conductor_type make_conductor() const { return {heard}; }
    void follow(order o, pace_point const&) { steps = o.steps; }
    void spent(duration) {}

    hearing* heard;
    std::int64_t steps = 1;
  };

  void check_conductor() {
    hearing heard;
    auto c = counter(with(asp{}, thirds{&heard}));
    std::atomic<std::uint32_t> followed = 0;
    c.run([&](auto& w) {
      bool follows = false;
      step_until(w, [&] {
        if (!follows && w.steps_since_commit() == 2) follows = true, ++followed;
        w.report_loss(hearing::loss);
        return follows && heard.commits != 0 && heard.losses != 0;
      });
    });
    found_.expect(followed == how_.workers, "orders of a conductor reached ", followed.load(),
                  " workers of ", how_.workers);
    found_.expect(heard.commits != 0, "a conductor hears of no commit");
    found_.expect(heard.losses != 0, "a conductor hears of no loss that workers report");
  }

  void check_sampled_loss() {
    hearing heard{.samples = true};
    auto c = counter(with(asp{}, thirds{&heard}));
    auto const loss = [](auto const&) { return hearing::loss; };
    c.run([&](auto& w) { step_until(w, [&] { return heard.losses != 0; }); }, loss);
    found_.expect(heard.losses != 0, "a conductor that asks for the loss is not told what the run's function says");
  }

  /// What goes to and from a conductor may take its time where threads or processes bring it; in virtual time reads
  /// may take none.
  static void step_until(auto& w, auto done) {
    std::vector<std::int64_t> seen(1);
    auto const seconds = [&w] { return to_seconds(w.now().since_start()); };
    for (int i = 0; seconds() < 60 && (i < 100'000 || (i < 1'000'000 && seconds() < 5)); ++i) {
      w.pull(seen);  // which takes time, also where steps take none
      w.step();
      if (done()) return;
    }
  }

  opened_transport open_;
  transport_check how_;
  findings found_;
};

sentences check_opened(opener const& open, transport_check const& how) {
  return transport_checker(open, how).run();
}

}  // namespace rubato::testing::detail
