// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/peer/combine.hpp"
#include "rubato/peer/endpoint.hpp"
#include "rubato/peer/hop_core.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/parameter_pool.hpp"
#include "rubato/peer/peer_site.hpp"

namespace rubato {

/// A peer of the Hop family: the machine, its parameters, and the arithmetic on them.
///
/// Neighbors are sent the parameters themselves, not copies: they never change once they are sent,
/// and what comes out of a reduce goes into a block that nobody uses any more.
///
/// Cost of a step: one pass that reads the gradient and the parameters of each update, and writes the
/// new ones; in serial order one more over gradient and parameters.
template <std::floating_point T, hop_protocol Protocol, local_step Step>
class hop_node {
  using core_type = hop_core<shared_parameters<T>, Protocol>;
  using todo = typename core_type::todo;

 public:
  using value_type = T;
  using message = typename core_type::message;

  /// @throws option_error for what cannot be meant at this place in the graph; it names the node
  hop_node(Protocol p, mixing_matrix const& mixing, worker_id self, Step const& step,
           std::span<T const> initial)
      : protocol_(std::move(p)),
        local_(step),
        core_(protocol_, checked(protocol_, site_of(mixing, self, core_type::needs_lead))),
        pool_(initial.size()),
        step_(local_.template start<T>(initial.size())) {
    auto first = pool_.get();
    std::ranges::copy(initial, first->begin());
    current_ = std::move(first);
  }

  // ---- under the transport's guard

  [[nodiscard]] bool deliver(worker_id from, message m, outbox<message>&) {
    if (m.what == message::kind::update && (!m.parameters || m.parameters->size() != pool_.size()))
      return false;
    return core_.deliver(from, std::move(m));
  }
  void lose(worker_id w) { core_.lose(w); }
  void leave(outbox<message>& out) { core_.leave(out); }
  [[nodiscard]] bool can_go_on() const noexcept { return core_.can_go_on(); }
  [[nodiscard]] shared_parameters<T> share() const { return current_; }

  // ---- by the peer itself

  void reset() {
    core_ = core_type(protocol_, core_.site());
    step_ = local_.template start<T>(pool_.size());
    gradient_.reset();
    waits_ = {};
  }

  template <peer_endpoint<message> E>
  void begin(E& e, std::int64_t iterations) {
    outbox<message> out;
    e.guard([&] { core_.start(iterations, out); });
    flush(e, out);
    run(e);
  }

  template <peer_endpoint<message> E>
  void step(E& e, std::span<T const> gradient) {
    if (protocol_.order() == iteration_order::serial) apply(e, gradient);
    else gradient_ = gradient;
    e.guard([&] { core_.computed(); });
    run(e);
  }

  [[nodiscard]] std::span<T const> parameters() const noexcept { return *current_; }
  [[nodiscard]] std::int64_t iteration() const noexcept { return core_.iteration().value(); }
  [[nodiscard]] bool ended() const noexcept { return core_.ended(); }
  [[nodiscard]] peer_counters counters() const noexcept { return core_.counters(); }
  [[nodiscard]] peer_waits waits() const noexcept { return waits_; }
  [[nodiscard]] core_type const& core() const noexcept { return core_; }

  [[nodiscard]] static std::uint64_t bytes(message const& m) noexcept {
    return sizeof m.what + sizeof m.number + (m.parameters ? m.parameters->size() * sizeof(T) : 0);
  }

