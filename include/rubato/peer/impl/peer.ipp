// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/peer/peer.hpp"
#include "rubato/peer/peer_endpoint.hpp"
#include "rubato/peer/peer_node.hpp"

namespace rubato {

peer_core::peer_core(peer_node& node, peer_endpoint& link, std::uint32_t rank, std::uint32_t count,
                     std::uint64_t seed)
    : node_(node), link_(link), rank_(rank), count_(count), random_(seed, rank), began_(link.now()) {}

std::int64_t peer_core::iteration() const noexcept { return node_.iteration(); }
time_point peer_core::now() const { return link_.now(); }
std::span<std::byte const> peer_core::parameter_bytes() const noexcept { return node_.parameters(); }
bool peer_core::at_end() const noexcept { return failed_ || node_.ended(); }

peer_core::iteration_range peer_core::iterations(std::int64_t n) {
  if (n < 0) throw option_error("iterations: must be 0 or more, but is " + std::to_string(n));
  require_open("iterations");
  if (begun_) throw usage_error(errc::bad_option, "iterations: only once in a run of a peer");
  begun_ = true;
  thread_ = std::this_thread::get_id();
  failed_ = true;  // until it has succeeded
  node_.begin(link_, n);
  link_.flush();
  failed_ = false;
  return iteration_range(*this);
}

void peer_core::step(std::span<std::byte const> gradient, std::size_t given, std::size_t expected,
                     double work) {
  require_open("step");
  if (!begun_ || stepped_ || failed_ || node_.ended())
    throw usage_error(errc::bad_option, "step: must be called once in each of the iterations");
  require_thread();
  if (given != expected)
    throw usage_error(errc::wrong_size, "step: a gradient of " + std::to_string(given) +
                                            " numbers, expected " + std::to_string(expected));
  if (!(work >= 0) || !std::isfinite(work))
    throw usage_error(errc::bad_option, "step: work must be finite and 0 or more");
  link_.charge(work);
  stepped_ = true;
  failed_ = true;  // until it has succeeded
  node_.step(link_, gradient);
  link_.flush();
  failed_ = false;
}

peer_metrics peer_core::metrics() const {
  peer_metrics m;
  m.bytes_sent = bytes_sent_;
  link_.guard([&] { static_cast<peer_counters&>(m) = node_.counters(); });
  m.wait_updates = node_.waits().for_updates;
  m.wait_tokens = node_.waits().for_tokens;
  m.compute = ((open_ ? link_.now() : ended_) - began_) - m.wait();
  return m;
}

void peer_core::end() noexcept {
  open_ = false;
  ended_ = link_.now();
}

void peer_core::require_open(char const* call) const {
  if (!open_)
    throw usage_error(errc::stale_handle, std::string(call) + ": the run of this peer is over");
}

/// Its mailbox, and in virtual time all that runs, are for the body's thread.
void peer_core::require_thread() const {
  if (std::this_thread::get_id() != thread_)
    throw usage_error(errc::stale_handle, "peer " + std::to_string(rank_) +
                                              ": its handle was used from another thread than its body's; let the "
                                              "body's thread call step");
}

void peer_core::next() {
  require_thread();
  if (!stepped_)
    throw usage_error(errc::bad_option,
                      "iterations: iteration " + std::to_string(iteration()) + " had no step()");
  stepped_ = false;
}

}  // namespace rubato
