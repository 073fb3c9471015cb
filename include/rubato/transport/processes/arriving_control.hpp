// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/frame.hpp"

namespace rubato::detail {

/// A control message while it arrives: it takes memory as its bytes come, and not because its header says how many.
class arriving_control {
 public:
  /// Bytes that who has no place yet may say: what all must agree on, in words, is nearly all of that.
  static constexpr std::uint64_t of_guest_max = std::uint64_t{1} << 20;
  /// The same for who has one.
  static constexpr std::uint64_t of_member_max = std::uint64_t{4} << 20;
  /// What the coordinator says: the report of a run has some hundred bytes for each of its workers.
  static constexpr std::uint64_t of_coordinator_max = std::uint64_t{1} << 30;

  /// Another one begins; what there was is void. @throws wire::frame_error when it is longer than `most`
  void begin(wire::frame_header const& header, std::span<std::byte const> meta, std::uint64_t most,
             std::vector<std::span<std::byte>>& body) {
    if (!meta.empty() || header.length > most)
      throw wire::frame_error("a control message of " + std::to_string(header.length) + " bytes, expected at most " +
                              std::to_string(most));
    length_ = static_cast<std::size_t>(header.length);
    bytes_.resize(std::min(length_, at_first));
    body.emplace_back(bytes_);
  }
  /// What it had room for is there.
  void more(std::vector<std::span<std::byte>>& body) {
    std::size_t const there = bytes_.size();
    bytes_.resize(std::min(length_, 2 * there));
    body.push_back(std::span(bytes_).subspan(there));
  }
  /// Those of it that there is room for: once it has arrived, all.
  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t at_first = 4096;

  std::vector<std::byte> bytes_;
  std::size_t length_ = 0;
};

/// The bytes of a message to the coordinator. @throws option_error where it would not be read, as these are more than
/// `most`
[[nodiscard]] inline std::vector<std::byte> encode_at_most(wire::control_message const& message, std::uint64_t most) {
  auto bytes = wire::encode(message);
  if (bytes.size() > most)
    throw option_error("what a process says to the coordinator, as of its tables and protocols, takes " +
                       std::to_string(bytes.size()) + " bytes, expected at most " + std::to_string(most));
  return bytes;
}

}  // namespace rubato::detail
