// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/peer/ad_psgd.hpp"
#include "rubato/peer/local_parameters.hpp"
#include "rubato/peer/mixing.hpp"

namespace rubato {

namespace detail {

/// A peer under AD-PSGD.
///
/// An active peer sends its parameters as it enters an iteration, and needs the answer only when its
/// gradient is there. Nobody else touches its parameters meanwhile, so both ends of an exchange hold
/// the same average. A passive peer answers at once, in the middle of its own iteration, too, and when
/// its iterations are over.
class ad_psgd_node final : public peer_node {
 public:
  ad_psgd_node(std::uint64_t seed, node_setup const& setup)
      : seed_(seed), local_(setup), random_(seed, setup.self.value()), current_(local_.initial(setup.initial)) {
    graph const& g = setup.mixing.topology();
    auto const sides = g.two_coloring();
    if (!sides)
      throw option_error("ad_psgd: the graph " + g.name() +
                         " is not bipartite: peers that average with each other could deadlock");
    if (!g.undirected())
      throw option_error("ad_psgd: the graph " + g.name() +
                         " is directed, but an average is made at both ends of an edge");
    active_ = !(*sides)[setup.self.index()];
    all_.assign(g.out(setup.self).begin(), g.out(setup.self).end());
    reset();
  }

  // ---- under the transport's guard

  [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox& out) override {
    bool const neighbor = std::ranges::binary_search(all_, from);
    if (!neighbor || !local_.fits(m.parameters) || m.kind > answer) return false;
    if (m.kind == answer) {
      if (!std::ranges::binary_search(neighbors_, from)) return true;  // given up already
      if (partner_ != from || answer_) return false;
      answer_ = std::move(m.parameters);
      if (left_) finish_half_exchange();
      return true;
    }
    if (active_) return false;
    out.push_back({from, {.kind = answer, .number = 0, .parameters = current_}});
    current_ = average(std::move(m.parameters));
    ++counters_.updates_sent;
    ++counters_.updates_reduced;
    return true;
  }
  void lose(worker_id w) override {
    std::erase(neighbors_, w);
    if (partner_ == w && !answer_) {
      RUBATO_RARE("peers: one was lost that had been asked for an average");
      partner_.reset();
    }
  }
  /// What has been asked is averaged at both ends, though no step follows.
  void leave(outbox&) override {
    left_ = true;
    finish_half_exchange();
  }
  [[nodiscard]] bool can_go_on() const noexcept override { return !partner_ || answer_; }
  [[nodiscard]] std::vector<worker_id> awaits() const override {
    return can_go_on() ? std::vector<worker_id>{} : std::vector{*partner_};
  }
  [[nodiscard]] shared_update share() const override { return current_; }

  // ---- by the peer itself

  void reset() override {
    neighbors_ = all_;
    local_.restart();
    left_ = false;
    seen_ = current_;
    partner_.reset();
    answer_.reset();
    iteration_ = 0;
    ended_ = false;
    counters_ = {};
    waits_ = {};
  }

  void begin(peer_endpoint& e, std::int64_t iterations) override {
    iterations_ = iterations;
    ended_ = iterations == 0;
    if (!ended_) enter(e);
  }

  void step(peer_endpoint& e, std::span<std::byte const> gradient) override {
    if (active_) finish_exchange(e, gradient);
    // To what the parameters have become since the gradient was begun.
    else e.guard([&] { current_ = local_.stepped(current_, seen_, gradient); });
    ++counters_.iterations;
    ended_ = iteration_ + 1 == iterations_;
    if (!ended_) ++iteration_;
    if (!ended_) enter(e);
  }

  [[nodiscard]] std::span<std::byte const> parameters() const noexcept override {
    return seen_->values.bytes();
  }
  [[nodiscard]] std::int64_t iteration() const noexcept override { return iteration_; }
  [[nodiscard]] bool ended() const noexcept override { return ended_; }
  [[nodiscard]] peer_counters counters() const noexcept override { return counters_; }
  [[nodiscard]] peer_waits waits() const noexcept override { return waits_; }
  [[nodiscard]] std::uint64_t bytes(peer_message const& m) const noexcept override {
    return sizeof m.kind + m.parameters->values.size_bytes();
  }
  void use(std::shared_ptr<block_memory> const& memory) override { local_.use(memory); }
  [[nodiscard]] std::string agreement() const override { return "ad_psgd, seed " + std::to_string(seed_); }

 private:
  enum kind : std::uint8_t {
    ask,     ///< average your parameters with these
    answer,  ///< mine before I did
  };

  [[nodiscard]] shared_update average(shared_update other, shared_update const& own,
                                      std::span<std::byte const> gradient = {}) {
    std::array<contribution, 2> half_and_half{
        {{.from = {}, .weight = 0.5, .own = true, .parameters = {}},
         {.from = {}, .weight = 0.5, .own = false, .parameters = std::move(other)}}};
    return local_.average(half_and_half, own, gradient);
  }
  [[nodiscard]] shared_update average(shared_update other) { return average(std::move(other), current_); }

  void enter(peer_endpoint& e) {
    e.guard([&] { seen_ = current_; });
    if (!active_) return;
    auto const to = e.guard([&]() -> std::optional<worker_id> {
      if (neighbors_.empty()) return std::nullopt;
      partner_ = neighbors_[random_.below(neighbors_.size())];
      return partner_;
    });
    if (!to) return;
    ++counters_.updates_sent;
    e.post(*to, {.kind = ask, .number = 0, .parameters = seen_});
  }

  void finish_exchange(peer_endpoint& e, std::span<std::byte const> gradient) {
    wait_counting(e, waits_.for_updates);
    auto other = e.guard([&] {
      partner_.reset();
      return std::exchange(answer_, std::nullopt);
    });
    if (other) ++counters_.updates_reduced;
    shared_update next =
        other ? average(*std::move(other), seen_, gradient) : local_.stepped(seen_, seen_, gradient);
    e.guard([&] { current_ = std::move(next); });
  }

  void finish_half_exchange() {
    if (!partner_ || !answer_) return;
    RUBATO_RARE("peers: an average was made after the body");
    current_ = average(*std::exchange(answer_, std::nullopt));
    partner_.reset();
  }

  std::uint64_t seed_;
  bool active_ = false;
  std::vector<worker_id> all_;
  std::vector<worker_id> neighbors_;  ///< that live
  local_parameters local_;            ///< a passive peer's: under the guard
  random_stream random_;              ///< goes on from run to run
  shared_update current_;
  shared_update seen_;  ///< what the gradient is computed at
  std::optional<worker_id> partner_;
  std::optional<shared_update> answer_;
  std::int64_t iteration_ = 0;
  std::int64_t iterations_ = 0;
  bool ended_ = false;
  bool left_ = false;
  peer_counters counters_;
  peer_waits waits_;
};

}  // namespace detail

std::unique_ptr<peer_node> ad_psgd::make_node(node_setup const& setup) const {
  return std::make_unique<detail::ad_psgd_node>(seed, setup);
}

}  // namespace rubato
