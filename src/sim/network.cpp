// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/error.hpp>
#include <rubato/sim/network.hpp>

#include <fmt/core.h>

#include <algorithm>

namespace rubato::sim {

void network_options::validate(std::string_view path) const {
  if (worker_link.latency < duration::zero()) {
    throw option_error(fmt::format("{}.worker_link.latency must be at least 0 ns, but is {}", path,
                                   worker_link.latency.count()));
  }
  worker_link.jitter.validate(fmt::format("{}.worker_link.jitter", path));
}

time_point fifo_guard::deliver(node from, node to, time_point arrival) {
  std::uint64_t const pair = std::uint64_t{from.code()} << 32 | to.code();
  time_point& last = last_.try_emplace(pair, time_point::min()).first->second;
  return last = std::max(last, arrival);
}

network::card& network::card_of(node n) {
  std::vector<card>& cards = n.is_server() ? servers_ : workers_;
  if (n.index() >= cards.size()) {
    nic const idle(n.is_server() ? options_.server_bandwidth : options_.worker_link.bandwidth);
    cards.resize(n.index() + 1, card{idle, idle});
  }
  return cards[n.index()];
}

duration network::delay_of(node n) const noexcept {
  return n.is_server() && n.index() < server_delay_.size() ? server_delay_[n.index()]
                                                           : duration::zero();
}

transit network::send(node from, node to, std::uint64_t bytes, time_point now,
                      random_stream& random) {
  std::uint64_t const total = bytes + options_.header_bytes;
  time_point const sent = card_of(from).out.pass(now, total);
  time_point const received = card_of(to).in.pass(now, total);
  link const& wire = options_.worker_link;
  time_point arrival = std::max(sent, received) + stretch(wire.latency, wire.jitter.draw(random));
  if (!server_delay_.empty()) arrival = arrival + delay_of(from) + delay_of(to);
  // With constant latency the cards keep the order already, and pairs need no memory.
  if (wire.jitter.is_constant()) return {sent, arrival};
  return {sent, order_.deliver(from, to, arrival)};
}

}  // namespace rubato::sim
