// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/process_cache.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/table_description.hpp>

#include "seeds.hpp"
#include "worker/cached_process.hpp"

using namespace rubato;
using test::at;
using test::counts;
using test::shadow;
using test::shape;

namespace {


/// Workers that read and commit at random, while messages and answers travel at random.
class random_process : public test::cached_process {
 public:
  /// @param renews whether workers renew what they have read, now and then
  random_process(rules const& p, shape const& is, std::uint64_t seed, std::vector<table_description> more, bool renews)
      : cached_process(p, is, std::move(more)),
        random_(seed),
        renewals_(seed),
        renews_(renews),
        heard_(plan.servers()) {
    while (notes_.size() < workers.size()) notes_.emplace_back(plan.servers());
    net.heard_shadow = [this](shadow const& s) { check_shadow(s); };
    net.heard_answer = [this](test::server_fetch const& f) { heard_[f.server.index()].count(f.slot); };
  }

  void run(int steps) {
    std::uint64_t const joins_at = up_to(2 * static_cast<std::uint64_t>(steps));
    std::uint64_t const calm = 20 + up_to(200);
    for (int i = 0; i < steps; ++i) {
      step();
      if (static_cast<std::uint64_t>(i) == joins_at) {
        add(true);
        notes_.emplace_back(plan.servers());
      }
      if (up_to(calm) == 0) settle();
    }
    finish();
  }

 private:
  /// Answers of one server that hold the whole table, or a row among others.
  struct answers {
    std::uint64_t whole = 0;
    std::map<std::uint64_t, std::uint64_t> rows{};

    void count(read_slot const& of) {
      if (of.asked == selection::all) ++whole;
      else if (of.asked == selection::rows) for (std::uint64_t const row : of.rows) ++rows[row];
    }
  };
  /// What a worker knows of one server.
  struct knowledge {
    clock_index acknowledged = clock_index::lowest();  ///< own commits below it are kept no more
    std::vector<counts> whole;
    std::map<std::uint64_t, counts> rows;
    answers before{};     ///< that had come when it last asked for the same
    answers had{};        ///< and the time before
  };
  struct note {
    explicit note(std::size_t servers) : of(servers) {}
    bool reads = false;
    bool renews = false;  ///< what it has read in this clock
    clock_index last = clock_index::lowest();  ///< in which it has read
    staleness bound{};
    std::vector<server_id> asked{};
    std::uint64_t serial = 0;
    std::size_t due = 0;  ///< answers that it would have by now
    clock_index known = clock_index::lowest();
    std::vector<knowledge> of;
  };

  std::uint64_t up_to(std::uint64_t end) { return random_() % end; }
  server_id any_server() { return server_id{static_cast<std::uint32_t>(up_to(plan.servers()))}; }
  [[nodiscard]] admission_rule const& admission() const { return plan.protocol().admission; }
  [[nodiscard]] clock_index need_of(worker const& w, staleness bound) const {
    return admission().need(w.clock, bound, w.self.worker);
  }
  [[nodiscard]] note& note_of(worker const& w) { return notes_[w.self.worker.index()]; }

  void step() {
    switch (up_to(8)) {
      case 0:
      case 1: net.serve(any_server()); break;
      case 2: net.serve_abroad(any_server()); break;
      case 3:
      case 4: hear(any_server()); break;
      default: act(workers[up_to(workers.size())]);
    }
  }
  bool hear(server_id s) {
    bool const heard = net.hear(s);
    for (worker& w : workers) end_read(w);
    return heard;
  }
  void act(worker& w) {
    note const& n = note_of(w);
    if (n.reads) return;
    clock_index const need = need_of(w, admission().bound());
    if (!w.is_here && need > least_clock()) return;
    if (!w.is_here || (n.known >= need && up_to(2) == 0)) commit(w);
    else read(w);
  }
  clock_index least_clock() const {
    return std::ranges::min_element(workers, {}, &worker::clock)->clock;
  }

