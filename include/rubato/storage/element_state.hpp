// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <span>
#include <typeinfo>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/optional_mutex.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/protocol/element_rule.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/listed_rows.hpp"
#include "rubato/storage/table_host.hpp"
#include "rubato/storage/table_state.hpp"

namespace rubato {

namespace detail {
/// Whether merges may say how a store's elements move: not those of integers, nor what is kept in parts.
template <table_store Store>
inline constexpr bool moves_elements = std::floating_point<typename Store::value_type> && !versioned_store<Store>;

/// In place of what follows, where they may not.
struct no_element_state {
  explicit no_element_state(store_shape const&) {}
  void forget(worker_id) {}
  void become(no_element_state const&) {}
  [[nodiscard]] std::size_t bytes() const { return 0; }
};
}  // namespace detail

/// What an `element_merge` keeps beside a store of any kind, and the steps that it makes there. Takes memory once there
/// has been a step, or a read where the merge keeps copies.
///
/// Thread safety: steps, and reads of copies, wait for one another. Other reads go on beside them, as the store has it.
template <table_store Store>
class element_state {
 public:
  using value_type = typename Store::value_type;
  using updates = std::span<weighted_update<value_type> const>;

  explicit element_state(store_shape const& s) : shape_(s), serial_(s.threads) {}

  /// It becomes as the other is. Nobody else may use either meanwhile.
  void become(element_state const& other) {
    kept_by_ = other.kept_by_;
    number_ = other.number_;
    slots_ = other.slots_;
    copies_ = other.copies_;
    rows_ = other.rows_;
    index_ = other.index_;
    scratch_ = other.scratch_;  // of as many slots
  }

  /// One step of these updates, in their order.
  void step(Store& store, updates step, element_step const& how) {
    std::lock_guard const guard(serial_);
    adopt(*how.rule);
    fold_step const now{.number = number_++, .workers = how.workers};
    auto* const copy = how.rule->copy() == worker_copy::none ? nullptr : &copy_of(store, how.from);
    if constexpr (Store::bounded) {
      auto const is_keyed = [](auto const& u) { return u.keyed; };
      if (!how.rule->lazy() || !std::ranges::all_of(step, is_keyed))
        return step_all(store, step, {how.rule, now, copy});
    }
    step_listed(store, step, {how.rule, now, copy});
  }

  /// A read of rows, as the worker is to see them.
  void read(Store const& store, own_copy const& own, std::span<std::uint64_t const> rows, value_type* out) {
    std::lock_guard const guard(serial_);
    adopt(*own.rule);
    auto& mine = copy_of(store, own.of);
    if (own.rule->copy() == worker_copy::elastic) return gather(mine, rows, out);
    store.read(rows, out);
    scatter(mine, rows, out);
  }

  /// A read of all rows: `parameters()` freezes those, `copy(values)` the worker's own.
  template <class Parameters, class Copy>
  void read_all(Store const& store, own_copy const& own, Parameters parameters, Copy copy) {
    std::lock_guard const guard(serial_);
    adopt(*own.rule);
    auto& mine = copy_of(store, own.of);
    if (own.rule->copy() == worker_copy::elastic) return copy(std::span<value_type const>(mine));
    parameters();
    if constexpr (Store::bounded) store.copy(0, shape_.rows, mine.data());
  }

  /// The worker's copy begins anew at its next read.
  void forget(worker_id w) {
    std::lock_guard const guard(serial_);
    if (w.index() < copies_.size()) copies_[w.index()] = {};
  }

  [[nodiscard]] std::size_t bytes() const {
    std::lock_guard const guard(serial_);
    std::size_t values = 0;
    for (auto const* list : {&slots_, &copies_, &scratch_})
      for (auto const& one : *list) values += one.capacity();
    return (values + w_.capacity() + d_.capacity()) * sizeof(value_type) +
           (rows_.capacity() + listed_.capacity() + places_.capacity()) * sizeof(std::uint64_t);
  }

 private:
  struct call {
    element_rule const* rule;
    fold_step at;
    std::vector<value_type>* copy;  ///< of the worker that commits, or null
  };

