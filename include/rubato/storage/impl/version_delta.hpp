// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/storage/overlay.hpp"
#include "rubato/storage/version_delta.hpp"

namespace rubato {

template <parameter T, class Row>
std::size_t version_delta<T, Row>::held_rows(row_values<T> const& u) const noexcept {
  if (u.keyed) return u.rows.size();
  constexpr std::size_t block = 4096;  // ends early, and still counts in vectors
  std::size_t const n = u.values.size() / width_;
  std::size_t held = 0;
  for (std::size_t i = 0; i < n && !dense_from(held); i += block)
    held += nonzero_rows(u.values.data() + i * width_, std::min(block, n - i));
  return held;
}

template <parameter T, class Row>
auto version_delta<T, Row>::places_of(row_values<T> const& u, std::size_t held) const -> place_list {
  place_list places;
  places.reserve(held);
  std::size_t const n = u.values.size() / width_;
  for (std::size_t i = 0; i < n; ++i)
    if (u.keyed || !is_zero(u.values.data() + i * width_))
      places.push_back(
          {static_cast<Row>(u.keyed ? u.rows[i] : i), static_cast<Row>(i), nowhere_row});
  sort(places.begin(), places.end());
  RUBATO_ASSERT(std::ranges::adjacent_find(places, {}, &place::row) == places.end());
  std::size_t from = 0;
  for (place& p : places) p.slot = static_cast<Row>(find(p.row, from));
  return places;
}

template <parameter T, class Row>
void version_delta<T, Row>::merge(place_list& places, std::size_t fresh, row_values<T> const& u, double weight) {
  std::vector<Row> run;
  std::vector<T> values;
  run.reserve(stored() + fresh);
  values.reserve((stored() + fresh) * width_);
  places.reserve(places.size() + recent_.size());
  // nothing fails from here on
  for (place const& p : places)
    if (p.slot != nowhere) add_row(at(p.slot), p, u, weight);
  keep_joining(places);
  std::size_t done = 0;
  auto const copy_until = [&](std::size_t end) {
    run.insert(run.end(), run_.data() + done, run_.data() + end);
    values.insert(values.end(), at_run(done), at_run(end));
    done = end;
  };
  for (place const& p : places) {
    copy_until(lower_bound(p.row, done));
    run.push_back(p.row);
    values.resize(values.size() + width_);
    T* const to = values.data() + values.size() - width_;
    if (p.slot == nowhere) add_row(to, p, u, weight);
    else std::copy_n(at(p.slot), width_, to);
  }
  copy_until(run_.size());
  clear_sparse();
  run_ = std::move(run);
  run_values_ = std::move(values);
}

template <parameter T, class Row>
void version_delta<T, Row>::keep_joining(place_list& places) const {
  auto const is_present = [](place const& p) { return p.slot != nowhere; };
  places.erase(std::remove_if(places.begin(), places.end(), is_present), places.end());
  auto const fresh = static_cast<std::ptrdiff_t>(places.size());
  for (auto const& [row, slot] : recent_)
    places.push_back({row, nowhere_row, static_cast<Row>(run_.size() + slot)});
  auto const middle = places.begin() + fresh;
  sort(middle, places.end());
  std::ranges::inplace_merge(places, middle, {}, &place::row);
}

template <parameter T, class Row>
void version_delta<T, Row>::become_dense(row_values<T> const& u, double weight) {
  table_state all;
  all.receive(static_cast<std::size_t>(rows_) * row_bytes(), row_bytes(),
              [&](std::byte* bytes, std::size_t n, std::size_t offset) {
                auto* const out = reinterpret_cast<T*>(bytes);
                if (u.keyed) return void(std::fill_n(out, n / sizeof(T), T{}));
                auto const from = u.values.subspan(offset / sizeof(T), n / sizeof(T));
                std::ranges::transform(from, out,
                                       [w = static_cast<T>(weight)](T x) { return w * x; });
              });
  if (u.keyed) detail::add_update(all, u, weight, width_);
  for_each_row([&](std::uint64_t row, T const* from) {
    detail::add_row_to(all, row, from, width_, 1.0);
  });
  clear_sparse();
  dense_ = std::move(all);
}

}  // namespace rubato
