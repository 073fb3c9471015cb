// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/wire/control.hpp"

#include <string>

#include "rubato/core/printable.hpp"

namespace rubato::wire {

namespace {

template <std::size_t... I>
control_message decode_alternative(std::size_t index, input_archive& in, std::index_sequence<I...>) {
  control_message message;
  ((index == I ? static_cast<void>(in & message.emplace<I>()) : static_cast<void>(0)), ...);
  return message;
}

// Sentences are for people, who read them in logs and on terminals.
template <class Message>
void make_printable(Message&) {}
void make_printable(end_run& m) { m.sentence = printable(m.sentence); }
void make_printable(stop_run& m) { m.sentence = printable(m.sentence); }
void make_printable(farewell& m) { m.failure = printable(m.failure); }
void make_printable(shut_down& m) { m.failure = printable(m.failure); }
void make_printable(peer_lost& m) { m.sentence = printable(m.sentence); }
void make_printable(peers_begin& m) {
  for (absent_peer& p : m.absent) p.sentence = printable(p.sentence);
}
void make_printable(run_over& m) {
  for (std::string& reason : m.change_reasons) reason = printable(reason);
}

}  // namespace

std::vector<std::byte> encode(control_message const& message) {
  output_archive out;
  out << static_cast<std::uint8_t>(message.index());
  std::visit([&](auto const& m) { out << m; }, message);
  return out.take();
}

control_message decode_control(std::span<std::byte const> bytes) {
  constexpr std::size_t kinds = std::variant_size_v<control_message>;
  static_assert(kinds < 256);
  input_archive in(bytes);
  std::uint8_t index = 0;
  in >> index;
  if (index >= kinds)
    throw frame_error("a control message of kind " + std::to_string(index) + ", expected one below " +
                      std::to_string(kinds));
  control_message message = decode_alternative(index, in, std::make_index_sequence<kinds>{});
  in.expect_end();
  std::visit([](auto& m) { make_printable(m); }, message);
  return message;
}

}  // namespace rubato::wire