  /// What another type of merge has kept is of no use to this one.
  void adopt(element_rule const& rule) {
    if (kept_by_ != nullptr && *kept_by_ == rule.type()) return;
    slots_.assign(rule.slots(), {});
    scratch_.assign(rule.slots() + 1, {});
    copies_.clear();
    rows_.clear();
    detail::clear(index_);
    number_ = 0;
    kept_by_ = &rule.type();
    if (Store::bounded) extend(rule, static_cast<std::size_t>(shape_.rows));
  }

  /// Slots for so many rows.
  void extend(element_rule const& rule, std::size_t rows) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      slots_[i].resize(rows * shape_.width, static_cast<value_type>(rule.initial(i)));
  }

  std::vector<value_type>& copy_of([[maybe_unused]] Store const& store, worker_id w) {
    if (w.index() >= copies_.size()) copies_.resize(w.index() + 1);
    auto& mine = copies_[w.index()];
    if constexpr (Store::bounded)
      if (mine.empty()) {
        mine.resize(static_cast<std::size_t>(shape_.rows) * shape_.width);
        store.copy(0, shape_.rows, mine.data());
      }
    return mine;
  }

  void gather(std::vector<value_type> const& from, std::span<std::uint64_t const> places, value_type* out) const {
    for (std::uint64_t const p : places)
      out = std::copy_n(from.data() + static_cast<std::size_t>(p) * shape_.width, shape_.width, out);
  }
  void scatter(std::vector<value_type>& to, std::span<std::uint64_t const> places, value_type const* values) const {
    for (std::uint64_t const p : places) {
      std::copy_n(values, shape_.width, to.data() + static_cast<std::size_t>(p) * shape_.width);
      values += shape_.width;
    }
  }

  // ---- every row, a chunk at a time, as long as one is in the cache

  void step_all(Store& store, updates step, call const& c) {
    auto const row_bytes = shape_.width * sizeof(value_type);
    std::uint64_t const chunk = table_state::chunk_bytes(row_bytes) / row_bytes;
    std::vector<detail::listed_rows> lists;
    for (auto const& u : step) lists.emplace_back(u.rows);
    std::vector<value_type*> slots(slots_.size());
    for (std::uint64_t first = 0; first < shape_.rows; first += chunk) {
      std::uint64_t const rows = std::min(chunk, shape_.rows - first);
      std::size_t const at = static_cast<std::size_t>(first) * shape_.width;
      std::size_t const n = static_cast<std::size_t>(rows) * shape_.width;
      w_.resize(n);
      d_.resize(n);
      store.copy(first, rows, w_.data());
      sum(step, lists, first, rows);
      for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = slots_[i].data() + at;
      c.rule->step(c.at, {n, w_.data(), d_.data(), c.copy == nullptr ? nullptr : c.copy->data() + at, slots.data()});
      add(store, {.keyed = false, .first = first, .rows = {}, .values = d_});
    }
  }

  /// d ← Σ weight·u of so many rows, added in the order of the updates: the sum must not depend on which of them list
  /// their rows. @pre updates that do not are of all rows
  void sum(updates step, std::vector<detail::listed_rows>& lists, std::uint64_t first, std::uint64_t rows) {
    std::size_t const at = static_cast<std::size_t>(first) * shape_.width;
    bool begun = false;
    for (std::size_t i = 0; i < step.size(); ++i) {
      auto const& u = step[i];
      if (u.keyed) {
        if (u.rows.empty()) continue;
        if (!begun) std::ranges::fill(d_, value_type{});
        lists[i].for_each_below(first + rows, [&](std::uint64_t row, std::size_t place) {
          detail::add_row(d_.data() + static_cast<std::size_t>(row - first) * shape_.width,
                          u.values.data() + place * shape_.width, shape_.width, u.weight);
        });
      } else if (begun) {
        detail::add_scaled(d_.data(), u.values.data() + at, d_.size(), u.weight);
      } else {
        detail::set_scaled(d_.data(), u.values.data() + at, d_.size(), u.weight);
      }
      begun = true;
    }
    if (!begun) std::ranges::fill(d_, value_type{});
  }

  // ---- the rows that are listed; in a store without bounds, of a merge that is not lazy, all that have slots

