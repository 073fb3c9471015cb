// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/core/ids.hpp>
#include <rubato/core/random.hpp>
#include <rubato/core/time.hpp>
#include <rubato/sim/distribution.hpp>

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rubato::sim {

/// How long `bytes` take at `bandwidth` bytes per second, rounded up to whole nanoseconds; a
/// bandwidth of 0 stands for infinite. Saturates.
[[nodiscard]] constexpr duration transfer_time(std::uint64_t bytes,
                                               std::uint64_t bandwidth) noexcept {
  if (bandwidth == 0) return duration::zero();
  auto const nanoseconds =
      (static_cast<detail::uint128>(bytes) * 1'000'000'000u + (bandwidth - 1)) / bandwidth;
  auto const limit = static_cast<detail::uint128>(duration::max().count());
  return nanoseconds > limit ? duration::max() : duration(static_cast<duration::rep>(nanoseconds));
}

/// One direction of a network card: messages pass one after the other, in the order of the calls.
class nic {
 public:
  /// @param bandwidth bytes per second; 0 is infinite
  constexpr explicit nic(std::uint64_t bandwidth = 0) noexcept : bandwidth_(bandwidth) {}

  /// Lets `bytes` pass as soon as all earlier ones have. Returns when the last byte is through.
  constexpr time_point pass(time_point now, std::uint64_t bytes) noexcept {
    time_point const start = now < busy_until_ ? busy_until_ : now;
    return busy_until_ = start + transfer_time(bytes, bandwidth_);
  }

  /// When all that has been handed over is through.
  [[nodiscard]] constexpr time_point busy_until() const noexcept { return busy_until_; }

 private:
  std::uint64_t bandwidth_;
  time_point busy_until_ = time_point::min();
};

/// The connection of a worker to everybody else.
struct link {
  duration latency = std::chrono::microseconds(100);  ///< of one message, one way; >= 0
  distribution jitter{};        ///< multiplies the latency, anew for each message
  std::uint64_t bandwidth = 0;  ///< bytes per second, each way; 0 is infinite
};

struct network_options {
  link worker_link{};
  std::uint64_t server_bandwidth = 0;  ///< bytes/s, each way, shared by all of a server's traffic
  std::uint64_t header_bytes = 64;     ///< added to every message

  /// @throws option_error; the sentence names the option, prefixed with `path`.
  void validate(std::string_view path = "network") const;
};

/// An end of a message: a worker or a server.
class node {
 public:
  constexpr node(worker_id worker) noexcept : code_(worker.value() * 2) {}
  constexpr node(server_id server) noexcept : code_(server.value() * 2 + 1) {}

  [[nodiscard]] constexpr bool is_server() const noexcept { return (code_ & 1) != 0; }
  [[nodiscard]] constexpr std::size_t index() const noexcept { return code_ >> 1; }
  [[nodiscard]] constexpr std::uint32_t code() const noexcept { return code_; }

  friend constexpr auto operator<=>(node, node) noexcept = default;

 private:
  std::uint32_t code_;  // twice the index, plus 1 for a server
};

/// Keeps the messages of each (sender, receiver) in order, as one connection does: none is
/// delivered before the one sent earlier. Memory O(pairs in use), constant time.
class fifo_guard {
 public:
  /// When a message is delivered that would arrive at `arrival`.
  [[nodiscard]] time_point deliver(node from, node to, time_point arrival);

 private:
  struct mix {
    std::size_t operator()(std::uint64_t pair) const noexcept { return detail::mix64(pair); }
  };
  std::unordered_map<std::uint64_t, time_point, mix> last_;
};

/// Where a message is at what time.
struct transit {
  time_point sent;       ///< its last byte has left the sender's card, which is free again
  time_point delivered;  ///< the receiver has it; never earlier than the pair's previous message
};

/// When messages arrive: cards of finite bandwidth at both ends, latency in between.
///
/// A message holds the sender's outgoing and the receiver's incoming card from the moment it is
/// sent, each for as long as that card's bandwidth asks, and is through when the slower of the two
/// is; then comes the latency, and a delayed server's delay. So transfers overlap as they do when
/// packets stream, a card never carries more than its bandwidth, and one call settles everything:
/// no events of its own. What this leaves out: a message queued at its sender holds its place at
/// the receiver already.
///
/// Times handed in must not decrease from call to call. No clock, no randomness of its own.
/// Not thread-safe. Amortised constant time; memory O(workers + servers), and with random latency
/// also O(pairs in use).
class network {
 public:
  /// @pre `options.validate()` is content. Nodes come into being when they are first used.
  /// @param server_delay see `scenario::server_delay`
  explicit network(network_options const& options, std::vector<duration> server_delay = {})
      : options_(options), server_delay_(std::move(server_delay)) {}

  /// Sends `bytes` (without the header) at `now`. `random` is drawn from for the latency.
  transit send(node from, node to, std::uint64_t bytes, time_point now, random_stream& random);

  [[nodiscard]] network_options const& options() const noexcept { return options_; }

 private:
  struct card {
    nic out, in;
  };
  [[nodiscard]] card& card_of(node n);
  [[nodiscard]] duration delay_of(node n) const noexcept;

  network_options options_;
  std::vector<duration> server_delay_;
  std::vector<card> workers_, servers_;
  fifo_guard order_;
};

}  // namespace rubato::sim
