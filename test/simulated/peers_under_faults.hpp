// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/hop_node.hpp>
#include <rubato/peer/push_node.hpp>
#include <rubato/testing/peer_observer.hpp>
#include <rubato/testing/trial.hpp>
#include <rubato/transport/tcp.hpp>

#include "simulated/drawn_peers.hpp"
#include "simulated/held_places.hpp"
#include "simulated/peers_in_one_place.hpp"

namespace rubato::test {

/// A run of peers in processes under faults, watched from outside: all that a seed decides, but for the faults.
///
/// The judge of Hop looks after every event. Where nobody does without anybody (the standard gather, all_reduce), each
/// trajectory is that of a computation in one place, bit for bit, whatever goes wrong. The others keep the sum of all
/// parameters, each times its peer's weight, and the sum of weights.
class watched_peers : drawn_peers {
 public:
  enum class faults { some, none };

  explicit watched_peers(std::uint64_t seed, faults what = faults::some) : drawn_peers(seed) {
    options_.workers = schedule_.peers();
    options_.servers = 0;
    options_.place.silence = std::chrono::milliseconds(random_.chance(0.5) ? 100 : 400);
    options_.place.reconnect = std::chrono::milliseconds(random_.chance(0.2) ? 80 : 300);
    options_.frame = 1000;
    if (random_.chance(0.3)) options_.place.keys.token = "a secret";
    options_.endangered = [this](testing::process_number p) { in_danger_.push_back(p); };
    options_.after_event = [this] {
      if (auto const wrong = places_.look([this](auto p) { return is_in_danger(p); })) breach(*wrong);
      look();
    };
    in_background_ = random_.chance(0.3);
    for (std::uint32_t i = 0; i < schedule_.peers(); ++i)
      slowness_.push_back(std::array{1.0, 1.0, 3.0, 10.0}[random_.below(4)]);
    if (random_.chance(0.1)) {  // groups one after the other
      groups_ = 2;
      options_.harm = false;
      options_.without = {testing::fault::joiners, testing::fault::impostors};
    } else if (random_.chance(0.06)) {  // who stands still is cut off, and comes back when the others went on
      options_.with = {testing::fault::cuts, testing::fault::long_pauses};
    } else if (random_.chance(0.05)) {
      options_.with = {testing::fault::twins};
    } else if (random_.chance(0.2)) {
      runs_ = 2;
    }
    // Late ones, and an impostor that is a coordinator, would be a group of their own.
    if (schedule_.peers() <= 2) options_.without.push_back(testing::fault::joiners);
    if (what == faults::none) {
      options_.with.clear();
      for (std::size_t f = 0; f < testing::fault_kinds; ++f)
        options_.without.push_back(static_cast<testing::fault>(f));
    }
    before_run_ = first_states();
  }

  [[nodiscard]] testing::trial_result run() {
    testing::trial_result r = testing::run_trial(
        schedule_.seed, options_, [this](tcp const& t, testing::simulated_process& me) { play(t, me); });
    end_watch();
    if (r.harmful) judge_survivors(r);
    else judge_sum();
    for (auto const& v : violations_) r.found.push_back(v);
    if (!r.found.empty()) r.found.push_back(describe());
    return r;
  }

  /// Whether the others go on when somebody is lost.
  [[nodiscard]] bool outlives_loss() const { return outlives_loss_; }
  [[nodiscard]] std::uint64_t looks() const { return looks_; }
  /// The same comparison in one place held so often.
  [[nodiscard]] std::uint64_t compared() const { return compared_; }

 private:
  using group_type = peer_group<double, tcp, peer_rules, sgd>;
  static constexpr std::size_t size = 5;  ///< parameters
  static constexpr int no_more = -1;      ///< runs to watch

  /// A life of a peer.
  struct member {
    testing::simulated_process* process;
    group_type* group;  ///< while it has one
    std::uint32_t rank;
    int returned = 0;  ///< runs
  };

  /// All of them, as one runtime, for the judge.
  class everyone final : public peer_runtime {
   public:
    explicit everyone(watched_peers const& of) : of_(of) {}
    peer_report run(body_type) override { throw std::logic_error("to be looked at only"); }
    void stop() noexcept override {}
    [[nodiscard]] time_point now() const override { return {}; }
    /// Somebody does without it, and may; or it is no more.
    [[nodiscard]] bool crashed(std::uint32_t rank) const noexcept override {
      member const* const m = of_.at(rank);
      if (m == nullptr || m->process->is_killed()) return true;
      return of_.is_in_danger(m->process->number()) && std::ranges::any_of(of_.members_, [&](member const& other) {
        return other.group != nullptr && !other.process->is_killed() && other.group->runtime().crashed(rank);
      });
    }
    void look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const override {
      member const* const m = of_.at(rank);
      if (m != nullptr && m->group != nullptr && !m->process->is_killed()) m->group->runtime().look_at(rank, f);
    }

