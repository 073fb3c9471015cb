// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/partition/locator.hpp"
#include "rubato/protocol/filter_rule.hpp"
#include "rubato/storage/shared_update.hpp"

namespace rubato::detail {

/// A commit filter at work on one worker's updates of one table, and what it needs beside them: what the worker has
/// read, and the filter's slots. Not synchronized.
template <parameter T>
class filtering {
 public:
  /// `may_pad`: rows that do not go may be sent as zeros, where that is less work.
  filtering(locator const& where, std::size_t width, filter_rule filter, worker_id self, update_pool pool,
            bool may_pad = true)
      : where_(where),
        width_(width),
        filter_(std::move(filter)),
        point_{{}, self},
        pool_(std::move(pool)),
        may_pad_(may_pad && !filter_.by_row()) {}

  /// Whether every row is asked about in each commit, pushed or not.
  [[nodiscard]] bool asks_all() const noexcept { return filter_.slots() != 0; }
  [[nodiscard]] bool measures() const noexcept { return filter_.sums() != 0; }

  // ---- what the worker has read

  void saw_whole(T const* values) {
    if (filter_.by_element()) seen_.assign(values, values + elements());
  }
  void saw_rows(std::span<std::uint64_t const> keys, T const* values) {
    if (!filter_.by_element()) return;
    know_nothing();
    for (std::uint64_t const k : keys) {
      std::copy_n(values, width_, seen_.data() + static_cast<std::size_t>(k) * width_);
      values += width_;
    }
  }

  // ---- a commit: begins, is measured, is decided on, and is split, server by server

  /// @param last no commit comes after it, so it carries nothing
  void begin(clock_index clock, bool last) {
    point_.clock = clock;
    point_.last = last;
    if (!filter_.by_element()) return;
    know_nothing();
    sums_.assign(filter_.sums(), 0.0);
    slots_.resize(filter_.slots() * elements());
    slot_at_.resize(filter_.slots());
  }

  /// One server's part. @pre `measures()`
  void measure(std::uint32_t server, update& part) {
    ask_rows(server, part);
    if constexpr (std::is_floating_point_v<T>)
      for_each_run(server, part, nullptr,
                   [this](filter_run<T> const& run) { filter_.measure(point_, run, std::span(sums_)); });
  }
  void decide() {
    if (measures()) filter_.decide(point_, sums_);
  }

  /// @param all whole or keyed, not empty
  [[nodiscard]] divided_update split(std::uint32_t server, update_buffer all) {
    if (!filter_.by_element() && point_.last) return {std::move(all), {}};
    ask_rows(server, *all);
    if (!filter_.by_element()) return split_rows(*all);
    update_buffer sent = pool_.take();
    sent->whole = all->whole;
    sent->rows = all->rows;
    if (filter_.by_row()) sent->values.assign_zeros(all->values.size_bytes());
    else sent->values.resize_bytes(all->values.size_bytes());
    T *const out = sent->values.template as<T>().data(), *const left = all->values.template as<T>().data();
    std::size_t const count = all->values.template as<T>().size();
    if constexpr (std::is_floating_point_v<T>)
      for_each_run(server, *all, out, [this](filter_run<T> const& run) { filter_.send(point_, run); });
    if (point_.last)
      for (std::size_t i = 0; i < count; ++i) out[i] += std::exchange(left[i], T{});
    auto const not_zero = [&](T const* from) {
      return [this, from](std::size_t row) {
        return std::any_of(from + row * width_, from + (row + 1) * width_, [](T x) { return x != T{}; });
      };
    };
    return {pick(*sent, not_zero(out)), pick(*all, not_zero(left))};
  }

 private:
  [[nodiscard]] std::size_t elements() const noexcept {
    return static_cast<std::size_t>(where_.rows().rows()) * width_;
  }
  void know_nothing() {
    if (seen_.empty()) seen_.assign(elements(), std::numeric_limits<T>::quiet_NaN());
  }

  /// Which rows of an update go.
  void ask_rows(std::uint32_t server, update const& u) {
    if (!filter_.by_row()) return;
    keys_.clear();
    if (u.whole)
      for (std::size_t const i : where_.rows().runs_of(server_id{server})) {
        layout::run const& r = where_.rows().runs()[i];
        for (std::uint64_t k = 0; k < r.rows; ++k) keys_.push_back(key{r.first + k});
      }
    else
      for (std::uint64_t const row : u.rows)
        keys_.push_back(where_.bounded() ? where_.rows().key_of(server_id{server}, row) : key{row});
    taken_.assign(keys_.size(), 1);
    if (!point_.last) filter_.takes(point_, keys_, taken_.data());
  }

