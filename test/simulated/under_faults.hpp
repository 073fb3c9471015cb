// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <rubato/storage/multi_version.hpp>
#include <rubato/testing/observed_run.hpp>
#include <rubato/testing/trial.hpp>

#include "simulated/drawn_rules.hpp"
#include "simulated/held_places.hpp"
#include "simulated/reads_of_all_kinds.hpp"
#include "simulated/sequential.hpp"

namespace rubato::test {

/// A run of several processes under faults, whose bodies are watched by an observer: all that a seed decides, but for
/// the faults.
class watched_trial {
 public:
  /// `renews`: workers renew their copies wherever the protocol allows it.
  explicit watched_trial(std::uint64_t seed, bool renews = false) : random_(seed, 0xfa17) {
    draw_protocol(seed);
    options_.workers = 1 + static_cast<std::uint32_t>(random_.below(3));
    options_.servers = 1 + static_cast<std::uint32_t>(random_.below(2));
    options_.place.when_lost = random_.chance(0.6) ? net::on_loss::go_on : net::on_loss::end;
    options_.place.silence = std::chrono::milliseconds(random_.chance(0.5) ? 100 : 400);
    options_.place.reconnect = std::chrono::milliseconds(random_.chance(0.2) ? 80 : 300);
    if (random_.chance(0.3)) options_.place.keys.token = "a secret";
    if (random_.chance(0.3)) options_.place.limits.rows_max = 100'000;
    options_.endangered = [this](testing::process_number p) { endanger(p); };
    options_.after_event = [this] {
      if (auto const wrong = places_.look([this](auto p) { return is_in_danger(p); })) observer_->breach(*wrong);
      // Else some of what was held back may have been left out.
      bool const all_are_there = !rules_.expected.holds_back || (in_danger_.empty() && !rules_.drops);
      if (auto const wrong = places_.look_at_memory(is_row, all_are_there)) observer_->breach(*wrong);
    };
    in_background_ = random_.chance(0.2);
    threads_ = random_.chance(0.15) ? 2 : 1;
    clocks_ = 1 + static_cast<std::int64_t>(random_.below(8));
    if (random_.chance(0.05)) {  // commits that are folded while they arrive
      wide_rows_ = 500'000;
      options_.servers = 1;
      options_.frame = 2'500'000;
      options_.with = {testing::fault::cuts_inside};
      rules_ = {.protocol = rules(ssp{.staleness = 1}), .expected = testing::eager_rules(1)};
      clocks_ = std::min<std::int64_t>(clocks_, 2);
      options_.without = {testing::fault::paced_paths, testing::fault::small_rooms, testing::fault::pieces};
    } else if (random_.chance(0.15)) {  // clusters one after the other
      clusters_ = 2;
      options_.harm = false;
      options_.without = {testing::fault::joiners, testing::fault::impostors};
    } else if (random_.chance(0.04)) {  // lives that follow one another at once
      options_.workers = 3;
      options_.place.when_lost = net::on_loss::go_on;
      options_.with = {testing::fault::kills, testing::fault::restarts};
      options_.place.limits.rows_max = 100'000;
    } else if (random_.chance(0.06)) {  // two lives at a time
      options_.workers = 3;
      options_.place.when_lost = net::on_loss::go_on;
      options_.with = {testing::fault::twins};
      options_.faults_for = std::chrono::milliseconds(30);
      clocks_ = 16;
    } else if (random_.chance(0.1)) {  // a worker says what is not so
      options_.workers = 2 + static_cast<std::uint32_t>(random_.below(2));
      options_.with = {testing::fault::liars};
      is_a_liar_there_ = true;
      options_.place.limits.rows_max = 100'000;
      options_.faults_for = std::chrono::milliseconds(20);
    } else if (random_.chance(0.2)) {
      runs_ = 2;  // who comes in between would be watched in the second one
      options_.without = {testing::fault::joiners, testing::fault::restarts};
    }
    draw_renewals(seed, renews ? 1 : 0.4);
    schedule_ = {.seed = seed, .workers = columns, .servers = options_.servers};
    // Who begins anew after all others were lost begins another run, which has all of the last one from its start.
    rules_.expected.newest = [this, newest = rules_.expected.newest](clock_index c) {
      return in_danger_.empty() ? newest(c) : clock_index::highest();
    };
    observer_.emplace(rules_.expected, 0, columns, testing::detail::servers_of_rows(schedule_));
  }