 private:
  static peer_site checked(Protocol const& p, peer_site site) {
    std::string const node = "node " + std::to_string(site.self.value());
    std::size_t const n = site.in.size() + 1;
    std::size_t const needed = p.gather().needed(n);
    if (needed < 1 || needed > n)
      throw option_error("hop: " + node + " has " + std::to_string(n) +
                         " updates to wait for, its own included; the gather asks for " +
                         std::to_string(needed) + ", expected 1 to " + std::to_string(n) +
                         " (fewer backup workers)");
    if (p.gather().oldest(iteration_index{0}).value() <= -core_type::number_max)
      throw option_error("hop: the staleness must be finite");
    if constexpr (decltype(p.gap())::tokens) {
      constexpr std::int64_t gap_limit = 1 << 16;
      if (p.gap().gap_max() < 1 || p.gap().gap_max() > gap_limit)
        throw option_error("hop: token_queues must allow 1 to " + std::to_string(gap_limit) +
                           " iterations, but is given " + std::to_string(p.gap().gap_max()));
    }
    if constexpr (decltype(p.jump())::jumps)
      if (p.gather().kept == keeping::by_iteration && needed == n && n > 1)
        throw option_error("hop: a jump needs backup workers or bounded staleness, but " + node +
                           " waits for this iteration's update of everybody");
    if constexpr (requires { p.jump().check(); }) p.jump().check();
    check_own_weight(p, site);
    return site;
  }

  /// It may be all that there is to reduce.
  static void check_own_weight(Protocol const& p, peer_site const& site) {
    if (p.gather().bounds_gap && p.gather().kept == keeping::by_iteration) return;
    iteration_index const k{};
    double const own = p.reduce().weight({.from = site.self,
                                          .to = site.self,
                                          .made = k,
                                          .now = k,
                                          .oldest = p.gather().oldest(k),
                                          .mixing = site.self_weight});
    if (!(own > 0) || !std::isfinite(own))
      throw option_error("hop: the own update of node " + std::to_string(site.self.value()) +
                         " counts " + detail::text_of(own) +
                         " in a reduce, expected a finite weight above 0");
  }

  /// Does what is to be done until the body has to compute, or all is over.
  template <class E>
  void run(E& e) {
    for (;;) {
      switch (next(e)) {
        case todo::send: send(e); break;
        case todo::reduce: reduce(e); break;
        case todo::stop: throw e.guard([&] { return lost(); });
        default: return;
      }
    }
  }

  /// What is next, having waited for it if need be.
  template <class E>
  todo next(E& e) {
    for (;;) {
      outbox<message> out;
      bool updates_missing = false;
      todo const what = e.guard([&] {
        todo const t = core_.poll(out);
        updates_missing = core_.gathering();
        return t;
      });
      flush(e, out);
      if (what != todo::wait) return what;
      detail::wait_counting(e, updates_missing ? waits_.for_updates : waits_.for_tokens);
    }
  }

  template <class E>
  void send(E& e) {
    outbox<message> out;
    e.guard([&] { core_.send(current_, out); });
    flush(e, out);
  }

  /// In parallel order the step goes on top, computed at what the average replaces.
  template <class E>
  void reduce(E& e) {
    auto const parts = e.guard([&] { return core_.gather(); });
    auto next = pool_.get();
    combine<T>(parts, *current_, *next, [&](std::size_t first, std::span<T> to) {
      if (gradient_)
        step_.apply(first, std::span(*current_).subspan(first, to.size()),
                    gradient_->subspan(first, to.size()), to);
    });
    gradient_.reset();
    outbox<message> out;
    e.guard([&] {
      current_ = std::move(next);
      core_.reduced(out);
    });
    flush(e, out);
  }

  template <class E>
  void apply(E& e, std::span<T const> gradient) {
    auto next = pool_.get();
    std::ranges::copy(*current_, next->begin());
    step_.apply(0, *current_, gradient, *next);
    e.guard([&] { current_ = std::move(next); });
  }

  template <class E>
  static void flush(E& e, outbox<message>& out) {
    for (auto& [to, m] : out) e.post(to, std::move(m));
    out.clear();
  }

  [[nodiscard]] lost_error lost() const {
    return lost_error("peer " + std::to_string(core_.lost()->value()) + " is lost, and peer " +
                      std::to_string(core_.site().self.value()) + " cannot end iteration " +
                      std::to_string(iteration()) +
                      " without it: its gather waits for every in-neighbor (gather_all_but goes on)");
  }

  Protocol protocol_;
  Step local_;
  core_type core_;
  parameter_pool<T> pool_;
  detail::step_state<Step, T> step_;
  shared_parameters<T> current_;
  std::optional<std::span<T const>> gradient_;  ///< not applied yet
  peer_waits waits_;
};

}  // namespace rubato