  /// Calls `f(first, rows)` for stretches of rows that go, among those of an update from `begin` on.
  template <class F>
  void for_each_stretch(std::size_t begin, std::size_t rows, F f) const {
    if (!filter_.by_row()) return f(begin, rows);
    auto const end = taken_.begin() + static_cast<std::ptrdiff_t>(begin + rows);
    for (auto at = taken_.begin() + static_cast<std::ptrdiff_t>(begin); at != end;) {
      auto const first = std::find(at, end, std::uint8_t{1});
      at = std::find(first, end, std::uint8_t{0});
      if (first != at) f(static_cast<std::size_t>(first - taken_.begin()), static_cast<std::size_t>(at - first));
    }
  }

  /// Calls `f` for the elements of the rows that go, in stretches that lie side by side both in the update and in the
  /// table; what a keyed one needs of the table is put side by side first. @pre a keyed one needs no slots
  template <class F>
  void for_each_run(std::uint32_t server, update& u, T* sent, F f) {
    T* const values = u.values.template as<T>().data();
    auto const run = [&](std::size_t first, std::size_t rows, T const* w) {
      std::size_t const at = first * width_;
      f(filter_run<T>{rows * width_, w, values + at, sent == nullptr ? nullptr : sent + at, slot_at_.data()});
    };
    if (!u.whole) {
      gather_seen(server, u);
      return for_each_stretch(0, u.rows.size(), [&](std::size_t first, std::size_t rows) {
        run(first, rows, beside_.data() + first * width_);
      });
    }
    for (std::size_t const i : where_.rows().runs_of(server_id{server})) {
      layout::run const& r = where_.rows().runs()[i];
      for_each_stretch(r.local_first, r.rows, [&](std::size_t first, std::size_t rows) {
        std::size_t const at = (r.first + first - r.local_first) * width_;
        for (std::size_t s = 0; s < slot_at_.size(); ++s) slot_at_[s] = slots_.data() + s * elements() + at;
        run(first, rows, seen_.data() + at);
      });
    }
  }

  void gather_seen(std::uint32_t server, update const& u) {
    beside_.clear();
    for (std::uint64_t const row : u.rows) {
      T const* const from = seen_.data() + where_.rows().key_of(server_id{server}, row).index() * width_;
      beside_.insert(beside_.end(), from, from + width_);
    }
  }

  [[nodiscard]] divided_update split_rows(update const& all) const {
    return {pick(all, [this](std::size_t row) { return taken_[row] != 0; }),
            pick(all, [this](std::size_t row) { return taken_[row] == 0; })};
  }

  /// Those rows of an update that are `wanted`, by their places in it: whole where that is no longer,
  /// with zeros for the others.
  template <class Wanted>
  [[nodiscard]] update_buffer pick(update const& from, Wanted wanted) const {
    std::size_t const rows = from.values.size_bytes() / (width_ * sizeof(T));
    std::size_t count = 0;
    for (std::size_t row = 0; row < rows; ++row) count += wanted(row) ? 1 : 0;
    if (count == 0) return {};
    std::size_t const row_bytes = width_ * sizeof(T);
    update_buffer to = pool_.take();
    // To a merge that leaves rows without updates alone, zeros of a row that does not go would be one.
    bool const pads = may_pad_ && count * (sizeof(std::uint64_t) + row_bytes) >= rows * row_bytes;
    to->whole = from.whole && (count == rows || pads);
    if (to->whole) to->values.assign_zeros(rows * row_bytes);
    else to->values.resize_bytes(count * row_bytes);
    for (std::size_t row = 0, next = 0; row < rows; ++row) {
      if (!wanted(row)) continue;
      std::copy_n(from.values.data() + row * row_bytes, row_bytes,
                  to->values.data() + (to->whole ? row : next) * row_bytes);
      if (!to->whole) to->rows.push_back(from.whole ? row : from.rows[row]);
      ++next;
    }
    return to;
  }

  locator const& where_;
  std::size_t width_;
  filter_rule filter_;
  filter_point point_;
  update_pool pool_;
  bool may_pad_;
  std::vector<T> seen_;    ///< of a bounded table, by key: what the worker has read last
  std::vector<T> slots_;   ///< one slot of all elements after the other
  std::vector<double> sums_;
  // of the part that is being looked at
  std::vector<std::uint8_t> taken_;  ///< by place in the update: whether the row goes
  std::vector<key> keys_;
  std::vector<T> beside_;
  std::vector<T*> slot_at_;
};

}  // namespace rubato::detail