   private:
    watched_peers const& of_;
  };

  // ---- what each process does

  void play(tcp transport, testing::simulated_process& me) {
    transport.background = in_background_;
    for (int n = 0; n < groups_; ++n) {
      group_type group{transport, schedule_.mixing, *rules_, step_, first_states()[0]};
      held_places::hold const mine(places_, me, group.runtime());
      if (transport.place.as == net::role::coordinator) (void)group.run([](auto&) {});
      else train(group, me, n);
    }
  }

  void train(group_type& group, testing::simulated_process& me, int of_group) {
    std::uint32_t const rank = group.runtime().rank();
    // Some who come when all is over may be a group of their own.
    bool const is_over = std::ranges::any_of(members_, [&](member const& m) { return m.returned == runs_; });
    if (is_over) averages_.clear();
    struct guard {
      member& m;
      ~guard() { m.group = nullptr; }
    } const mine{members_.emplace_back(member{&me, of_group == 0 ? &group : nullptr, rank})};
    for (int run = 0; run < runs_; ++run) {
      int const number = of_group * runs_ + run;
      auto const report = group.run([&](auto& peer) { body(peer, me, run, number == 0); });
      if (me.is_killed()) return;
      returned(group, mine.m, report, number);
      if (of_group == 0) mine.m.returned = run + 1;
    }
  }

  template <class Peer>
  void body(Peer& peer, testing::simulated_process& me, int run, bool is_first) {
    std::uint32_t const rank = peer.rank();
    random_stream draws(schedule_.seed, 0xb0d7 + rank);
    for (std::int64_t const k : peer.iterations(schedule_.asks_for(rank))) {
      if (k >= schedule_.makes(rank)) return;
      if (!me.is_killed()) compare(peer.parameters(), rank, run, k);
      me.work(stretch(std::chrono::microseconds(800), slowness_[rank] * draws.uniform()));
      auto const gradient = gradient_at(peer.parameters(), rank, k);
      if (is_first && !me.is_killed()) note_step(gradient);
      peer.step(gradient);
    }
  }

  void note_step(std::vector<double> const& gradient) {
    for (std::size_t i = 0; i < size; ++i) steps_[i] -= step_.rate * gradient[i];
  }

  /// Of runs that follow one another, each begins with what the last one left.
  [[nodiscard]] peer_states<double> const& expected(int run, std::int64_t k) {
    while (known_.size() <= static_cast<std::size_t>(run)) {
      auto const first = known_.empty() ? first_states() : known_.back().back();
      known_.push_back(hop_ ? in_one_place(schedule_.mixing, hop_->order, step_, first, schedule_.iterations)
                            : all_reduced(step_, first, schedule_.iterations));
    }
    return known_[static_cast<std::size_t>(run)][static_cast<std::size_t>(k)];
  }

  /// HOP-3, and what all_reduce promises.
  void compare(std::span<double const> x, std::uint32_t rank, int run, std::int64_t k) {
    if (!is_exact_) return;
    ++compared_;
    if (!same_bits<double>(x, expected(run, k)[rank]))
      breach("peer ", rank, " has other parameters before iteration ", k, " of run ", run,
             " than a computation in one place (HOP-3)");
  }

  void returned(group_type& group, member const& of, peer_report const& report, int number) {
    std::uint32_t const rank = of.rank;
    auto const own = group.parameters(rank);
    auto const average = group.parameters();
    while (averages_.size() <= static_cast<std::size_t>(number)) averages_.emplace_back();
    auto& known = averages_[static_cast<std::size_t>(number)];
    if (!known) known = average;
    if (!same_bits<double>(*known, average)) breach("peers disagree on the average of all after run ", number);
    bool const is_of_first = number < runs_;
    if (is_exact_) compare(own, rank, is_of_first ? number : number - runs_, schedule_.iterations);
    if (number == 0) finals_.emplace_back(weight_of(group, rank), own);
    if (!observer_ || number != watched_run_ || at(rank) != &of) return;
    everyone const all(*this);
    bool is_plain = true;  // who is lost when its iterations are over is missing in the report
    for (std::uint32_t i = 0; i < schedule_.peers(); ++i)
      is_plain = is_plain && (!all.crashed(i) || observer_->gone(i));
    if (is_plain) observer_->finish(all, report);
    end_watch();
    ++watched_run_;
    // Who is missing now is missing in the next one, too.
    if (watched_run_ == runs_) watched_run_ = no_more;
  }

  // ---- the judge of Hop

  void look() {
    if (!hop_ || watched_run_ == no_more) return;
    everyone const all(*this);
    if (!observer_ && !begin_watch(all)) return;
    ++looks_;
    observer_->look(all);
  }

