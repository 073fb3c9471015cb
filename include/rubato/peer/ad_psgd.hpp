// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/combine.hpp"
#include "rubato/peer/endpoint.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/parameter_pool.hpp"

namespace rubato {

/// What peers under AD-PSGD send each other.
template <class Payload>
struct exchange_message {
  enum class kind : std::uint8_t {
    ask,     ///< average your parameters with these
    answer,  ///< mine before I did
  };
  kind what = kind::ask;
  Payload parameters{};
};

/// A peer under AD-PSGD. Made by `peer_group`.
///
/// An active peer sends its parameters as it enters an iteration, and needs the answer only when its
/// gradient is there. Nobody else touches its parameters meanwhile, so both ends of an exchange hold
/// the same average. A passive peer answers at once, in the middle of its own iteration, too, and when
/// its iterations are over.
template <std::floating_point T, local_step Step>
class ad_psgd_node {
 public:
  using value_type = T;
  using message = exchange_message<shared_parameters<T>>;

  /// @throws option_error where the graph is directed, or has edges within a side
  template <class Protocol>
  ad_psgd_node(Protocol const& p, mixing_matrix const& mixing, worker_id self, Step const& step,
               std::span<T const> initial)
      : self_(self),
        pool_(initial.size()),
        local_(step),
        step_(local_.template start<T>(initial.size())),
        random_(p.seed, self.value()) {
    graph const& g = mixing.topology();
    auto const sides = g.two_coloring();
    if (!sides)
      throw option_error("ad_psgd: the graph " + g.name() +
                         " is not bipartite: peers that average with each other could deadlock");
    if (!g.undirected())
      throw option_error("ad_psgd: the graph " + g.name() +
                         " is directed, but an average is made at both ends of an edge");
    active_ = !(*sides)[self.index()];
    all_.assign(g.out(self).begin(), g.out(self).end());
    auto first = pool_.get();
    std::ranges::copy(initial, first->begin());
    current_ = std::move(first);
    reset();
  }

  // ---- under the transport's guard

  [[nodiscard]] bool deliver(worker_id from, message m, outbox<message>& out) {
    bool const neighbor = std::ranges::binary_search(all_, from);
    if (!neighbor || !m.parameters || m.parameters->size() != pool_.size()) return false;
    if (m.what == message::kind::answer) {
      if (!std::ranges::binary_search(neighbors_, from)) return true;  // given up already
      if (partner_ != from || answer_) return false;
      answer_ = std::move(m.parameters);
      if (left_) finish_half_exchange();
      return true;
    }
    if (active_) return false;
    out.push_back({from, {message::kind::answer, current_}});
    current_ = average(m.parameters);
    ++counters_.updates_sent;
    ++counters_.updates_reduced;
    return true;
  }
  void lose(worker_id w) {
    std::erase(neighbors_, w);
    if (partner_ == w && !answer_) partner_.reset();
  }
  /// What has been asked is averaged at both ends, though no step follows.
  void leave(outbox<message>&) {
    left_ = true;
    finish_half_exchange();
  }
  [[nodiscard]] bool can_go_on() const noexcept { return !partner_ || answer_; }
  [[nodiscard]] shared_parameters<T> share() const { return current_; }

  // ---- by the peer itself

  void reset() {
    neighbors_ = all_;
    step_ = local_.template start<T>(pool_.size());
    left_ = false;
    seen_ = current_;
    partner_.reset();
    answer_.reset();
    iteration_ = 0;
    ended_ = false;
    counters_ = {};
    waits_ = {};
  }

  template <peer_endpoint<message> E>
  void begin(E& e, std::int64_t iterations) {
    iterations_ = iterations;
    ended_ = iterations == 0;
    if (!ended_) enter(e);
  }

  template <peer_endpoint<message> E>
  void step(E& e, std::span<T const> gradient) {
    if (active_) finish_exchange(e, gradient);
    else e.guard([&] { add(gradient); });
    ++counters_.iterations;
    ended_ = iteration_ + 1 == iterations_;
    if (!ended_) ++iteration_;
    if (!ended_) enter(e);
  }

