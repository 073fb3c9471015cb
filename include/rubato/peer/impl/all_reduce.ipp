// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/peer/all_reduce.hpp"
#include "rubato/peer/local_parameters.hpp"
#include "rubato/peer/mixing.hpp"

namespace rubato {

namespace detail {

/// A peer under ring all-reduce.
///
/// n peers cut the gradient into n chunks. In n − 1 rounds each sends one chunk to the next peer and
/// adds its own to the one that it gets, after which each holds the sum of one chunk; in n − 1 more the means
/// go around. So each sends 2(n − 1)/n of the gradient, in 2(n − 1) messages that wait for each other. What
/// comes is sent on from where it is. Where the endpoint can add up by itself, that takes the ring's place.
class all_reduce_node final : public peer_node {
 public:
  explicit all_reduce_node(node_setup const& setup)
      : self_(setup.self.value()),
        count_(setup.mixing.topology().size()),
        local_(setup),
        current_(local_.initial(setup.initial)),
        means_(count_) {}

  // ---- under the transport's guard

  [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox&) override {
    if (at_once_ || from.value() != (self_ + count_ - 1) % count_ || m.kind > bye) return false;
    if (m.kind == bye) {
      lost_ = lost_.value_or(from);
      return true;
    }
    std::size_t const bytes = m.parameters->values.size_bytes();
    // A chunk goes through all peers before its sender can be a whole round ahead.
    if (arrived_.size() >= 2 * std::size_t{count_} || bytes > (local_.size() / count_ + 1) * each())
      return false;
    arrived_.push_back(std::move(m.parameters));
    return true;
  }
  void lose(worker_id w) override { lost_ = lost_.value_or(w); }
  void leave(outbox& out) override {
    if (count_ > 1 && !at_once_) out.push_back({next(), {.kind = bye, .number = 0, .parameters = {}}});
  }
  [[nodiscard]] bool can_go_on() const noexcept override { return !arrived_.empty() || lost_; }
  [[nodiscard]] shared_update share() const override { return current_; }

  // ---- by the peer itself

  void reset() override {
    local_.restart();
    arrived_.clear();
    std::ranges::fill(means_, shared_update());
    lost_.reset();
    iteration_ = 0;
    ended_ = false;
    counters_ = {};
    waits_ = {};
  }

  void begin(peer_endpoint& e, std::int64_t iterations) override {
    e.guard([&] { at_once_ = count_ > 1 && e.can_sum(); });
    iterations_ = iterations;
    ended_ = iterations == 0;
  }

  void step(peer_endpoint& e, std::span<std::byte const> gradient) override {
    shared_update next_parameters = at_once_ ? after_one_sum(e, gradient) : after_the_ring(e, gradient);
    e.guard([&] { current_ = std::move(next_parameters); });
    ++counters_.iterations;
    ended_ = iteration_ + 1 == iterations_;
    if (!ended_) ++iteration_;
  }

  [[nodiscard]] std::span<std::byte const> parameters() const noexcept override {
    return current_->values.bytes();
  }
  [[nodiscard]] std::int64_t iteration() const noexcept override { return iteration_; }
  [[nodiscard]] bool ended() const noexcept override { return ended_; }
  [[nodiscard]] peer_counters counters() const noexcept override { return counters_; }
  [[nodiscard]] peer_waits waits() const noexcept override { return waits_; }
  [[nodiscard]] std::uint64_t bytes(peer_message const& m) const noexcept override {
    return sizeof m.kind + m.parameters->values.size_bytes();
  }
  [[nodiscard]] bool sums() const noexcept override { return true; }
  [[nodiscard]] std::string agreement() const override { return "all_reduce"; }

 private:
  enum kind : std::uint8_t {
    part,  ///< a chunk on its way around the ring
    bye,   ///< no more follow
  };

  [[nodiscard]] std::size_t each() const noexcept { return size_of(local_.element()); }
  [[nodiscard]] worker_id next() const noexcept { return worker_id{(self_ + 1) % count_}; }

  /// Chunk number `c mod count`. The first ones are longer where it does not come out even.
  [[nodiscard]] std::span<std::byte const> chunk(std::span<std::byte const> gradient, std::uint32_t c) const noexcept {
    std::size_t const i = c % count_;
    std::size_t const size = local_.size() / count_;
    std::size_t const more = local_.size() % count_;
    return gradient.subspan((i * size + std::min(i, more)) * each(),
                                (size + (i < more ? 1 : 0)) * each());
  }