  [[nodiscard]] testing::trial_result run() {
    testing::trial_result r = testing::run_trial(
        schedule_.seed, options_, [this](tcp const& t, testing::simulated_process& me) { play(t, me); });
    for (auto const& v : observer_->violations()) r.found.push_back(v);
    return r;
  }
  [[nodiscard]] std::uint64_t commits() const { return observer_->commits(); }

 private:
  static constexpr std::uint32_t columns = 16;  ///< one for each life of a worker
  static constexpr std::size_t rows = testing::detail::table_rows;
  static constexpr std::uint64_t own_rows = std::uint64_t{1} << 60;

  void draw_protocol(std::uint64_t seed) {
    rules_ = draw_rules_by_clocks(random_);
    if (random_stream others(seed, 0x07e5); others.chance(0.35)) rules_ = draw_other_rules(others);
  }

  /// Copies that are renewed while workers compute: by workers that share what they read, too.
  void draw_renewals(std::uint64_t seed, double chance) {
    random_stream draws(seed, 0xe55b);
    if (!draws.chance(chance) || !renew_copies(rules_, draws)) return;
    if (options_.workers < 3 && draws.chance(0.3)) threads_ = 2;
  }

  /// That the run begins with.
  [[nodiscard]] std::uint32_t workers() const { return options_.workers * threads_; }

  /// From now on it may be given up by the others at any time.
  void endanger(testing::process_number p) {
    in_danger_.push_back(p);
    for (life const& l : lives_)  // also one whose body has ended: what it sent last may not have arrived
      if (l.process == p) observer_->crashed(l.column);
  }
  [[nodiscard]] bool is_in_danger(testing::process_number p) const {
    return std::ranges::find(in_danger_, p) != in_danger_.end();
  }

  void play(tcp transport, testing::simulated_process& me) {
    transport.background = in_background_;
    transport.threads = threads_;
    for (int n = 0; n < clusters_; ++n) play(transport, me, n == 0);
  }

  void play(tcp const& transport, testing::simulated_process& me, bool is_first) {
    if (rules_.versioned) play_with<multi_version<dense<float>>>(transport, me, is_first);
    else play_with<dense<float>>(transport, me, is_first);
  }

  template <class Weights>
  void play_with(tcp const& transport, testing::simulated_process& me, bool is_first) {
    std::vector<float> const first = test::first_weights();
    using wide = dense<std::int32_t, sum>;
    cluster<tcp, rules, testing::detail::counting_dense, testing::detail::counting_sparse, Weights, wide> c{
        transport, *rules_.protocol,
        testing::detail::counting_dense{.rows = rows, .width = columns, .partition = {schedule_.seed}},
        testing::detail::counting_sparse{.width = columns, .partition = {schedule_.seed}},
        Weights(dense<float>{.rows = test::size, .init = first}), wide{.rows = wide_rows_}};
    held_places::hold const mine(places_, me, c.runtime());
    if (!is_first) {
      unwatched(c);
      if (transport.place.as != net::role::worker) return;
      auto const expected = static_cast<std::int32_t>(3 * workers());
      if (std::ranges::any_of(c.template parameters<3>(),
                              [&](std::int32_t n) { return n > expected || (n != expected && !rules_.drops); }))
        observer_->breach("a second cluster does not count every commit once");
      return;
    }
    auto const report = run_watched(c, me);
    if (transport.place.as != net::role::worker) return;
    auto const& counted = c.template parameters<0>();
    auto const& keyed = c.template parameters<1>();
    auto const& learned = c.template parameters<2>();
    auto const& counts = c.template parameters<3>();
    // Who was given up may see what there was before others went on without it.
    if (me.is_killed() || is_in_danger(me.number()) || report.completed != completion::whole) return;
    if (rules_.by_rounds) check_rounds(counted);
    if (!rules_.drops) {
      observer_->finish(0, counted);
      observer_->finish(1, testing::detail::spread(keyed, columns));
    }
    check_wide(counts);
    if (rules_.versioned && in_danger_.empty()) check_versions(learned, first);
    if (rules_.is_bsp && in_danger_.empty() && lives_.size() == workers()) check_weights(learned, clocks_);
    if (runs_ == 1) return;
    unwatched(c);
    if (in_danger_.empty()) check_wide(c.template parameters<3>());
  }

