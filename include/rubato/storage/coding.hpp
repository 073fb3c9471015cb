// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "rubato/core/element.hpp"
#include "rubato/storage/codec.hpp"
#include "rubato/storage/table_state.hpp"

namespace rubato {

/// How values of one table go over a wire in one direction: a codec, and the pieces in which it codes them, which are
/// those in which states are held and large updates folded; or as they lie, where there is no codec. Values are bytes
/// here: who sends and receives them need not know what they are.
/// Thread safety: any thread.
class coding {
 public:
  /// Without a codec.
  coding() = default;
  coding(codec_rule codec, element_type element, std::size_t row_bytes)
      : codec_(std::move(codec)), element_(element), piece_bytes_(table_state::chunk_bytes(row_bytes)) {}
  /// With each row a piece of its own.
  [[nodiscard]] static coding by_row(codec_rule codec, element_type element, std::size_t row_bytes) {
    coding c(std::move(codec), element, row_bytes);
    c.piece_bytes_ = row_bytes;
    return c;
  }

  /// Whether there is a codec; what follows is for such only, but for `bytes`.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(codec_); }
  [[nodiscard]] codec_rule const& codec() const noexcept { return codec_; }

  /// What so many bytes of values take on a wire.
  [[nodiscard]] std::uint64_t bytes(std::uint64_t value_bytes) const noexcept {
    if (!codec_) return value_bytes;
    std::uint64_t const pieces = value_bytes / piece_bytes_, rest = value_bytes % piece_bytes_;
    return pieces * coded_piece() + (rest == 0 ? 0 : codec_.bytes(count(rest)));
  }
  /// The bytes of the values of a piece, all but the last of which are as long.
  [[nodiscard]] std::size_t piece_bytes() const noexcept { return piece_bytes_; }
  /// What such a piece takes on a wire.
  [[nodiscard]] std::size_t coded_piece() const noexcept { return codec_.bytes(count(piece_bytes_)); }

  /// @param to has `bytes(values.size())`
  void encode(std::span<std::byte const> values, std::span<std::byte> to) const;
  /// @param from has `bytes(values.size())`, whatever they are
  void decode(std::span<std::byte const> from, std::span<std::byte> values) const;
  /// Makes values what they will be at the other end.
  void round(std::span<std::byte> values) const;

 private:
  [[nodiscard]] std::size_t count(std::uint64_t value_bytes) const noexcept {
    return static_cast<std::size_t>(value_bytes) / size_of(element_);
  }

  codec_rule codec_{};
  element_type element_ = element_type::float32;
  std::size_t piece_bytes_ = 1;
};

}  // namespace rubato
