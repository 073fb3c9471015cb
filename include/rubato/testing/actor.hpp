// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "rubato/core/mix.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/table.hpp"
#include "rubato/storage/sparse_snapshot.hpp"
#include "rubato/testing/observer.hpp"
#include "rubato/testing/schedule.hpp"

namespace rubato::testing::detail {

inline void mix_in(std::uint64_t& hash, std::uint64_t word) {
  hash = rubato::detail::mix64(hash ^ word) + 0x9e3779b97f4a7c15u;
}

inline constexpr std::size_t table_rows = 16;
inline constexpr std::size_t weight_rows = 24;

/// The sparse table's key of a counting row; any 64-bit number would do.
[[nodiscard]] constexpr std::uint64_t sparse_key(std::uint64_t row) noexcept {
  return row < 7 ? row : row * 0x1'0000'0001u;
}

/// The training body of an observed run: pushes and reads at random, and tells the observer.
template <class Worker>
class actor {
 public:
  actor(Worker& w, observer& o, schedule const& s, staleness bound)
      : worker_(w),
        observer_(o),
        schedule_(s),
        manner_(s.manners[w.rank()]),
        bound_(bound),
        columns_(s.workers_ever()),
        all_rows_(table_rows) {
    std::iota(all_rows_.begin(), all_rows_.end(), std::uint64_t{0});
  }

  /// Returns a hash of all reads of the weights.
  std::uint64_t run() {
    presence here(observer_, worker_.rank(), worker_.clock());
    std::int64_t const end = worker_.clock().value() + manner_.clocks;
    while (worker_.clock().value() < end) {
      if (schedule_.commits_by_hand)
        clock_by_hand();
      else
        clock_by_pace();
    }
    here.leave();
    return hash_;
  }

 private:
  [[nodiscard]] random_stream& random() { return worker_.random(); }
  [[nodiscard]] bool uses(way w) const {
    return (manner_.tables >> static_cast<unsigned>(w)) % 2 != 0;
  }

  void clock_by_hand() {
    for (std::uint64_t n = random().below(manner_.steps + 1); n != 0; --n) {
      act();
      worker_.step(random().uniform() * 2);
    }
    act();
    commit([this] {
      worker_.commit();
      return true;
    });
  }

  /// A pace may go by the time, which does not pass where work costs nothing.
  void clock_by_pace() {
    constexpr int patience = 40;
    for (int steps = 0; steps < patience; ++steps) {
      act();
      double const work = random().uniform() * 2;
      if (commit([&] { return worker_.step(work); })) return;
    }
    commit([this] {
      worker_.commit();
      return true;
    });
  }

  template <class F>
  bool commit(F f) {
    observer_.asking(worker_.rank(), bound_);
    observer_.committing(worker_.rank());
    bool const did = f();
    if (did)
      observer_.committed(worker_.rank(), worker_.clock());
    else
      observer_.not_committed(worker_.rank());
    pushed_weights_ = pushed_weights_ && !did;
    return did;
  }

  void act() {
    reads();
    if (manner_.marks) push_dense_whole();
    if (random().chance(manner_.pushing))
      for (std::uint64_t n = 1 + random().below(3); n != 0; --n) push();
    reads();
  }

  void reads() {
    if (!random().chance(manner_.reading)) return;
    for (std::uint64_t n = 1 + random().below(2); n != 0; --n) read();
  }

  // ---- pushes

  void push() {
    auto const w = static_cast<way>(random().below(5));
    if (!uses(w)) return;
    switch (w) {
      case way::dense_whole:
        return push_dense_whole();
      case way::dense_keyed:
        return push_rows<0>();
      case way::sparse_whole:
        return push_rows<1>(true);
      case way::sparse_keyed:
        return push_rows<1>();
      case way::weights:
        return push_weights();
    }
  }

  void tell(std::size_t table, std::uint64_t row, std::int64_t amount) {
    observer_.pushing(worker_.rank(), table, static_cast<std::size_t>(row), amount);
  }

  void push_dense_whole() {
    observer_.asking(worker_.rank(), bound_);
    std::vector<std::int64_t> delta(table_rows * columns_);
    for (std::uint64_t row = 0; row < table_rows; ++row) {
      delta[static_cast<std::size_t>(row) * columns_ + worker_.rank()] = 1;
      tell(0, row, 1);
    }
    worker_.push(delta);
  }

