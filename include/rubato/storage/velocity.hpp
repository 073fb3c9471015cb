// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "rubato/core/optional_mutex.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

/// The velocity of a merge that has one, beside a store of any kind: a step is
/// `v ← decay·v + Σ weight·u`, `w ← w + v`. Takes as much memory as the rows that updates have touched;
/// in a bounded store, as all rows. Source: 003 Eq. 1.
template <table_store Store>
class velocity {
 public:
  using value_type = typename Store::value_type;

  explicit velocity(store_shape const& s) : shape_(s), serial_(s.threads) {}

  /// Every row that has velocity moves, also those that the step has no update for. Steps are serial:
  /// two that interleave would each add the other's update twice.
  void fold(Store& store, std::span<weighted_update<value_type> const> step, double decay) {
    std::lock_guard const guard(serial_);
    if (Store::bounded && values_.empty())
      values_.resize(static_cast<std::size_t>(shape_.rows) * shape_.width);
    detail::multiply(values_.data(), values_.size(), decay);
    for (auto const& u : step) add(u);
    weighted_update<value_type> const moved{
        {.keyed = !Store::bounded, .first = 0, .rows = rows_, .values = values_}, 1.0};
    store.fold(std::span<weighted_update<value_type> const>(&moved, 1));
  }

  /// It becomes as the other is. Nobody else may use either meanwhile.
  void become(velocity const& other) {
    values_ = other.values_;
    rows_ = other.rows_;
    slots_ = other.slots_;
  }

  [[nodiscard]] std::size_t bytes() const {
    std::lock_guard const guard(serial_);
    return values_.capacity() * sizeof(value_type) + rows_.capacity() * sizeof(std::uint64_t);
  }

 private:
  void add(weighted_update<value_type> const& u) {
    value_type const* from = u.values.data();
    if (!u.keyed)
      return detail::add_scaled(values_.data() + static_cast<std::size_t>(u.first) * shape_.width,
                                from, u.values.size(), u.weight);
    for (std::uint64_t const row : u.rows) {
      detail::add_row(at(row), from, shape_.width, u.weight);
      from += shape_.width;
    }
  }

  value_type* at(std::uint64_t row) {
    if constexpr (Store::bounded) return values_.data() + static_cast<std::size_t>(row) * shape_.width;
    auto const [slot, fresh] = slots_.try_emplace(row, rows_.size());
    if (fresh) {
      rows_.push_back(row);
      values_.resize(rows_.size() * shape_.width);
    }
    return values_.data() + slot->second * shape_.width;
  }

  store_shape shape_;
  mutable optional_mutex serial_;
  std::vector<value_type> values_;    // of all rows, or of those listed
  std::vector<std::uint64_t> rows_;   // not bounded: those that have been touched
  detail::row_map<std::size_t> slots_;
};

}  // namespace rubato
