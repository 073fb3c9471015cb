// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/storage/shared_update.hpp"

namespace rubato {

/// What peers send each other. FIFO per pair of sender and receiver. What kinds there are, and what they
/// mean, is the protocol's business.
struct peer_message {
  std::uint8_t kind = 0;  ///< what it is, as the protocol numbers its messages
  std::int64_t number = 0;  ///< an iteration, or what the kind says
  shared_update parameters{};  ///< of an update, an answer or a chunk; shared, never changed once sent
};

/// Messages to be sent, in this order.
using outbox = std::vector<std::pair<worker_id, peer_message>>;

}  // namespace rubato
