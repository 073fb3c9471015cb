// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/transport/processes/arena_view.hpp"
#include "rubato/wire/frame.hpp"
#include "rubato/worker/inquiry.hpp"

namespace rubato::detail {

/// An answer for which its asker has no room, whose sentence says why. The connection goes on.
class answer_too_large final : public error {
 public:
  explicit answer_too_large(std::string const& sentence) : error(errc::bad_option, sentence) {}
};

/// A question to a server, and where its answer goes. Belongs to the thread that asks, which keeps it
/// until it is answered or withdrawn, and may then ask it anew.
struct question {
  question() = default;
  question(question const&) = delete;
  question& operator=(question const&) = delete;
  virtual ~question() = default;
  /// As `frame_receiver::begin`: where the answer goes. @throws answer_too_large to be told that it
  /// was refused for its size
  virtual void begin(wire::frame_header const& header, std::span<std::byte const> meta,
                     std::vector<std::span<std::byte>>& body) = 0;
  /// The body is there. What lies in the server's memory is read there; false: it had changed before all of it was
  /// read, as the connection had broken, and is to be asked for again. @throws wire::frame_error where it cannot lie
  /// there
  [[nodiscard]] virtual bool take() { return true; }
  /// It has been answered, or refused. Called in the turn of whoever heard it.
  virtual void done(refusal why) {
    if (why != refusal::none) asker->refused.store(why, std::memory_order_relaxed);
    asker->missing.fetch_sub(1, std::memory_order_release);  // from here on it may be gone
  }

  wire::frame_header header{};
  std::vector<std::byte> meta;
  std::vector<std::byte> body;
  inquiry* asker = nullptr;
  arena_view const* memory = nullptr;  ///< of the server, as its answer begins; null if it cannot be seen
  std::uint64_t pin = 0;               ///< that its answer has there; 0: none
};

/// Who asks servers. Model: `worker_links`.
class server_asker {
 public:
  virtual ~server_asker() = default;
  /// Asks a server; `q.asker` misses one answer more until it is there.
  virtual void ask(server_id s, question& q) = 0;
  /// The same for whoever has the turn, as in `question::done`.
  virtual void ask_in_turn(server_id s, question& q) = 0;
  /// Nothing is written into the asker's memory from now on.
  virtual void withdraw(inquiry& asked) = 0;
};

/// Apart, so that checks are inlined.
[[noreturn, gnu::noinline]] inline void refuse_length(std::uint64_t length, std::uint64_t expected) {
  throw wire::frame_error("a body of " + std::to_string(length) + " bytes, expected " + std::to_string(expected));
}
[[noreturn, gnu::noinline]] inline void refuse_count(std::uint64_t count, std::uint64_t most) {
  throw wire::frame_error("an array of " + std::to_string(count) + " elements, expected at most " +
                          std::to_string(most));
}

/// Checks that a body's parts add up to what the header says. @throws wire::frame_error
inline void expect_length(wire::frame_header const& header, std::uint64_t bytes) {
  if (header.length != bytes) [[unlikely]]
    refuse_length(header.length, bytes);
}

/// `count` elements of `size` bytes. @throws wire::frame_error when they are more than `limit` bytes
[[nodiscard]] inline std::uint64_t bytes_for(std::uint64_t count, std::uint64_t size,
                                             std::uint64_t limit) {
  if (count > limit / size) [[unlikely]]
    refuse_count(count, limit / size);
  return count * size;
}

}  // namespace rubato::detail
