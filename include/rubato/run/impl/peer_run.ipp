// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <utility>

#include "rubato/run/peer_run.hpp"

namespace rubato {

peer_run::peer_run(peer_setup setup) : life("group"), setup_(std::move(setup)) {
  for (std::uint32_t i = 0; i < count(); ++i) nodes_.push_back(setup_.make_node(i));
}

void peer_participant::attach(peer_endpoint& link, std::uint32_t rank, std::uint64_t seed) {
  handle_ = run_.setup_.make_peer(run_.node(rank), link, rank, run_.count(), seed);
}

std::string peer_run::describe_wait(std::uint32_t rank) const {
  std::string text = "peer " + std::to_string(rank) + " waits in iteration " + std::to_string(node(rank).iteration());
  char const* before = " for peer ";
  for (worker_id const w : node(rank).awaits()) text += std::exchange(before, ", ") + std::to_string(w.value());
  return text;
}

void peer_participant::live() { run_.body_(*handle_); }
void peer_participant::leave() { run_.left(*this); }

}  // namespace rubato
