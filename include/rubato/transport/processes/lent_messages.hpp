// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "rubato/core/raw_array.hpp"
#include "rubato/net/link.hpp"
#include "rubato/storage/shared_update.hpp"
#include "rubato/transport/processes/arena_view.hpp"
#include "rubato/transport/processes/borrowed_frame.hpp"
#include "rubato/transport/processes/update_memory.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// What a peer and one neighbor on its machine have lent each other of large messages, which the one reads where they
/// lie in the other's memory. What is lent stays as it is until the neighbor has returned it, and for good if that is
/// lost: it may be alive, and reading. In one's turn; only what is borrowed may be given up in any thread.
class lent_messages {
 public:
  /// @param rank the neighbor's @param over what is borrowed is said there once it is needed no more
  lent_messages(std::uint32_t rank, std::shared_ptr<frames_over> over) noexcept
      : rank_(rank), over_(std::move(over)) {}

  // ---- to the neighbor

  /// Over a connection that brings it to nobody else.
  void offer(update_memory const* own, net::link& to) const;
  void take_mapped(update_memory const* own, std::uint64_t number) noexcept;
  /// Whether the neighbor sees this process's memory, and has returned enough of it: one that returns nothing leaves
  /// room for others.
  [[nodiscard]] bool may_be_lent(std::uint64_t bytes, std::uint64_t most) const noexcept {
    return seen_ && bytes <= most && bytes_ <= most - bytes;
  }
  /// The frame of this number says where these lie.
  void lend(std::uint64_t frame, shared_update values) {
    bytes_ += values->values.size_bytes();
    lent_.push_back({frame, std::move(values)});
  }
  /// @throws wire::frame_error for one that has not been lent
  void take_back(std::uint64_t frame);

  // ---- from the neighbor

  /// It has told where its memory is to be found. Where it is not, messages come as they do over a network.
  /// @throws wire::frame_error for another one than before
  void see(wire::memory_meta const& offered, net::link& from);
  /// Null where there is none.
  [[nodiscard]] arena_view const* view() const noexcept { return view_.get(); }
  /// Values of the frame of this number. @pre their place has been checked
  [[nodiscard]] raw_array borrow(std::uint64_t frame, std::uint64_t place, std::uint64_t bytes) const;

 private:
  struct lent_values {
    std::uint64_t frame;
    shared_update values;
  };

  std::uint32_t rank_;
  std::shared_ptr<frames_over> over_;
  bool seen_ = false;
  std::deque<lent_values> lent_;
  std::uint64_t bytes_ = 0;  ///< of these
  std::shared_ptr<arena_view const> view_;
};

}  // namespace rubato::detail
