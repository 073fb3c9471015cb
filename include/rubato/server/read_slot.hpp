// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/core/raw_array.hpp"
#include "rubato/core/time.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/storage/coding.hpp"
#include "rubato/storage/table_state.hpp"

namespace rubato {

/// What a read asks a server for.
enum class selection : std::uint8_t {
  nothing,  ///< only to be let in
  rows,     ///< the rows listed
  all,      ///< every row that the server has
};

/// Bytes that go between a worker and a server for a read, without framing.
struct read_traffic {
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// One request of a worker to one server about one table, and its answer. Lives in the worker, so
/// that steady reads allocate nothing; in use from `request` until the wait is over. Elements are bytes
/// here: who asks and who answers know what they are.
struct read_slot {
  // Of whole tables first: what a read touches is to be in few cache lines.
  selection asked = selection::nothing;
  bool shared = false;      ///< the reader's process answers it, and asks a server for what it has not
  bool by_process = false;  ///< no server was asked for it: the reader's process had it, or had asked already
  /// Who answers sends all rows from the table itself: nothing is asked here, but the reader gets them.
  bool streamed = false;
  read_stamp stamp{};
  // By the asker's clock. Where a server tells only how long it took to let the request go on, as if it had been there
  // as soon as it was sent.
  time_point arrived{};     ///< when the request was at the server; max() while it is known to be on its way
  time_point admitted{};    ///< when the protocol let it go on; min() while it is known not to have
  std::uint64_t coded = 0;  ///< what the values take on a wire, where a codec writes them; 0: as they lie
  table_state state{};      ///< for `selection::all`
  /// For `selection::all` of a bounded table: where the elements go instead, in the server's order, if
  /// the transport can write them there (`endpoint::scatters`). Empty: into the state.
  std::vector<std::span<std::byte>> scattered{};

  std::vector<std::uint64_t> rows{};  ///< local rows, for `selection::rows`
  raw_array values{};                 ///< these, one after the other
  /// Of each row, where they come from several answers; the stamp then is the least of them. Else empty.
  std::vector<read_stamp> row_stamps{};
  read_traffic fetched{};  ///< if `shared`: for what the process has asked in the reader's name

  /// What a question counts as of which nobody has told anything yet.
  enum class untold : std::uint8_t {
    held_up,     ///< by the protocol, for as long as the reader waits for it
    on_its_way,  ///< which is no wait
  };
  /// The reader's process answers it, from answers to what it asks itself, perhaps another time or in another's name:
  /// when this was at a server is not known, but from those answers, of which the one that was held up for the longest
  /// says when it was there and let go on.
  void leave_to_process(untold until_then) noexcept {
    arrived = {};  // before the reader waited
    admitted = until_then == untold::held_up ? time_point::min() : arrived;
  }

  /// Whether the reader knows more of the parameters after it.
  [[nodiscard]] bool gives_rows() const noexcept { return asked != selection::nothing || streamed; }
  [[nodiscard]] std::size_t request_bytes() const noexcept {
    return asked == selection::rows ? rows.size() * sizeof(std::uint64_t) : 0;
  }
  [[nodiscard]] std::size_t reply_bytes() const noexcept {
    switch (asked) {
      case selection::nothing: return 0;
      case selection::rows: return coded != 0 ? static_cast<std::size_t>(coded) : values.size_bytes();
      case selection::all: {
        if (coded != 0) return state.keys().size_bytes() + static_cast<std::size_t>(coded);
        std::size_t bytes = scattered.empty() ? state.bytes() : 0;
        for (auto const piece : scattered) bytes += piece.size_bytes();
        return bytes;
      }
    }
    return 0;
  }
  [[nodiscard]] read_traffic traffic() const noexcept {
    return shared ? fetched : read_traffic{request_bytes(), reply_bytes()};
  }
};

/// What an answer's values take on a wire, as a codec writes them. @pre they are there, and `answers` has a codec
[[nodiscard]] inline std::uint64_t coded_answer(read_slot const& slot, coding const& answers) noexcept {
  switch (slot.asked) {
    case selection::nothing: return 0;
    case selection::rows: return answers.bytes(slot.values.size_bytes());
    case selection::all: return answers.bytes(slot.state.bytes() - slot.state.keys().size_bytes());
  }
  return 0;
}

/// A request of a worker to the coordinator, under partition synchronization, and its answer.
struct cut_slot {
  bool pull = false;  ///< rows will be asked for, so the cut is to be kept until it is released

  shared_cut cut{};
  time_point arrived{};   ///< when the request was at the coordinator
  time_point admitted{};  ///< when the protocol let it go on
};

}  // namespace rubato
