// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/worker_process.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/transport/processes/read_question.hpp"

// What a worker process sees of the parameters between runs.
namespace rubato::detail {

std::vector<table_state> worker_process::ask_states(std::size_t table) const {
  std::vector<read_slot> slots(plan().servers());
  std::vector<std::unique_ptr<read_question>> questions;
  inquiry asked;
  for (std::uint32_t s = 0; s < plan().servers(); ++s) {
    questions.push_back(
        std::make_unique<read_question>(plan(), table, server_id{s}, options_.sparse_max));
    questions.back()->renew_observation(slots[s], asked);
    links_->ask(server_id{s}, *questions.back());
  }
  wait_for(asked);
  std::vector<table_state> states(slots.size());
  for (std::size_t s = 0; s < slots.size(); ++s) swap(states[s], slots[s].state);
  return states;
}

void worker_process::wait_for(inquiry& asked) const {
  try {
    if (links_->wait_for(asked, [] { return false; })) {
      if (refusal const r = asked.refused.load(std::memory_order_relaxed); r != refusal::none)
        links_->raise(r);
      return;
    }
  } catch (...) {
    links_->withdraw(asked);
    throw;
  }
  links_->withdraw(asked);
  throw lost_error("the parameters cannot be read: " + links_->why_broken().sentence());
}

void worker_process::read_whole(std::size_t table, std::byte* out) const {
  plan().table(table).assemble(ask_states(table), out);
}

void worker_process::read_touched(std::size_t table, std::vector<std::uint64_t>& keys,
                                  raw_array& values) const {
  gather_touched(ask_states(table), plan().table(table).row_bytes(), keys, values);
}

std::uint64_t worker_process::updates() const {
  inquiry asked;
  std::deque<count_question> questions;
  for (std::uint32_t s = 0; s < plan().servers(); ++s)
    links_->ask(server_id{s}, questions.emplace_back(asked));
  wait_for(asked);
  std::uint64_t most = 0;
  for (auto const& q : questions) most = std::max(most, q.count);
  return most;
}

server_group const& worker_process::servers() const {
  throw usage_error(errc::stale_handle, "the servers of this cluster are in other processes");
}

net::address worker_process::bound() const {
  throw usage_error(errc::stale_handle, "a worker process does not listen");
}

}  // namespace rubato::detail
