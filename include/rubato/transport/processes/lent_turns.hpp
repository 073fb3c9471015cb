// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>

#include "rubato/storage/table_state.hpp"
#include "rubato/transport/processes/windowed_body.hpp"

namespace rubato::detail {

/// A large update that is lent, as a server folds it: stretch by stretch, one in each turn of its network. Of each
/// stretch the first chunk comes in the body, too; it says that the turn has come, and others are heard between two.
class lent_turns {
 public:
  /// About 1 ms of folding. What a connection reads at a time may hold four pieces, and so a turn four stretches.
  static constexpr std::size_t stretch_usual = 4 * 1024 * 1024;

  /// Whether there is room for a piece, which is a row where these are long, and something else than the first.
  [[nodiscard]] static bool are_possible(std::size_t bytes, std::size_t row_bytes) noexcept {
    std::size_t const piece = table_state::chunk_bytes(row_bytes);
    return piece <= windowed_body::window_size && bytes > piece;
  }

  /// Of values of so many bytes, in whole rows.
  lent_turns(std::size_t bytes, std::size_t row_bytes) noexcept
      : bytes_(bytes),
        chunk_(table_state::chunk_bytes(row_bytes)),
        stretch_(std::max<std::size_t>(1, stretch_usual / chunk_) * chunk_) {}

  [[nodiscard]] std::size_t count() const noexcept { return (bytes_ + stretch_ - 1) / stretch_; }
  /// Where a stretch begins, and how long it and its piece in the body are.
  [[nodiscard]] std::size_t first(std::size_t i) const noexcept { return i * stretch_; }
  [[nodiscard]] std::size_t size(std::size_t i) const noexcept { return std::min(stretch_, bytes_ - first(i)); }
  [[nodiscard]] std::size_t piece(std::size_t i) const noexcept { return std::min(chunk_, bytes_ - first(i)); }
  /// Of all pieces but the last.
  [[nodiscard]] std::size_t piece() const noexcept { return chunk_; }
  /// All pieces.
  [[nodiscard]] std::size_t sent() const noexcept {
    return bytes_ == 0 ? 0 : (count() - 1) * chunk_ + piece(count() - 1);
  }

 private:
  std::size_t bytes_;
  std::size_t chunk_;
  std::size_t stretch_;
};

}  // namespace rubato::detail