  void read(worker& w) {
    note& n = note_of(w);
    staleness const most = admission().bound();
    n.reads = true;
    n.bound = most;
    if (up_to(3) == 0) n.bound = std::min(most, staleness{static_cast<std::int64_t>(up_to(4))});
    n.renews = renews_ && n.last == w.clock && renewals_() % 2 == 0;
    if (n.renews) n.bound = most;
    n.last = w.clock;
    n.due = 0;
    ++n.serial;
    n.asked.clear();
    auto const what = std::array{selection::all,  selection::all,  selection::rows,
                                 selection::rows, selection::rows, selection::nothing}[up_to(6)];
    each_server([&](server_id s) {
      if (what == selection::all || up_to(2) == 0) n.asked.push_back(s);
    });
    if (n.asked.empty()) n.asked.push_back(any_server());
    for (server_id const s : n.asked) {
      auto some = what == selection::rows ? any_rows(s) : std::vector<std::uint64_t>{};
      note_answers(n.of[s.index()], what, some, s);
      ask(w, what, std::move(some), n.bound, s, n.renews);
      net.send_shadow(s, {w.self.worker.index(), n.serial, need_of(w, n.bound)});
    }
    end_read(w);
  }
  std::vector<std::uint64_t> any_rows(server_id s) {
    std::vector<std::uint64_t> some(1 + up_to(3));
    for (auto& row : some) row = up_to(plan.table(0).where().rows_of(s));
    return some;
  }

  void note_answers(knowledge& k, selection what, std::vector<std::uint64_t> const& some, server_id s) {
    answers& now = heard_[s.index()];
    if (what == selection::all) k.had.whole = std::exchange(k.before.whole, now.whole);
    for (std::uint64_t const row : std::set(some.begin(), some.end()))  // which may be there twice
      k.had.rows[row] = std::exchange(k.before.rows[row], now.rows[row]);
  }

  void end_read(worker& w) {
    note& n = note_of(w);
    if (!n.reads || w.waits()) return;
    n.reads = false;
    for (server_id const s : n.asked) {
      auto const& slot = w.slot(s);
      INFO("worker " << w.self.worker.value() << " at clock " << w.clock.value() << ", server " << s.value());
      check(w, n, s);
      n.known = std::max(n.known, slot.stamp.server_clock);
      auto& in = n.of[s.index()].acknowledged;
      in = std::max(in, slot.stamp.included);
      w.version = std::max(w.version, slot.stamp.version);
    }
  }

  void check(worker const& w, note& n, server_id s) {
    auto const& slot = w.slot(s);
    knowledge& k = n.of[s.index()];
    clock_index const need = need_of(w, n.bound);
    REQUIRE(slot.stamp.server_clock >= need);
    REQUIRE(slot.stamp.server_clock <= net.published(s));
    REQUIRE(slot.stamp.included <= w.clock);
    if (n.renews) check_news(k, slot, heard_[s.index()]);
    if (slot.asked == selection::rows) {
      REQUIRE(slot.row_stamps.size() == slot.rows.size());
      for (std::size_t i = 0; i < slot.rows.size(); ++i) {
        counts const now = row(w, i, s);
        check_state(w, k, now, slot.row_stamps[i], need);
        REQUIRE(slot.row_stamps[i].included >= slot.stamp.included);
        REQUIRE(slot.row_stamps[i].server_clock >= slot.stamp.server_clock);
        check_is_not_older(now, k.rows[slot.rows[i]]);
        if (!k.whole.empty()) check_is_not_older(now, k.whole[slot.rows[i]]);
        k.rows[slot.rows[i]] = now;
      }
    } else if (slot.asked == selection::all) {
      k.whole.resize(plan.table(0).where().rows_of(s));
      for (std::size_t i = 0; i < k.whole.size(); ++i) {
        counts const now = row(w, i, s);
        check_state(w, k, now, slot.stamp, need);
        check_is_not_older(now, k.whole[i]);
        check_is_not_older(now, k.rows[i]);
        k.whole[i] = now;
      }
    }
  }
  /// What is renewed is not the copy that the worker has read before.
  static void check_news(knowledge& k, read_slot const& slot, answers& heard) {
    bool is_news = slot.asked != selection::all || heard.whole > k.had.whole;
    if (slot.asked == selection::rows)
      for (std::uint64_t const row : slot.rows) is_news = is_news && heard.rows[row] > k.had.rows[row];
    INFO("a worker's copy is renewed by itself");
    REQUIRE(is_news);
  }
  /// What a row holds is what its stamp says.
  void check_state(worker const& w, knowledge const& k, counts const& now, read_stamp const& stamp,
                   clock_index need) const {
    std::size_t const self = w.self.worker.index();
    REQUIRE(stamp.included >= k.acknowledged);                              // none is lost
    REQUIRE(std::max(stamp.included, w.joined) == reached(now, self));      // none counts twice
    bool everything = true, nothing_beyond = true;
    for (std::size_t m = 0; m < workers.size(); ++m) {
      clock_index const seen = reached(now, m);
      everything = everything && seen >= std::max(need, stamp.server_clock);
      nothing_beyond = nothing_beyond && (m == self || seen <= w.clock + admission().bound());
    }
    REQUIRE(everything);  // SSP-1
    if (plan.protocol().visibility.holds_back()) REQUIRE(nothing_beyond);  // SSP-4
  }
  [[nodiscard]] clock_index reached(counts const& row, std::size_t m) const {
    return at(workers[m].joined.value() + row[m]);
  }
  static void check_is_not_older(counts const& now, counts const& before) {
    bool newer = true;
    for (std::size_t m = 0; m < before.size(); ++m) newer = newer && now[m] >= before[m];
    REQUIRE(newer);
  }