  /// Some rows, one of them twice now and then; or all.
  [[nodiscard]] std::vector<std::uint64_t> some_rows(bool all) {
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; row < table_rows; ++row)
      if (all || random().chance(0.3)) rows.push_back(row);
    if (!all && random().chance(0.3)) rows.push_back(random().below(table_rows));
    random().shuffle(std::span(rows));
    return rows;
  }

  template <std::size_t I>
  [[nodiscard]] static std::vector<std::uint64_t> keys_of(std::vector<std::uint64_t> rows) {
    if constexpr (I == 1)
      for (auto& row : rows) row = sparse_key(row);
    return rows;
  }

  template <std::size_t I>
  void push_rows(bool all = false) {
    observer_.asking(worker_.rank(), bound_);
    auto const rows = some_rows(all);
    std::vector<std::int64_t> delta(rows.size() * columns_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const amount = static_cast<std::int64_t>(1 + random().below(3));
      delta[i * columns_ + worker_.rank()] = amount;
      tell(I, rows[i], amount);
    }
    worker_[table<I>].push(keys_of<I>(rows), delta);
  }

  void push_weights() {
    observer_.asking(worker_.rank(), bound_);
    pushed_weights_ = true;
    bool const whole = random().chance(0.6);
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; row < weight_rows; ++row)
      if (whole || random().chance(0.3)) rows.push_back(row);
    std::vector<float> delta(rows.size());
    for (float& x : delta) x = static_cast<float>(random().uniform() - 0.5);
    if (whole)
      worker_[table<2>].push(delta);
    else
      worker_[table<2>].push(rows, delta);
  }

  // ---- reads

  void read() {
    auto const w = static_cast<way>(random().below(5));
    if (!uses(w)) return;
    staleness const s =
        random().chance(manner_.own_staleness)
            ? std::min(bound_, staleness(static_cast<std::int64_t>(random().below(5))))
            : bound_;
    observer_.asking(worker_.rank(), w == way::sparse_whole ? bound_ : s);
    switch (w) {
      case way::dense_whole:
        return read_dense_whole(s);
      case way::dense_keyed:
        return read_rows<0>(s);
      case way::sparse_whole:
        return read_sparse_whole();
      case way::sparse_keyed:
        return read_rows<1>(s);
      case way::weights:
        return read_weights(s);
    }
  }

  void read_dense_whole(staleness s) {
    std::vector<std::int64_t> out(table_rows * columns_);
    worker_.pull(out, s);
    observer_.read(worker_.rank(), s, 0, observer::kind::whole, all_rows_, out);
  }

  void read_sparse_whole() {
    sparse_snapshot<std::int64_t> got;
    worker_[table<1>].pull(got);
    std::vector<std::int64_t> out(table_rows * columns_);
    for (std::uint64_t row = 0; row < table_rows; ++row) {
      auto const at = std::ranges::lower_bound(got.keys, sparse_key(row));
      if (at == got.keys.end() || *at != sparse_key(row)) continue;
      std::copy_n(
          got.values.begin() + (at - got.keys.begin()) * static_cast<std::ptrdiff_t>(columns_),
          columns_, out.begin() + static_cast<std::ptrdiff_t>(row * columns_));
    }
    observer_.read(worker_.rank(), bound_, 1, observer::kind::whole, all_rows_, out);
  }

  template <std::size_t I>
  void read_rows(staleness s) {
    auto const rows = some_rows(false);
    std::vector<std::int64_t> out(rows.size() * columns_);
    worker_[table<I>].pull(keys_of<I>(rows), out, s);
    observer_.read(worker_.rank(), s, I, observer::kind::keyed, rows, out);
  }

  void read_weights(staleness s) {
    std::vector<float> out(weight_rows);
    worker_[table<2>].pull(out, s);
    for (float const x : out) mix_in(hash_, std::bit_cast<std::uint32_t>(x));
    if (!pushed_weights_)
      observer_.read_before_pushes(worker_.rank(), 2, std::as_bytes(std::span(out)));
  }

  Worker& worker_;
  observer& observer_;
  schedule const& schedule_;
  manner const& manner_;
  staleness bound_;
  std::size_t columns_;
  std::vector<std::uint64_t> all_rows_;
  bool pushed_weights_ = false;
  std::uint64_t hash_ = 0;
};

}  // namespace rubato::testing::detail
