// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/peer/concepts.hpp"

namespace rubato {

/// What peers of the Hop family send each other. FIFO per pair of sender and receiver.
template <class Payload>
struct hop_message {
  enum class kind : std::uint8_t {
    update,  ///< the sender's parameters of iteration `number`
    tokens,  ///< `number` tokens put into the queue kept for the receiver
    ack,     ///< the sender has reduced the receiver's update of iteration `number`
    bye,     ///< the sender makes `number` iterations, has ended the last of them, and sends no more
  };
  kind what = kind::update;
  std::int64_t number = 0;
  Payload parameters{};
};

/// Messages to be sent, in this order.
template <class Message>
using outbox = std::vector<std::pair<worker_id, Message>>;

}  // namespace rubato
