// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/error.hpp"
#include "rubato/sim/network.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace rubato::sim {

namespace {

void validate_link(link_options const& wire, std::string_view path, std::string_view name) {
  if (wire.latency < duration::zero()) {
    throw option_error(fmt::format("{}.{}.latency must be at least 0 ns, but is {}", path, name,
                                   wire.latency.count()));
  }
  wire.jitter.validate(fmt::format("{}.{}.jitter", path, name));
}

}  // namespace

void network_options::validate(std::string_view path) const {
  validate_link(worker_link, path, "worker_link");
  validate_link(local_link, path, "local_link");
}

time_point fifo_guard::deliver(station from, station to, time_point arrival) {
  std::uint64_t const pair = std::uint64_t{from.code()} << 32 | to.code();
  time_point& last = last_.try_emplace(pair, time_point::min()).first->second;
  return last = std::max(last, arrival);
}

std::vector<std::uint32_t> blocks(std::size_t workers, std::size_t machines) {
  if (workers > 0 && machines == 0) {
    throw option_error(
        fmt::format("blocks: there must be at least 1 machine for {} workers", workers));
  }
  std::vector<std::uint32_t> machine_of;
  machine_of.reserve(workers);
  for (std::uint32_t m = 0; machine_of.size() < workers; ++m) {
    std::size_t const size = workers / machines + (m < workers % machines ? 1 : 0);
    machine_of.insert(machine_of.end(), size, m);
  }
  return machine_of;
}

network::network(network_options const& options, std::vector<duration> server_delay,
                 std::vector<std::uint32_t> const& machine_of,
                 std::vector<std::uint32_t> const& server_machine_of)
    : options_(options),
      server_delay_(std::move(server_delay)),
      is_latency_alone_(options_.worker_link.bandwidth == 0 && options_.server_bandwidth == 0 &&
                        options_.worker_link.jitter == distribution{} && server_delay_.empty()) {
  std::unordered_map<std::uint32_t, station> first;
  for (std::uint32_t const machine : machine_of) {
    station const self(worker_id{static_cast<std::uint32_t>(host_of_worker_.size())});
    host_of_worker_.push_back(first.try_emplace(machine, self).first->second);
  }
  for (std::uint32_t const machine : server_machine_of) {
    station const self(server_id{static_cast<std::uint32_t>(host_of_server_.size())});
    host_of_server_.push_back(first.try_emplace(machine, self).first->second);
  }
}

network::card& network::card_of(station n) {
  station const at = host(n);
  std::vector<card>& cards = at.is_server() ? servers_ : workers_;
  while (at.index() >= cards.size()) {
    bool const alone = at.is_server() && cards.size() >= host_of_server_.size();
    nic const idle(alone ? options_.server_bandwidth : options_.worker_link.bandwidth);
    cards.push_back(card{idle, idle});
  }
  return cards[at.index()];
}

nic& network::local_sender(station n) {
  if (n.code() >= local_.size()) local_.resize(n.code() + 1, nic(options_.local_link.bandwidth));
  return local_[n.code()];
}

duration network::delay_of(station n) const noexcept {
  return n.is_server() && n.index() < server_delay_.size() ? server_delay_[n.index()]
                                                           : duration::zero();
}

transit network::send(station from, station to, std::uint64_t bytes, time_point now,
                      random_stream& random) {
  if (is_latency_alone_ && !is_local(from, to))
    return {now, now + options_.worker_link.latency};
  std::uint64_t const total = bytes + options_.header_bytes;
  bool const local = is_local(from, to);
  time_point const sent = (local ? local_sender(from) : card_of(from).out).pass(now, total);
  time_point const received = local ? sent : card_of(to).in.pass(now, total);
  link_options const& wire = local ? options_.local_link : options_.worker_link;
  time_point arrival = std::max(sent, received) + stretch(wire.latency, wire.jitter.draw(random));
  if (!server_delay_.empty()) arrival = arrival + delay_of(from) + delay_of(to);
  // All messages of a pair take the same way. With constant latency its cards, or the sender's
  // local link, keep the order already, and pairs need no memory.
  if (wire.jitter.is_constant()) return {sent, arrival};
  return {sent, order_.deliver(from, to, arrival)};
}

}  // namespace rubato::sim
