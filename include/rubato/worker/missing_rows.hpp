// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/partition/layout.hpp"

namespace rubato {

/// The rows that a read has to fetch.
class missing_rows {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::uint64_t const> keys() const noexcept { return {keys_.data(), size_}; }
  /// Where the i-th row is in the caller's list, and in the slot of the server that holds it.
  [[nodiscard]] std::size_t position(std::size_t i) const noexcept { return whole_list_ ? i : rows_[i].position; }
  [[nodiscard]] std::size_t index(std::size_t i) const noexcept { return only_server_ ? i : rows_[i].index; }
  void set_index(std::size_t i, std::size_t index) noexcept { rows_[i].index = index; }
  [[nodiscard]] server_id server(std::size_t i) const noexcept {
    return only_server_ ? *only_server_ : places[i].server;
  }
  /// Whether they are the caller's list as it is, and its server's slot has them in the same order.
  [[nodiscard]] bool as_listed() const noexcept { return whole_list_ && only_server_; }

  /// Keeps its memory, and what is in there: reads of a few rows are over in less time than vectors take to grow
  /// and shrink.
  void clear() noexcept {
    size_ = 0;
    whole_list_ = false;
    only_server_.reset();
  }
  /// All that the caller has listed. @pre nothing is here
  void add_all(std::span<std::uint64_t const> keys) {
    if (rows_.size() < keys.size()) grow(keys.size());
    std::ranges::copy(keys, keys_.begin());
    size_ = keys.size();
    whole_list_ = true;
  }
  /// One server has all of them, in its slot in this order: there are no `places`, and no index is set.
  void set_only_server(server_id s) noexcept { only_server_ = s; }
  void add(std::uint64_t k, std::size_t position) {
    RUBATO_ASSERT(!whole_list_);
    if (size_ == rows_.size()) grow(std::max<std::size_t>(16, 2 * size_));
    keys_[size_] = k;
    rows_[size_++] = {position, 0};
  }

  std::vector<layout::place> places;  ///< by row, where several servers may have them
  /// The same, and nothing where one server has all.
  [[nodiscard]] std::span<layout::place const> known_places() const noexcept {
    return only_server_ ? std::span<layout::place const>() : std::span(places);
  }

 private:
  struct row {
    std::size_t position;
    std::size_t index;
  };
  void grow(std::size_t n) {
    keys_.resize(n);
    rows_.resize(n);
  }

  std::vector<std::uint64_t> keys_;
  std::vector<row> rows_;
  std::size_t size_ = 0;
  bool whole_list_ = false;  ///< each is where it is in the caller's list
  std::optional<server_id> only_server_;
};

}  // namespace rubato