  /// What is asked of servers by a process that nobody has given up is never too late, too early or another's.
  template <class Cluster>
  run_report run_watched(Cluster& c, testing::simulated_process& me) {
    try {
      return c.run([&](auto& w) { body(w, me); });
    } catch (error const& e) {
      std::string const why = e.what();
      bool const is_own = why.find("was refused, for") != std::string::npos && !why.starts_with("the run was ended") &&
                          why.find(" was lost: ") == std::string::npos;
      if (is_own && !me.is_killed() && !is_in_danger(me.number()))
        observer_->breach(me.name(), " is not lost, but: ", why);
      throw;
    }
  }

  /// What is counted still is every commit once.
  template <class Cluster>
  void unwatched(Cluster& c) {
    c.run([&](auto& w) {
      std::vector<std::int32_t> counts(wide_rows_);
      for (int clock = 0; clock < 3; ++clock) {
        w[table<3>].pull(counts);
        w[table<3>].push(std::vector<std::int32_t>(wide_rows_, 1));
        ++others_;
        w.commit();
      }
    });
  }

  struct life {
    testing::process_number process;
    std::uint32_t column;
  };

  /// What a life of a worker does. `Worker` is the cluster's.
  template <class Worker>
  void body(Worker& w, testing::simulated_process& me) {
    if (lives_.size() == columns) throw std::logic_error("more lives than columns");
    auto const column = static_cast<std::uint32_t>(lives_.size());
    lives_.push_back({me.number(), column});
    testing::presence present(*observer_, column, w.clock());
    if (me.is_killed() || is_in_danger(me.number())) observer_->crashed(column);
    random_stream draws(schedule_.seed, 0xb0d1 + column);
    std::optional<reads_of_all_kinds> any;
    if (rules_.renews) any.emplace(*observer_, column, columns, rules_.expected.bound, draws);
    random_stream groups(schedule_.seed, 0x70c3 + column);
    auto const read = [&] {
      if (groups.chance(0.25)) read_together(w, me.number(), column, groups);
      else if (any) any->read(w, draws, is_judged(me.number()));
      else read_either(w, me.number(), column, draws);
    };
    for (std::int64_t clock = 0; clock < clocks_; ++clock) {
      if (draws.chance(0.7)) read();
      me.work(stretch(std::chrono::milliseconds(3), draws.uniform()));
      push(w, column, draws);
      if (rules_.is_bsp) step_weights(w, clock);
      if (rules_.versioned) step_versions(w, column, draws);
      if (draws.chance(0.4)) read();
      commit(w, column, clock + 1 == clocks_);
    }
    if (any && draws.chance(0.5)) read();  // and what is renewed then nobody reads
    if (!me.is_killed() && !is_in_danger(me.number())) present.leave();
  }

  /// Where the pace says when, all is committed in the end.
  template <class Worker>
  void commit(Worker& w, std::uint32_t column, bool is_last) {
    observer_->asking(column, rules_.expected.bound);
    observer_->committing(column);
    if (rules_.by_pace) w.report_loss(1 / (1 + to_seconds(w.now().since_start())));
    if (rules_.by_pace && !is_last) {
      if (!w.step()) return observer_->not_committed(column);
    } else {
      w.commit();
    }
    observer_->committed(column, w.clock());
  }