  [[nodiscard]] shared_update after_the_ring(peer_endpoint& e, std::span<std::byte const> gradient) {
    shared_update going = copy_of(chunk(gradient, self_));
    for (std::uint32_t r = 0; r + 1 < count_; ++r) {
      send(e, std::move(going));
      std::span<std::byte const> const own = chunk(gradient, self_ + count_ - r - 1);
      going = sum_of(own, receive(e, own.size()), r + 2 == count_);
    }
    mean(self_ + 1) = std::move(going);
    for (std::uint32_t r = 0; r + 1 < count_; ++r) {
      send(e, mean(self_ + 1 + count_ - r));
      mean(self_ + count_ - r) = receive(e, chunk(gradient, self_ + count_ - r).size());
    }
    shared_update stepped = local_.stepped(current_, current_, means_);
    std::ranges::fill(means_, shared_update());
    return stepped;
  }

  [[nodiscard]] shared_update after_one_sum(peer_endpoint& e, std::span<std::byte const> gradient) {
    std::span<std::byte const> total;
    {
      detail::waiting_time const until_it_is_there(e, waits_.for_updates);
      total = e.sum(gradient);
    }
    if (total.empty()) e.guard([&] { throw_lost(); });
    ++counters_.updates_sent;
    counters_.updates_reduced += count_ - 1;
    return local_.stepped_by_mean(current_, current_, total, count_);
  }

  [[noreturn]] void throw_lost() const {
    throw lost_error("all_reduce: peer " + (lost_ ? std::to_string(lost_->value()) : "of another process") +
                     " is lost, and peer " + std::to_string(self_) + " cannot end iteration " +
                     std::to_string(iteration_) + " without it");
  }

  /// Of all peers' chunks number `c mod count`, once it has come around.
  [[nodiscard]] shared_update& mean(std::uint32_t c) noexcept { return means_[c % count_]; }

  [[nodiscard]] shared_update copy_of(std::span<std::byte const> numbers) {
    update_buffer u = chunks_.take();
    u->values.clear();
    u->values.append(numbers);
    return u;
  }

  void send(peer_endpoint& e, shared_update numbers) {
    ++counters_.updates_sent;
    e.post(next(), {.kind = part, .number = 0, .parameters = std::move(numbers)});
  }

  [[nodiscard]] shared_update receive(peer_endpoint& e, std::size_t bytes) {
    wait_counting(e, waits_.for_updates);
    return e.guard([&] {
      if (arrived_.empty()) throw_lost();
      shared_update first = std::move(arrived_.front());
      arrived_.pop_front();
      if (std::size_t const got = first->values.size_bytes(); got != bytes)
        throw error(errc::refused, "all_reduce: peer " + std::to_string(self_) + " got a chunk of " +
                                       std::to_string(got / each()) + " numbers, expected " +
                                       std::to_string(bytes / each()));
      ++counters_.updates_reduced;
      return first;
    });
  }

  /// @param is_whole the sum is of all peers: then their mean
  [[nodiscard]] shared_update sum_of(std::span<std::byte const> own, shared_update const& others, bool is_whole) {
    update_buffer u = chunks_.take();
    u->values.resize_bytes(own.size());
    with_element(local_.element(), [&]<class T>() {
      auto const* const mine = reinterpret_cast<T const*>(own.data());
      auto const theirs = others->values.as<T>();
      auto const to = u->values.as<T>();
      if (!is_whole)
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = mine[i] + theirs[i];
      else
        for (std::size_t i = 0; i < to.size(); ++i) to[i] = (mine[i] + theirs[i]) / static_cast<T>(count_);
    });
    return u;
  }

  std::uint32_t self_;
  std::uint32_t count_;
  local_parameters local_;
  update_pool chunks_;
  shared_update current_;
  std::vector<shared_update> means_;  ///< by chunk; empty between steps
  std::deque<shared_update> arrived_;
  std::optional<worker_id> lost_;
  bool at_once_ = false;  ///< the endpoint adds up
  std::int64_t iteration_ = 0;
  std::int64_t iterations_ = 0;
  bool ended_ = false;
  peer_counters counters_;
  peer_waits waits_;
};

}  // namespace detail

std::unique_ptr<peer_node> all_reduce::make_node(node_setup const& setup) const {
  return std::make_unique<detail::all_reduce_node>(setup);
}

}  // namespace rubato
