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
        taken_(rounds()) {}

  // ---- under the transport's guard

  [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox&) override {
    if (from.value() != (self_ + count_ - 1) % count_ || m.kind > bye) return false;
    if (m.kind == bye) {  // also where there is no ring, of one that has not begun
      lost_ = lost_.value_or(from);
      return true;
    }
    if (at_once_) return false;
    std::size_t const longest = (local_.size() / count_ + 1) * each();
    if (m.number < 0 || m.number >= static_cast<std::int64_t>(rounds())) return false;
    // A piece goes through all peers before its sender can be a whole iteration ahead.
    if (arrived_.size() >= 2 * std::size_t{count_} * pieces_of(longest) ||
        m.parameters->values.size_bytes() > std::min(longest, piece_bytes()))
      return false;
    arrived_.push_back({static_cast<std::size_t>(m.number), std::move(m.parameters)});
    return true;
  }
  void lose(worker_id w) override { lost_ = lost_.value_or(w); }
  void leave(outbox& out) override {
    if (count_ > 1 && !at_once_) out.push_back({next(), {.kind = bye, .number = 0, .parameters = {}}});
  }
  [[nodiscard]] bool can_go_on() const noexcept override { return !arrived_.empty() || lost_; }
  /// The one before it in the ring; who is missing in a sum of all nobody knows.
  [[nodiscard]] std::vector<worker_id> awaits() const override {
    return can_go_on() || at_once_ ? std::vector<worker_id>{} : std::vector{worker_id{(self_ + count_ - 1) % count_}};
  }
  [[nodiscard]] shared_update share() const override { return current_; }

  // ---- by the peer itself

  void reset() override {
    local_.restart();
    arrived_.clear();
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
  void use(std::shared_ptr<block_memory> const& memory) override { chunks_.use(memory); }
  [[nodiscard]] bool sums() const noexcept override { return true; }
  [[nodiscard]] std::string agreement() const override { return "all_reduce"; }

 private:
  enum kind : std::uint8_t {
    part,  ///< a piece of a chunk on its way around the ring; its number is the round
    bye,   ///< no more follow
  };
  struct arrival {
    std::size_t round = 0;
    shared_update numbers{};
  };

  /// Shorter pieces are warmer when they are sent, but each wakes somebody, which may cost more.
  static constexpr std::size_t piece_bytes_max = 512 * 1024;
  /// Own pieces that are sent before the first of others has come: on a fast line that is long, too, so many are on
  /// their way at a time. More would only wait here, as copies.
  static constexpr std::size_t pieces_ahead = 16;
  /// Where the next peer is near, what is sent early only waits there, and grows cold. At least 1: an own chunk may
  /// have a piece more than what comes.
  static constexpr std::size_t pieces_ahead_of_near = 1;

  [[nodiscard]] std::size_t each() const noexcept { return size_of(local_.element()); }
  [[nodiscard]] worker_id next() const noexcept { return worker_id{(self_ + 1) % count_}; }
  /// In the first half chunks are added up, in the second the means go around.
  [[nodiscard]] std::size_t rounds() const noexcept { return 2 * (std::size_t{count_} - 1); }
  [[nodiscard]] std::size_t half() const noexcept { return count_ - 1; }

  // ---- chunks and their pieces

  /// Chunk number `c mod count`. The first ones are longer where it does not come out even.
  [[nodiscard]] std::span<std::byte const> chunk(std::span<std::byte const> gradient, std::size_t c) const noexcept {
    std::size_t const i = c % count_;
    std::size_t const size = local_.size() / count_;
    std::size_t const more = local_.size() % count_;
    return gradient.subspan((i * size + std::min(i, more)) * each(),
                                (size + (i < more ? 1 : 0)) * each());
  }
  /// The one that comes in this round.
  [[nodiscard]] std::span<std::byte const> chunk_of_round(std::span<std::byte const> gradient,
                                                          std::size_t round) const noexcept {
    std::size_t const back = round < half() ? round + 1 : round - half();
    return chunk(gradient, self_ + std::size_t{count_} - back);
  }
  [[nodiscard]] std::size_t piece_bytes() const noexcept { return piece_bytes_max / each() * each(); }
  /// At least one: an empty chunk is a message, too.
  [[nodiscard]] std::size_t pieces_of(std::size_t bytes) const noexcept {
    return std::max<std::size_t>(1, (bytes + piece_bytes() - 1) / piece_bytes());
  }
  [[nodiscard]] std::span<std::byte const> piece(std::span<std::byte const> of, std::size_t i) const noexcept {
    std::size_t const at = i * piece_bytes();
    return of.subspan(at, std::min(piece_bytes(), of.size() - at));
  }

  // ---- the ring

  [[nodiscard]] shared_update after_the_ring(peer_endpoint& e, std::span<std::byte const> gradient) {
    if (count_ == 1) return local_.stepped(current_, current_, gradient);
    std::span<std::byte const> const own = chunk(gradient, self_);
    std::size_t const own_pieces = pieces_of(own.size());
    detail::exchanging const until_it_is_there(e);
    std::size_t const ahead = e.is_near(next()) ? pieces_ahead_of_near : pieces_ahead;
    std::size_t sent = 0;
    auto const send_own_below = [&](std::size_t end) {
      for (; sent < std::min(end, own_pieces); ++sent) send(e, 0, sent, copy_of(piece(own, sent)));
    };
    std::size_t missing = 0;
    for (std::size_t r = 0; r < rounds(); ++r) missing += pieces_of(chunk_of_round(gradient, r).size());
    std::ranges::fill(taken_, 0);
    update_buffer stepped = local_.fresh();
    send_own_below(ahead);
    for (; missing != 0; --missing) {
      arrival a = receive(e);
      take_piece(e, gradient, a, *stepped);
      if (a.round == 0) send_own_below(taken_[0] + ahead);
    }
    return stepped;
  }

  /// Pieces of a round come in their order.
  void take_piece(peer_endpoint& e, std::span<std::byte const> gradient, arrival& a, update& stepped) {
    std::span<std::byte const> const all = chunk_of_round(gradient, a.round);
    std::size_t const i = taken_[a.round]++;
    if (i >= pieces_of(all.size())) throw_unexpected(a, "no more of round " + std::to_string(a.round));
    std::span<std::byte const> const mine = piece(all, i);
    if (a.numbers->values.size_bytes() != mine.size()) throw_unexpected(a, std::to_string(mine.size() / each()));
    if (i == 0) ++counters_.updates_reduced;
    bool const adds = a.round < half();
    bool const is_mean = a.round + 1 >= half();
    shared_update here = adds ? sum_of(mine, std::move(a.numbers), is_mean) : std::move(a.numbers);
    if (!is_mean) return send(e, a.round + 1, i, std::move(here));
    if (a.round + 1 < rounds()) send(e, a.round + 1, i, here);
    auto const first = static_cast<std::size_t>(mine.data() - gradient.data()) / each();
    local_.step_into(stepped, current_, current_, first, here->values.bytes());
  }

  [[noreturn]] void throw_unexpected(arrival const& a, std::string const& expected) const {
    throw error(errc::refused, "all_reduce: peer " + std::to_string(self_) + " got a chunk of " +
                                   std::to_string(a.numbers->values.size_bytes() / each()) + " numbers, expected " +
                                   expected);
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

  [[nodiscard]] update_buffer copy_of(std::span<std::byte const> numbers) {
    update_buffer u = chunks_.take();
    u->values.clear();
    u->values.append(numbers);
    return u;
  }

  void send(peer_endpoint& e, std::size_t round, std::size_t piece, shared_update numbers) {
    if (piece == 0) ++counters_.updates_sent;
    e.post(next(), {.kind = part, .number = static_cast<std::int64_t>(round), .parameters = std::move(numbers)});
  }

  [[nodiscard]] arrival receive(peer_endpoint& e) {
    wait_counting(e, waits_.for_updates);
    return e.guard([&] {
      if (arrived_.empty()) throw_lost();
      arrival first = std::move(arrived_.front());
      arrived_.pop_front();
      return first;
    });
  }

  /// Where nobody else has what came, and it may be written, the sum takes its place, which is warm.
  /// @param is_whole the sum is of all peers: then their mean
  [[nodiscard]] shared_update sum_of(std::span<std::byte const> own, shared_update others, bool is_whole) {
    std::byte const* const came = others->values.data();
    update_buffer u = others.take_if_alone();
    if (!u) u = chunks_.take();
    u->values.resize_bytes(own.size());
    with_element(local_.element(), [&]<class T>() {
      auto const* const mine = reinterpret_cast<T const*>(own.data());
      auto const* const theirs = reinterpret_cast<T const*>(came);
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
  std::vector<std::size_t> taken_;  ///< of each round, pieces in this step
  std::deque<arrival> arrived_;     ///< those at the end may be of the next step
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
