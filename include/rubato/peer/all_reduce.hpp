// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/endpoint.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/parameter_pool.hpp"

namespace rubato {

/// A chunk on its way around the ring, or the word that no more follow.
template <class T>
struct chunk_message {
  bool bye = false;
  std::vector<T> numbers{};
};

/// A peer under ring all-reduce. Made by `peer_group`.
///
/// n peers cut the gradient into n chunks. In n − 1 rounds each sends one chunk to the next peer and
/// adds the one that it gets, after which each holds the sum of one chunk; in n − 1 more the sums go
/// around. So each sends 2(n − 1)/n of the gradient, in 2(n − 1) messages that wait for each other.
template <std::floating_point T, local_step Step>
class all_reduce_node {
 public:
  using value_type = T;
  using message = chunk_message<T>;

  template <class Protocol>
  all_reduce_node(Protocol const&, mixing_matrix const& mixing, worker_id self, Step const& step,
                  std::span<T const> initial)
      : self_(self.value()),
        count_(mixing.topology().size()),
        pool_(initial.size()),
        local_(step),
        step_(local_.template start<T>(initial.size())),
        sum_(initial.size()) {
    auto first = pool_.get();
    std::ranges::copy(initial, first->begin());
    current_ = std::move(first);
  }

  // ---- under the transport's guard

  [[nodiscard]] bool deliver(worker_id from, message m, outbox<message>&) {
    if (from.value() != (self_ + count_ - 1) % count_) return false;
    if (m.bye) {
      lost_ = lost_.value_or(from);
      return true;
    }
    // A chunk goes through all peers before its sender can be a whole round ahead.
    if (arrived_.size() >= 2 * std::size_t{count_} || m.numbers.size() > sum_.size() / count_ + 1)
      return false;
    arrived_.push_back(std::move(m.numbers));
    return true;
  }
  void lose(worker_id w) { lost_ = lost_.value_or(w); }
  void leave(outbox<message>& out) const {
    if (count_ > 1) out.push_back({next(), {.bye = true, .numbers = {}}});
  }
  [[nodiscard]] bool can_go_on() const noexcept { return !arrived_.empty() || lost_; }
  [[nodiscard]] shared_parameters<T> share() const { return current_; }

  // ---- by the peer itself

  void reset() {
    step_ = local_.template start<T>(pool_.size());
    arrived_.clear();
    lost_.reset();
    iteration_ = 0;
    ended_ = false;
    counters_ = {};
    waits_ = {};
  }

  template <peer_endpoint<message> E>
  void begin(E&, std::int64_t iterations) {
    iterations_ = iterations;
    ended_ = iterations == 0;
  }

  template <peer_endpoint<message> E>
  void step(E& e, std::span<T const> gradient) {
    std::ranges::copy(gradient, sum_.begin());
    for (std::uint32_t r = 0; r + 1 < count_; ++r) {
      send(e, chunk(self_ + count_ - r));
      auto mine = detail::as_array(chunk(self_ + count_ - r - 1));
      auto const arrived = receive(e, static_cast<std::size_t>(mine.size()));
      mine += detail::as_array(std::span<T const>(arrived));
    }
    for (std::uint32_t r = 0; r + 1 < count_; ++r) {
      send(e, chunk(self_ + 1 + count_ - r));
      std::span<T> const mine = chunk(self_ + count_ - r);
      std::ranges::copy(receive(e, mine.size()), mine.begin());
    }
    detail::as_array(std::span<T>(sum_)) /= static_cast<T>(count_);
    auto next = pool_.get();
    std::ranges::copy(*current_, next->begin());
    step_.apply(0, *current_, sum_, *next);
    e.guard([&] { current_ = std::move(next); });
    ++counters_.iterations;
    ended_ = iteration_ + 1 == iterations_;
    if (!ended_) ++iteration_;
  }

  [[nodiscard]] std::span<T const> parameters() const noexcept { return *current_; }
  [[nodiscard]] std::int64_t iteration() const noexcept { return iteration_; }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] peer_counters counters() const noexcept { return counters_; }
  [[nodiscard]] peer_waits waits() const noexcept { return waits_; }

  [[nodiscard]] static std::uint64_t bytes(message const& m) noexcept {
    return sizeof m.bye + m.numbers.size() * sizeof(T);
  }

 private:
  [[nodiscard]] worker_id next() const noexcept { return worker_id{(self_ + 1) % count_}; }

  /// Chunk number `c mod count`. The first ones are longer where it does not come out even.
  [[nodiscard]] std::span<T> chunk(std::uint32_t c) noexcept {
    std::size_t const i = c % count_;
    std::size_t const each = sum_.size() / count_;
    std::size_t const more = sum_.size() % count_;
    return std::span(sum_).subspan(i * each + std::min(i, more), each + (i < more ? 1 : 0));
  }

  template <class E>
  void send(E& e, std::span<T const> numbers) {
    ++counters_.updates_sent;
    e.post(next(), {.bye = false, .numbers = {numbers.begin(), numbers.end()}});
  }

  template <class E>
  std::vector<T> receive(E& e, std::size_t size) {
    detail::wait_counting(e, waits_.for_updates);
    return e.guard([&] {
      if (arrived_.empty())
        throw lost_error("all_reduce: peer " + std::to_string(lost_->value()) +
                         " is lost, and peer " + std::to_string(self_) + " cannot end iteration " +
                         std::to_string(iteration_) + " without it");
      std::vector<T> first = std::move(arrived_.front());
      arrived_.pop_front();
      if (first.size() != size)
        throw error(errc::refused, "all_reduce: peer " + std::to_string(self_) + " got a chunk of " +
                                       std::to_string(first.size()) + " numbers, expected " +
                                       std::to_string(size));
      ++counters_.updates_reduced;
      return first;
    });
  }

  std::uint32_t self_;
  std::uint32_t count_;
  parameter_pool<T> pool_;
  Step local_;
  detail::step_state<Step, T> step_;
  std::vector<T> sum_;
  shared_parameters<T> current_;
  std::deque<std::vector<T>> arrived_;
  std::optional<worker_id> lost_;
  std::int64_t iteration_ = 0;
  std::int64_t iterations_ = 0;
  bool ended_ = false;
  peer_counters counters_;
  peer_waits waits_;
};

/// All peers average their gradients in every iteration, on a ring of ranks whatever the graph, and
/// stay alike to the last bit; but for a run that was stopped, after which some may be an iteration
/// ahead, and stay so. One slow peer or link holds up all. A baseline for Hop. Source: 002 §2.1.
struct all_reduce {
  template <class T, class Step>
  using node = all_reduce_node<T, Step>;
};

}  // namespace rubato