  void step_listed(Store& store, updates step, call const& c) {
    if (Store::bounded || c.rule->lazy()) list(step, *c.rule);
    else list_all(step, *c.rule);
    if (listed_.empty()) return;
    std::span<std::uint64_t const> const places = Store::bounded ? listed_ : places_;
    w_.resize(d_.size());
    store.read(listed_, w_.data());
    std::vector<value_type*> slots(slots_.size());
    for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = gathered(slots_[i], places, i);
    value_type* const copy = c.copy == nullptr ? nullptr : gathered(*c.copy, places, slots.size());
    c.rule->step(c.at, {d_.size(), w_.data(), d_.data(), copy, slots.data()});
    for (std::size_t i = 0; i < slots.size(); ++i) scatter(slots_[i], places, slots[i]);
    if (copy != nullptr) scatter(*c.copy, places, copy);
    add(store, {.keyed = true, .first = 0, .rows = listed_, .values = d_});
  }

  value_type* gathered(std::vector<value_type> const& from, std::span<std::uint64_t const> places, std::size_t i) {
    scratch_[i].resize(d_.size());
    gather(from, places, scratch_[i].data());
    return scratch_[i].data();
  }

  /// Sets the rows that have an update, where their slots are, and d. An update names no row twice, two may.
  void list(updates step, element_rule const& rule) {
    listed_.clear();
    places_.clear();
    d_.clear();
    detail::row_map<std::size_t> seen;
    for (auto const& u : step) {
      value_type const* from = u.values.data();
      for (std::uint64_t const row : u.rows) {
        std::size_t at = listed_.size();
        if (step.size() > 1) at = seen.try_emplace(row, at).first->second;
        if (at == listed_.size()) {
          listed_.push_back(row);
          if (!Store::bounded) places_.push_back(place_of(row, rule));
          d_.resize(d_.size() + shape_.width);
          detail::set_scaled(d_.data() + at * shape_.width, from, shape_.width, u.weight);
        } else {
          detail::add_row(d_.data() + at * shape_.width, from, shape_.width, u.weight);
        }
        from += shape_.width;
      }
    }
  }

  void list_all(updates step, element_rule const& rule) {
    for (auto const& u : step)
      for (std::uint64_t const row : u.rows) (void)place_of(row, rule);
    listed_ = rows_;
    places_.resize(rows_.size());
    std::iota(places_.begin(), places_.end(), std::uint64_t{0});
    d_.assign(rows_.size() * shape_.width, value_type{});
    for (auto const& u : step) {
      value_type const* from = u.values.data();
      for (std::uint64_t const row : u.rows) {
        detail::add_row(d_.data() + place_of(row, rule) * shape_.width, from, shape_.width, u.weight);
        from += shape_.width;
      }
    }
  }

  /// Where a touched row's slots are, in a store without bounds.
  std::size_t place_of(std::uint64_t row, element_rule const& rule) {
    auto const [place, fresh] = index_.try_emplace(row, rows_.size());
    if (fresh) {
      rows_.push_back(row);
      extend(rule, rows_.size());
    }
    return place->second;
  }

  static void add(Store& store, row_values<value_type> const& change) {
    weighted_update<value_type> const one{change, 1.0};
    store.fold(std::span<weighted_update<value_type> const>(&one, 1));
  }

  store_shape shape_;
  mutable optional_mutex serial_;
  std::type_info const* kept_by_ = nullptr;      ///< the merge that the rest is of
  std::int64_t number_ = 0;                      ///< of the next step
  std::vector<std::vector<value_type>> slots_;   ///< by slot: of all rows, or of those in `rows_`
  std::vector<std::vector<value_type>> copies_;  ///< by worker: of all rows
  std::vector<std::uint64_t> rows_;              ///< not bounded: those that have been touched
  detail::row_map<std::size_t> index_;           ///< where in `rows_`
  // of one step, kept for their memory
  std::vector<std::uint64_t> listed_, places_;
  std::vector<value_type> w_, d_;
  std::vector<std::vector<value_type>> scratch_;  ///< by slot, then of the copy
};

}  // namespace rubato
