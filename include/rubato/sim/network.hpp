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

/// What messages pass on their way.
struct link_options {
  duration latency = std::chrono::microseconds(100);  ///< of one message, one way; >= 0
  distribution jitter{};        ///< multiplies the latency, anew for each message
  std::uint64_t bandwidth = 0;  ///< bytes per second, each way; 0 is infinite
};

struct network_options {
  /// Of a worker's machine to all others. Workers of one machine share its bandwidth, see
  /// `scenario::machine_of`.
  link_options worker_link{};
  /// Between workers of one machine: shared memory or a loopback device. The bandwidth is that at
  /// which each worker sends to the others of its machine.
  link_options local_link{.latency = std::chrono::microseconds(5)};
  /// Bytes/s, each way, shared by all of a server's traffic; of a server that has no machine of `server_machine_of`.
  std::uint64_t server_bandwidth = 0;
  std::uint64_t header_bytes = 64;     ///< added to every message

  /// @throws option_error; the sentence names the option, prefixed with `path`.
  void validate(std::string_view path = "network") const;
};

/// An end of a message: a worker or a server.
class station {
 public:
  constexpr station(worker_id worker) noexcept : code_(worker.value() * 2) {}
  constexpr station(server_id server) noexcept : code_(server.value() * 2 + 1) {}

  [[nodiscard]] constexpr bool is_server() const noexcept { return (code_ & 1) != 0; }
  [[nodiscard]] constexpr std::size_t index() const noexcept { return code_ >> 1; }
  [[nodiscard]] constexpr std::uint32_t code() const noexcept { return code_; }

  friend constexpr auto operator<=>(station, station) noexcept = default;

 private:
  std::uint32_t code_;  // twice the index, plus 1 for a server
};

/// Keeps the messages of each (sender, receiver) in order, as one connection does: none is
/// delivered before the one sent earlier. Memory O(pairs in use), constant time.
class fifo_guard {
 public:
  /// When a message is delivered that would arrive at `arrival`.
  [[nodiscard]] time_point deliver(station from, station to, time_point arrival);

 private:
  struct mix {
    std::size_t operator()(std::uint64_t pair) const noexcept { return detail::mix64(pair); }
  };
  std::unordered_map<std::uint64_t, time_point, mix> last_;
};

/// Where a message is at what time.
struct transit {
  time_point sent;       ///< its last byte has left the sender, whose card is free again
  time_point delivered;  ///< the receiver has it; never earlier than the pair's previous message
};

/// Places workers on machines for `scenario::machine_of`: one block of consecutive workers after
/// the other, as even as possible, the larger ones first. `blocks(10, 4)` makes blocks of 3, 3, 2
/// and 2.
/// @throws option_error when there are workers, but no machines
[[nodiscard]] std::vector<std::uint32_t> blocks(std::size_t workers, std::size_t machines);

/// When messages arrive: cards of finite bandwidth at both ends, latency in between.
///
/// Each server has a card, unless it is on a machine that is listed; so has each such machine, and each with workers,
/// which servers may live on, too. A message holds the sender's outgoing and the receiver's incoming card from the
/// moment it is sent, each for as long as that card's bandwidth asks, and is through when the slower of the two is;
/// then comes the latency, and a delayed server's delay. So transfers overlap as they do when packets stream, a card
/// never carries more than its bandwidth, and one call settles everything: no events of its own. What this leaves out:
/// a message queued at its sender holds its place at the receiver already.
///
/// Between those who live on one machine, and from a worker to itself, a message passes no card. Those of
/// one sender follow each other at the bandwidth of the local link, whoever gets them; then comes
/// that link's latency. This leaves out that the receiver has to copy as well, and that all workers
/// of a machine share its memory.
///
/// Times handed in must not decrease from call to call. No clock, no randomness of its own.
/// Not thread-safe. Amortised constant time; memory O(workers + servers), and O(pairs in use) of
/// the links with random latency.
class network {
 public:
  /// @pre `options.validate()` is content. Nodes come into being when they are first used.
  /// @param server_delay see `scenario::server_delay`
  /// @param machine_of see `scenario::machine_of` @param server_machine_of see there
  explicit network(network_options const& options, std::vector<duration> server_delay = {},
                   std::vector<std::uint32_t> const& machine_of = {},
                   std::vector<std::uint32_t> const& server_machine_of = {});

  /// Sends `bytes` (without the header) at `now`. `random` is drawn from for the latency.
  transit send(station from, station to, std::uint64_t bytes, time_point now, random_stream& random);

  /// Whether messages between the two stay within a machine.
  [[nodiscard]] bool is_local(station a, station b) const noexcept { return host(a) == host(b); }

  [[nodiscard]] network_options const& options() const noexcept { return options_; }

 private:
  struct card {
    nic out, in;
  };
  /// Whose card it has: of all who live on its machine the first worker, or the first server where there is no
  /// worker; so that whatever the numbers of the machines are, there are no more cards than workers and servers.
  [[nodiscard]] station host(station n) const noexcept {
    std::vector<station> const& known = n.is_server() ? host_of_server_ : host_of_worker_;
    return n.index() < known.size() ? known[n.index()] : n;
  }
  [[nodiscard]] card& card_of(station n);
  [[nodiscard]] nic& local_sender(station n);
  [[nodiscard]] duration delay_of(station n) const noexcept;

  network_options options_;
  std::vector<duration> server_delay_;
  bool is_latency_alone_;  ///< all that a message costs from machine to machine
  std::vector<station> host_of_worker_, host_of_server_;
  std::vector<card> workers_, servers_;
  std::vector<nic> local_;  // by station: what it sends to its own machine
  fifo_guard order_;
};

}  // namespace rubato::sim
