// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>

#include "rubato/net/log.hpp"
#include "rubato/transport/processes/lent_messages.hpp"

namespace rubato::detail {

void lent_messages::offer(update_memory const* own, net::link& to) const {
  if (own == nullptr || seen_ || !to.is_local()) return;
  wire::frame_header h;
  h.kind = +wire::kind::memory;
  to.send(h, wire::to_bytes(own->where()));
}

void lent_messages::take_mapped(update_memory const* own, std::uint64_t number) noexcept {
  if (own != nullptr && number == own->where().number) seen_ = true;
}

void lent_messages::take_back(std::uint64_t frame) {
  auto const at = std::ranges::find(lent_, frame, &lent_values::frame);
  if (at == lent_.end())
    throw wire::frame_error("message " + std::to_string(frame) + " was returned, and it has not been lent");
  bytes_ -= at->values->values.size_bytes();
  lent_.erase(at);
}

void lent_messages::see(wire::memory_meta const& offered, net::link& from) {
  if (view_ && view_->where() != offered)
    throw wire::frame_error("memory for messages in place of what was lent before");
  std::string why;
  if (!view_) view_ = arena_view::open(offered, why);
  if (!view_)
    return net::log(net::log_level::info,
                    from.who() + ": its memory cannot be shared (" + why + "), so parameters come through the socket");
  net::log(net::log_level::info, from.who() + ": its parameters are read in memory that is shared");
  wire::frame_header h;
  h.kind = +wire::kind::mapped;
  h.sequence = offered.number;
  from.send(h, {});
}

raw_array lent_messages::borrow(std::uint64_t frame, std::uint64_t place, std::uint64_t bytes) const {
  auto const all = std::make_shared<borrowed_frame>(over_, frames_over::frame{rank_, frame}, view_);
  return raw_array::borrowed(all, view_->at(place), static_cast<std::size_t>(bytes));
}

}  // namespace rubato::detail