  /// Of the sparse table, for one commit alone. Nobody reads it.
  [[nodiscard]] static std::uint64_t own_row(std::uint32_t column, clock_index clock) {
    return own_rows + column * std::uint64_t{1'000} + static_cast<std::uint64_t>(clock.value());
  }
  [[nodiscard]] static bool is_row(std::uint64_t row) {
    if (row >= own_rows) return row < own_rows + columns * 1'000;
    return testing::detail::sparse_key(row % 0x1'0000'0000u) == row && row % 0x1'0000'0000u < rows;
  }
  [[nodiscard]] static std::vector<std::uint64_t> all_rows() {
    std::vector<std::uint64_t> all(rows);
    std::iota(all.begin(), all.end(), std::uint64_t{0});
    return all;
  }

  template <class Worker>
  void push(Worker& w, std::uint32_t column, random_stream& draws) {
    std::vector<std::int64_t> delta(rows * columns);
    for (std::size_t row = 0; row < rows; ++row) {
      delta[row * columns + column] = 1;
      observer_->pushing(column, 0, row, 1);
    }
    if (draws.chance(0.7)) w.push(delta);
    else w.push(all_rows(), delta);
    std::vector<std::uint64_t> keys;
    std::vector<std::int64_t> values;
    for (std::size_t row = 0; row < rows; ++row) {
      if (!draws.chance(0.3)) continue;
      auto const amount = static_cast<std::int64_t>(1 + draws.below(3));
      observer_->pushing(column, 1, row, amount);
      keys.push_back(testing::detail::sparse_key(row));
      values.resize(values.size() + columns);
      values[values.size() - columns + column] = amount;
    }
    keys.push_back(own_row(column, w.clock()));
    values.resize(values.size() + columns, 1);
    w[table<1>].push(keys, values);
    w[table<3>].push(std::vector<std::int32_t>(wide_rows_, 1));
    ++steps_;
  }

  /// Everything of every commit once; of those of somebody who may have been lost, at most.
  void check_wide(std::vector<std::int32_t> const& counts) {
    auto const expected = (rules_.by_pace ? steps_ : static_cast<std::int64_t>(observer_->commits())) + others_;
    std::int64_t const least = in_danger_.empty() && !rules_.drops ? expected : 0;
    auto const bad = std::ranges::find_if(counts, [&](std::int32_t n) { return n < least || n > expected; });
    if (bad != counts.end())
      observer_->breach("in the end row ", bad - counts.begin(), " of the wide table counts ", *bad, " commits of ",
                        expected);
  }

  /// A liar reads what does not have what it has committed, and rounds fold late.
  [[nodiscard]] bool is_judged(testing::process_number process) const {
    return (!is_a_liar_there_ || !is_in_danger(process)) && !rules_.by_rounds;
  }

  template <class Worker>
  void read_either(Worker& w, testing::process_number process, std::uint32_t column, random_stream& draws) {
    std::vector<std::uint64_t> const at = all_rows();
    std::vector<std::int64_t> out(rows * columns);
    staleness const s = rules_.expected.bound;
    observer_->asking(column, s);
    bool const counts = is_judged(process);
    if (draws.chance(0.5)) {
      w.pull(out, s);
      if (rules_.by_rounds) check_rounds(out);
      if (counts) observer_->read(column, s, 0, testing::observer::kind::whole, at, out);
      return;
    }
    std::vector<std::uint64_t> keys = at;
    for (auto& k : keys) k = testing::detail::sparse_key(k);
    w[table<1>].pull(keys, out, s);
    if (counts) observer_->read(column, s, 1, testing::observer::kind::keyed, at, out);
  }

  /// Several tables at a time.
  template <class Worker>
  void read_together(Worker& w, testing::process_number process, std::uint32_t column, random_stream& draws) {
    std::vector<std::uint64_t> const at = all_rows();
    std::vector<std::uint64_t> keys = at;
    for (auto& k : keys) k = testing::detail::sparse_key(k);
    std::vector<std::int64_t> counted(rows * columns), keyed(rows * columns);
    std::vector<std::int32_t> wide(wide_rows_);
    bool const whole = draws.chance(0.5);
    std::vector<pull_wish> wishes{whole ? w[table<0>].into(counted) : w[table<0>].into(at, counted),
                                  w[table<1>].into(keys, keyed)};
    if (draws.chance(0.5)) wishes.push_back(w[table<3>].into(wide));
    draws.shuffle(std::span(wishes));
    if (draws.chance(0.3)) {
      w[table<0>].prefetch();
      w[table<1>].prefetch(keys);
    }
    staleness const s = rules_.expected.bound;
    observer_->asking(column, s);
    w.pull_together(wishes, s);
    if (rules_.by_rounds) check_rounds(counted);
    if (!is_judged(process)) return;
    using kind = testing::observer::kind;
    observer_->read(column, s, 0, whole ? kind::whole : kind::keyed, at, counted);
    observer_->read(column, s, 1, kind::keyed, at, keyed);
  }

  /// A commit adds 1 to all rows of its worker's column: of each server they hold as many.
  void check_rounds(std::vector<std::int64_t> const& counted) {
    auto const servers = testing::detail::servers_of_rows(schedule_).front();
    for (std::uint32_t column = 0; column < columns; ++column)
      for (std::size_t row = 0; row < rows; ++row) {
        auto const first = static_cast<std::size_t>(std::ranges::find(servers, servers[row]) - servers.begin());
        std::int64_t const here = counted[row * columns + column], there = counted[first * columns + column];
        if (here != there || here < 0 || here > clocks_)
          return observer_->breach("row ", row, " counts ", here, " commits of life ", column, ", and row ", first, " ",
                                   there);
      }
  }

  /// Each life has a weight of its own to which each of its commits adds 1: worth 1 over the number of commits that
  /// have the same version.
  template <class Worker>
  void step_versions(Worker& w, std::uint32_t column, random_stream& draws) {
    if (draws.chance(0.7)) {
      test::weights now(test::size);
      w[table<2>].pull(now, rules_.expected.bound);
      float const own = now[column] - test::first_weights()[column];
      if (own < -1e-3F || own > static_cast<float>(clocks_) + 1e-3F)
        observer_->breach("DYN-1: life ", column, " reads ", own, " of its own commits, of which there are at most ",
                          clocks_);
    }
    w[table<2>].push(std::array{key{column}}, std::array{1.0F});
  }

  /// The updates of a version count 1 together.
  void check_versions(test::weights const& learned, test::weights const& first) {
    double all = 0;
    for (std::size_t i = 0; i < learned.size(); ++i) {
      double const one = double{learned[i]} - first[i];
      all += one;
      if (i >= lives_.size() ? one != 0 : one < 0.999 * static_cast<double>(clocks_) / static_cast<double>(columns))
        observer_->breach("DYN-1: in the end the commits of life ", i, " count ", one);
    }
    bool const is_whole = std::abs(all - std::round(all)) <= 1e-3;
    if (!is_whole || (lives_.size() == 1 && std::round(all) != static_cast<double>(clocks_)))
      observer_->breach("DYN-1: in the end all commits count ", all, " versions");
  }

  /// What a sequential program computes; read before anything of it is pushed.
  template <class Worker>
  void step_weights(Worker& w, std::int64_t clock) {
    test::weights now(test::size);
    w[table<2>].pull(now);
    bool const is_known = in_danger_.empty() && lives_.size() == workers() && clock == w.clock().value();
    if (is_known) check_weights(now, clock);
    w[table<2>].push(test::update_of(now, w.rank(), clock, 0));
  }

  void check_weights(test::weights const& w, std::int64_t clock) {
    test::job j{std::vector<std::int64_t>(workers(), clock), 1};
    test::weights const expected = clock == 0 ? j.init : test::sequential(j);
    for (std::size_t i = 0; i < test::size; ++i)
      if (std::bit_cast<std::uint32_t>(w[i]) != std::bit_cast<std::uint32_t>(expected[i]))
        return observer_->breach("BSP: weight ", i, " at clock ", clock, " is ", w[i],
                                 ", but a sequential program has ", expected[i]);
  }

  random_stream random_;
  testing::trial_options options_;
  bool is_a_liar_there_ = false;
  drawn_rules rules_;
  std::size_t wide_rows_ = 4;
  std::uint32_t threads_ = 1;  ///< workers of a process
  bool in_background_ = false;  ///< a thread of each worker process serves its links
  int runs_ = 1;      ///< of a cluster; only the first is watched
  int clusters_ = 1;  ///< of each process; only the first is watched
  std::int64_t steps_ = 0;   ///< that are watched, each of which pushes once
  std::int64_t others_ = 0;  ///< commits that are not watched
  std::int64_t clocks_ = 1;
  testing::schedule schedule_;
  std::optional<testing::observer> observer_;
  std::vector<testing::process_number> in_danger_;
  std::vector<life> lives_;
  held_places places_;
};

}  // namespace rubato::test
