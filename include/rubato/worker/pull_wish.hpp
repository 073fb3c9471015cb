// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/element.hpp"

namespace rubato {

/// One table's part of a `pull_together`: which rows are wanted, and where they go. Made by `worker_table::into`; what
/// it was made from must outlive it. Copying costs O(keys) where these are not numbers of 64 bits one beside the other.
class pull_wish {
 public:
  /// The whole table.
  pull_wish(std::size_t table, element_type element, std::byte* out, std::size_t elements) noexcept
      : table_(table), out_(out), elements_(elements), element_(element) {}
  /// These rows, whose list stays where it is.
  pull_wish(std::size_t table, element_type element, std::span<std::uint64_t const> keys, std::byte* out,
            std::size_t elements) noexcept
      : table_(table), out_(out), elements_(elements), element_(element), whole_(false), given_(keys) {}
  /// These rows, whose list it keeps.
  pull_wish(std::size_t table, element_type element, std::vector<std::uint64_t>&& keys, std::byte* out,
            std::size_t elements) noexcept
      : table_(table), out_(out), elements_(elements), element_(element), whole_(false), kept_(std::move(keys)) {}

  /// Its number.
  [[nodiscard]] std::size_t table() const noexcept { return table_; }
  /// What `out` is made of.
  [[nodiscard]] element_type element() const noexcept { return element_; }
  /// Whether all rows are wanted.
  [[nodiscard]] bool whole() const noexcept { return whole_; }
  /// Else these.
  [[nodiscard]] std::span<std::uint64_t const> keys() const noexcept {
    return kept_.empty() ? given_ : std::span<std::uint64_t const>(kept_);
  }
  /// Where the elements go.
  [[nodiscard]] std::byte* out() const noexcept { return out_; }
  /// How many there is room for.
  [[nodiscard]] std::size_t elements() const noexcept { return elements_; }

 private:
  std::size_t table_;
  std::byte* out_;
  std::size_t elements_;
  element_type element_;
  bool whole_ = true;
  std::span<std::uint64_t const> given_{};
  std::vector<std::uint64_t> kept_{};
};

}  // namespace rubato