  /// When a run has begun: then all are there who will be.
  [[nodiscard]] bool begin_watch(everyone const& all) {
    bool has_begun = false, is_first = true;
    for (std::uint32_t i = 0; i < schedule_.peers(); ++i) {
      if (all.crashed(i)) continue;
      if (at(i)->returned != watched_run_) return false;
      all.look_at(i, [&](peer_node const& n) {
        hop_core const& core = dynamic_cast<hop_node const&>(n).core();
        has_begun = has_begun || core.started();
        is_first = is_first && core.iteration().value() == 0;
      });
    }
    if (!has_begun) return false;
    // The next run has begun without one that does not know yet that it is lost.
    if (!is_first) watched_run_ = no_more;
    if (!is_first) return false;
    has_run_ = true;
    std::vector<member const*> those;
    for (std::uint32_t i = 0; i < schedule_.peers(); ++i) those.push_back(at(i));
    watched_ = std::move(those);
    observer_.emplace(testing::hop_bounds_of(*hop_, schedule_.iterations), schedule_.mixing.topology(),
                      schedule_.iterations);
    return true;
  }
  void end_watch() {
    if (!observer_) return;
    for (auto& v : observer_->violations()) violations_.push_back(std::move(v));
    observer_.reset();
  }

  // ---- in the end

  /// Who outlives a loss ends well where nothing worse than deaths has happened, and the coordinator lives.
  void judge_survivors(testing::trial_result const& r) {
    using testing::fault;
    for (fault const f :
         {fault::long_blocks, fault::long_pauses, fault::twins, fault::joiners, fault::impostors})
      if (r.faults[static_cast<std::size_t>(f)] != 0) return;
    bool const anybody = std::ranges::any_of(
        r.ends, [&](auto const& e) { return e.number != 0 && !is_in_danger(e.number); });
    if (!outlives_loss_ || !has_run_ || is_in_danger(0) || !anybody) return;
    for (testing::process_end const& e : r.ends)
      if (!e.failure.empty() && !is_in_danger(e.number)) breach(e.name, " does not outlive a loss: ", e.failure);
  }

  /// Averages keep the sum.
  void judge_sum() {
    if (hop_ || is_exact_ || finals_.size() != schedule_.peers()) return;
    for (std::size_t i = 0; i < size; ++i) {
      double sum = 0, weights = 0;
      for (auto const& [w, x] : finals_) {
        sum += w * x[i];
        weights += w;
      }
      double const wanted = steps_[i] + schedule_.peers() * before_run_[0][i];
      if (steps_by_weight_ && std::abs(sum - wanted) > 1e-9)
        breach("all parameters number ", i, " together are ", sum, ", expected ", wanted);
      if (std::abs(weights - schedule_.peers()) > 1e-9)
        breach("all weights together are ", weights, ", expected ", schedule_.peers());
    }
  }

  /// Its part of all weights: one, where weights do not travel.
  [[nodiscard]] static double weight_of(group_type const& group, std::uint32_t rank) {
    double weight = 1;
    group.runtime().look_at(rank, [&](peer_node const& n) {
      if (auto const* const pushes = dynamic_cast<push_node const*>(&n)) weight = pushes->weight();
    });
    return weight;
  }

  // ---- who is there

  /// Of the run that is watched, or will be.
  [[nodiscard]] member const* at(std::uint32_t rank) const {
    if (!watched_.empty()) return watched_[rank];
    member const* last = nullptr;  // one that stood still may come after who has its place by now, and goes again
    for (member const& m : members_)
      if (m.rank == rank && (last == nullptr || m.group != nullptr || last->group == nullptr)) last = &m;
    return last;
  }
  [[nodiscard]] bool is_in_danger(testing::process_number p) const {
    return std::ranges::find(in_danger_, p) != in_danger_.end();
  }
  template <class... Parts>
  void breach(Parts const&... parts) {
    if (violations_.size() < 20) violations_.push_back(testing::detail::text(parts...));
  }

  testing::trial_options options_;
  std::vector<double> slowness_;
  bool in_background_ = false;
  int runs_ = 1;
  int groups_ = 1;

  held_places places_;
  std::deque<member> members_;
  std::vector<testing::process_number> in_danger_;
  std::vector<member const*> watched_;  ///< by rank, from the beginning of the first run on
  std::optional<testing::peer_observer> observer_;
  int watched_run_ = 0;
  bool has_run_ = false;
  std::uint64_t looks_ = 0;
  std::uint64_t compared_ = 0;
  std::vector<std::vector<peer_states<double>>> known_;  ///< by run: the states before each iteration
  std::vector<std::optional<std::vector<double>>> averages_;  ///< by run
  peer_states<double> before_run_;
  std::vector<std::pair<double, std::vector<double>>> finals_;  ///< of the first run: weights with parameters
  std::array<double, size> steps_{};
  std::vector<std::string> violations_;
};

}  // namespace rubato::test