  [[nodiscard]] std::span<T const> parameters() const noexcept { return *seen_; }
  [[nodiscard]] std::int64_t iteration() const noexcept { return iteration_; }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] peer_counters counters() const noexcept { return counters_; }
  [[nodiscard]] peer_waits waits() const noexcept { return waits_; }

  [[nodiscard]] static std::uint64_t bytes(message const& m) noexcept {
    return sizeof m.what + (m.parameters ? m.parameters->size() * sizeof(T) : 0);
  }

 private:
  using parts_type = std::array<contribution<shared_parameters<T>>, 2>;

  static parts_type half_and_half(shared_parameters<T> other) {
    return {{{.from = {}, .weight = 0.5, .own = true, .parameters = {}},
             {.from = {}, .weight = 0.5, .own = false, .parameters = std::move(other)}}};
  }
  [[nodiscard]] shared_parameters<T> average(shared_parameters<T> const& other) {
    auto next = pool_.get();
    combine<T>(half_and_half(other), *current_, *next, [](std::size_t, std::span<T>) {});
    return next;
  }

  template <class E>
  void enter(E& e) {
    e.guard([&] { seen_ = current_; });
    if (!active_) return;
    auto const to = e.guard([&]() -> std::optional<worker_id> {
      if (neighbors_.empty()) return std::nullopt;
      partner_ = neighbors_[random_.below(neighbors_.size())];
      return partner_;
    });
    if (!to) return;
    ++counters_.updates_sent;
    e.post(*to, {message::kind::ask, seen_});
  }

  template <class E>
  void finish_exchange(E& e, std::span<T const> gradient) {
    detail::wait_counting(e, waits_.for_updates);
    auto const other = e.guard([&] {
      partner_.reset();
      return std::exchange(answer_, nullptr);
    });
    auto next = pool_.get();
    if (other) {
      ++counters_.updates_reduced;
      combine<T>(half_and_half(other), *seen_, *next, [&](std::size_t first, std::span<T> to) {
        step_.apply(first, std::span(*seen_).subspan(first, to.size()),
                    gradient.subspan(first, to.size()), to);
      });
    } else {
      std::ranges::copy(*seen_, next->begin());
      step_.apply(0, *seen_, gradient, *next);
    }
    e.guard([&] { current_ = std::move(next); });
  }

  void finish_half_exchange() {
    if (!partner_ || !answer_) return;
    current_ = average(std::exchange(answer_, nullptr));
    partner_.reset();
  }

  /// To what the parameters have become since the gradient was begun.
  void add(std::span<T const> gradient) {
    auto next = pool_.get();
    std::ranges::copy(*current_, next->begin());
    step_.apply(0, *seen_, gradient, *next);
    current_ = std::move(next);
  }

  worker_id self_;
  bool active_ = false;
  std::vector<worker_id> all_;
  std::vector<worker_id> neighbors_;  ///< that live
  parameter_pool<T> pool_;            ///< a passive peer's: under the guard
  Step local_;
  detail::step_state<Step, T> step_;
  random_stream random_;  ///< goes on from run to run
  shared_parameters<T> current_;
  shared_parameters<T> seen_;  ///< what the gradient is computed at
  std::optional<worker_id> partner_;
  shared_parameters<T> answer_;
  std::int64_t iteration_ = 0;
  std::int64_t iterations_ = 0;
  bool ended_ = false;
  bool left_ = false;
  peer_counters counters_;
  peer_waits waits_;
};

/// Asynchronous decentralized parallel SGD: in each iteration a peer of one side averages with a random
/// neighbor on the other side, whatever iteration that is in. Nobody waits for anything but an answer.
/// Only a crash in the middle of an exchange leaves it half done. A baseline for Hop; on bipartite
/// graphs only. Source: Lian et al., ICML 2018, as in 002 §5.
struct ad_psgd {
  std::uint64_t seed = 1;  ///< of the choice of neighbors

  template <class T, class Step>
  using node = ad_psgd_node<T, Step>;
};

}  // namespace rubato