  /// The worker's own request would have been answered by now.
  void check_shadow(shadow const& one) {
    note& n = notes_[one.of];
    if (!n.reads || n.serial != one.serial) return;
    ++n.due;
    INFO("worker " << one.of << " waits longer than its own request would");
    REQUIRE(workers[one.of].asked.missing <= n.asked.size() - n.due);
  }

  void settle() {
    for (bool moved = true; std::exchange(moved, false);)
      each_server([&](server_id s) {
        while (net.serve_abroad(s) || net.serve(s) || hear(s)) moved = true;
      });
    for (worker& w : workers) {
      note const& n = note_of(w);
      if (!n.reads) continue;
      clock_index const need = need_of(w, n.bound);
      auto const closed = std::ranges::count_if(
          n.asked, [&](server_id s) { return net.published(s) < need; });
      INFO("worker " << w.self.worker.value() << " waits though nothing is under way");
      REQUIRE(static_cast<std::uint32_t>(closed) == w.asked.missing);
    }
  }
  /// Those who do not wait catch up, until nobody waits.
  void finish() {
    settle();
    auto const ahead = std::ranges::max_element(workers, {}, &worker::clock)->clock;
    for (std::int64_t c = 0; c <= ahead.value(); ++c) {
      for (worker& w : workers)
        if (w.clock == at(c) && w.clock < ahead && !note_of(w).reads) commit(w);
      settle();
    }
    for (worker& w : workers) REQUIRE_FALSE(w.waits());
  }

  std::mt19937_64 random_, renewals_;
  bool renews_;
  std::vector<answers> heard_;
  std::deque<note> notes_;
};

/// Own commits may be held back from their worker, too.
struct hidden {
  static constexpr bool holds_back = true;
  [[nodiscard]] constexpr clock_index horizon(fold_window const& w) const noexcept { return w.c_min; }
};

void check_at_random(rules const& used, std::vector<table_description> const& more = {}, bool may_renew = true) {
  for (std::uint64_t i = 0; i < test::seed_count(100); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    std::mt19937_64 random(seed);
    shape const is{.here = 2 + static_cast<std::uint32_t>(random() % 3),
                   .abroad = static_cast<std::uint32_t>(random() % 3),
                   .servers = 1 + static_cast<std::uint32_t>(random() % 2),
                   .cached_rows = random() % 3};
    random_process(used, is, seed, more, may_renew && random() % 2 == 0).run(400);
  }
}

}  // namespace

TEST_CASE("process cache, at random: bsp") { check_at_random(with(bsp{}, sum{})); }
TEST_CASE("process cache, at random: bsp, eager") { check_at_random(with(bsp{}, sum{}, eager{})); }
TEST_CASE("process cache, at random: ssp") {
  check_at_random(ssp{.staleness = 1});
  check_at_random(ssp{.staleness = 3});
}
TEST_CASE("process cache, at random: ssp, strict") {
  check_at_random(with(ssp{.staleness = 0}, strict{}));
  check_at_random(with(ssp{.staleness = 1}, strict{}));
  check_at_random(with(ssp{.staleness = 3}, strict{}));
  check_at_random(with(ssp{.staleness = 2}, hidden{}));
}
TEST_CASE("process cache, at random: asp") {
  check_at_random(asp{});
  check_at_random(with(asp{}, strict{}));
}
TEST_CASE("process cache, at random: dyn_sgd") {
  check_at_random(dyn_sgd{.staleness = 2}, {describe(multi_version(dense<float>{.rows = 2}))}, false);
}
