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
#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/hop_node.hpp>
#include <rubato/peer/peer_rules.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/peer_observer.hpp>
#include <rubato/testing/peer_schedule.hpp>
#include <rubato/testing/trial.hpp>
#include <rubato/transport/tcp.hpp>

#include "simulated/held_places.hpp"
#include "simulated/peers_in_one_place.hpp"

namespace rubato::test {

/// What peers under all_reduce come to, in one loop: chunk c of the gradient is summed from peer c on.
[[nodiscard]] inline std::vector<peer_states<double>> all_reduced(sgd const& options, peer_states<double> first,
                                                                  std::int64_t iterations) {
  auto const peers = static_cast<std::uint32_t>(first.size());
  std::size_t const size = first[0].size();
  plain_sgd<double> step(options, size);  // of one, since all are alike
  std::vector<peer_states<double>> all{std::move(first)};
  for (std::int64_t k = 0; k < iterations; ++k) {
    std::vector<double> x = all.back()[0];
    peer_states<double> gradients;
    for (std::uint32_t i = 0; i < peers; ++i) gradients.push_back(gradient_at<double>(x, i, k));
    std::vector<double> mean;
    for (std::uint32_t c = 0; c < peers; ++c)
      for (std::size_t n = size / peers + (c < size % peers ? 1 : 0); n != 0; --n) {
        double sum = gradients[c][mean.size()];
        for (std::uint32_t i = 1; i < peers; ++i) sum = gradients[(c + i) % peers][mean.size()] + sum;
        mean.push_back(peers == 1 ? sum : sum / peers);
      }
    step.apply(x, mean, x);
    all.emplace_back(peers, x);
  }
  return all;
}

/// A run of peers in processes under faults, watched from outside: all that a seed decides, but for the faults.
///
/// The judge of Hop looks after every event. Where nobody does without anybody (the standard gather, all_reduce), each
/// trajectory is that of a computation in one place, bit for bit, whatever goes wrong. AD-PSGD keeps the sum of all
/// parameters.
class watched_peers {
 public:
  enum class faults { some, none };

  explicit watched_peers(std::uint64_t seed, faults what = faults::some) : random_(seed, 0x9fa17) {
    draw_protocol(seed);
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

  /// What is run.
  [[nodiscard]] std::string describe() const {
    auto const all = rules_->make_node({.mixing = schedule_.mixing,
                                        .self = worker_id{0},
                                        .element = element_type::float64,
                                        .initial = std::as_bytes(std::span(before_run_[0])),
                                        .make_step = [this]() -> std::unique_ptr<peer_step> {
                                          return std::make_unique<detail::peer_step_of<double, sgd>>(step_);
                                        }});
    std::string text = "(" + schedule_.mixing.topology().name() + ", " + std::to_string(schedule_.iterations) +
                       " iterations, " + all->agreement() + "; they make";
    for (std::uint32_t i = 0; i < schedule_.peers(); ++i) text += " " + std::to_string(schedule_.makes(i));
    return text + (schedule_.announced ? ", as announced" : "") + ")";
  }

  [[nodiscard]] bool is_hop() const { return hop_.has_value(); }
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

  // ---- what is drawn

  template <class P>
  void take(P const& p, testing::peer_schedule_limits limits) {
    rules_.emplace(p);
    if constexpr (hop_protocol<P>) hop_.emplace(p);
    outlives_loss_ = limits.leaves;
    limits.crashes = false;
    limits.peers_max = 5;
    limits.iterations_min = 2;
    limits.iterations_max = 12;
    if (schedule_.iterations == 0) schedule_ = testing::random_peers(random_.below(1'000'000), limits);
    is_exact_ = !hop_ || (hop_->bounds_gap && hop_->by_iteration());
  }

  void draw_protocol(std::uint64_t seed) {
    iteration_order const order = random_.chance(0.5) ? iteration_order::parallel : iteration_order::serial;
    token_queues const tokens{1 + static_cast<std::int64_t>(random_.below(6))};
    auto const back = static_cast<std::uint32_t>(1 + random_.below(2));
    gather_all_but const backups{back};
    bounded_jump const jump{.trigger = 2, .iterations_max = 2 + static_cast<std::int64_t>(random_.below(5))};
    staleness const s = static_cast<std::int64_t>(random_.below(4));
    testing::peer_schedule_limits const all{.leaves = false};
    step_ = {.rate = 0.1, .momentum = random_.chance(0.5) ? 0.9 : 0.0, .decay = random_.chance(0.5) ? 0.01 : 0.0};
    schedule_.iterations = 0;
    switch (random_.below(11)) {
      case 0: take(hop(order), all); break;
      case 1: take(hop(notify_ack{}, order), all); break;
      case 2: take(hop(tokens, order), all); break;
      case 3: take(hop(backups, tokens, order), {.in_min = back}); break;
      case 4:
      case 5: take(hop(backups, tokens, jump, order), {.in_min = back}); break;
      case 6: take(hop(gather_newest{s}, order), {}); break;
      case 7: take(hop(gather_newest{s}, tokens, jump, order), {}); break;
      case 8: take(hop(gather_hybrid{s, back}, tokens, jump, order), {.in_min = back}); break;
      case 9:
        step_ = {.rate = 0.1};
        schedule_ = testing::peer_schedule{
            .mixing = mixing_matrix::automatic(
                std::array{ring(2), ring(4), star(3), star(5), parse_graph("grid", 4)}[random_.below(5)]),
            .iterations = 2 + static_cast<std::int64_t>(random_.below(9))};
        if (random_.chance(0.3)) schedule_.leaves = {static_cast<std::int64_t>(random_.below(3))};
        take(ad_psgd{seed}, {});
        is_exact_ = false;
        break;
      default: take(all_reduce{}, all); break;
    }
    schedule_.seed = seed;
  }

  [[nodiscard]] peer_states<double> first_states() const {
    return peer_states<double>(schedule_.peers(), std::vector<double>{1, -2, 0.5, 4, 0.1});
  }

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
    if (number == 0) finals_.push_back(own);
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
      double sum = 0;
      for (auto const& x : finals_) sum += x[i];
      double const wanted = steps_[i] + schedule_.peers() * before_run_[0][i];
      if (std::abs(sum - wanted) > 1e-9)
        breach("AD-PSGD: all parameters number ", i, " together are ", sum, ", expected ", wanted);
    }
  }

  // ---- who is there

  /// Of the run that is watched, or will be.
  [[nodiscard]] member const* at(std::uint32_t rank) const {
    if (!watched_.empty()) return watched_[rank];
    auto const last = std::find_if(members_.rbegin(), members_.rend(), [&](member const& m) { return m.rank == rank; });
    return last == members_.rend() ? nullptr : &*last;
  }
  [[nodiscard]] bool is_in_danger(testing::process_number p) const {
    return std::ranges::find(in_danger_, p) != in_danger_.end();
  }
  template <class... Parts>
  void breach(Parts const&... parts) {
    if (violations_.size() < 20) violations_.push_back(testing::detail::text(parts...));
  }

  random_stream random_;
  testing::trial_options options_;
  std::optional<peer_rules> rules_;
  std::optional<hop_rules> hop_;
  sgd step_;
  testing::peer_schedule schedule_{.mixing = mixing_matrix::automatic(ring(1))};
  std::vector<double> slowness_;
  bool outlives_loss_ = false;
  bool is_exact_ = false;
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
  peer_states<double> finals_;  ///< of the first run
  std::array<double, size> steps_{};
  std::vector<std::string> violations_;
};

}  // namespace rubato::test
