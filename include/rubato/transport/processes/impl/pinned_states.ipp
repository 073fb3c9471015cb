// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/transport/processes/pinned_states.hpp"

namespace rubato::detail {

std::optional<chunk_arena::pin> pinned_states::add(std::size_t table, table_state& state,
                                                    std::vector<std::uint64_t>& places) {
  places.clear();
  for (std::size_t i = 0; i < state.chunks(); ++i) {
    block_ref const& chunk = state.chunk(i);
    auto const place = memory_.offset_of(chunk.data(), chunk.size_bytes());
    bool const is_of_new_size = i == 0 || chunk.size_bytes() != state.chunk(i - 1).size_bytes();
    if (!place || (is_of_new_size && !memory_.has_room_for_copies(chunk.size_bytes()))) return std::nullopt;
    places.push_back(*place);
  }
  held_.reserve(held_.size() + 1);
  auto const pin = memory_.add_pin();
  if (!pin) return std::nullopt;
  held_.push_back({*pin, table, {}});
  swap(held_.back().state, state);
  return pin;
}

void pinned_states::release(std::uint64_t pin) noexcept {
  auto const at = std::ranges::find(held_, pin, [](held const& h) { return h.pin.number; });
  if (at == held_.end()) return;
  memory_.remove_pin(at->pin);  // before the state goes: its chunks may change then
  held_.erase(at);
}

void pinned_states::clear() noexcept {
  for (held const& h : held_) memory_.remove_pin(h.pin);
  held_.clear();
}

}  // namespace rubato::detail
