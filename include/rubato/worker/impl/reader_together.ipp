// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Pulls of several tables.
#pragma once

#include <algorithm>

#include "rubato/core/assert.hpp"
#include "rubato/worker/reader.hpp"

namespace rubato::detail {

void reader::pull_together(std::span<pull_wish const> wishes, std::optional<staleness> asked) {
  before_read();
  staleness const s = check_together(wishes, asked);
  if (std::ranges::all_of(wishes, [](pull_wish const& w) { return !w.whole() && w.keys().empty(); })) return;
  if (pulled_.size() < wishes.size()) pulled_.resize(wishes.size());
  bool is_here = look_for(wishes, s);
  if (!is_here && end_prefetch()) is_here = look_for(wishes, s);  // copies may have been renewed
  if (is_here) enter(s);
  else fetch_together(wishes, s);
  time_point const before = link_.now();
  for (std::size_t i = 0; i < wishes.size(); ++i) take(wishes[i], pulled_[i]);
  for (std::size_t i = 0; i < wishes.size(); ++i) acknowledge(pulled_[i]);
  metrics_.send += link_.now() - before;
  // Only now, since it may ask for copies, whose answers come where these have been.
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    if (!wishes[i].whole() && wishes[i].keys().empty()) continue;
    if (renews_) note_read(wishes[i].table(), wishes[i].keys(), pulled_[i].oldest);
    count_read(pulled_[i].oldest);
  }
}

/// All or nothing. @throws usage_error
staleness reader::check_together(std::span<pull_wish const> wishes, std::optional<staleness> asked) {
  wished_.assign(replicas_.size(), false);
  for (pull_wish const& w : wishes) {
    check_.named_once("pull_together", w.table(), w.table() < wished_.size() && wished_[w.table()]);
    wished_[w.table()] = true;
    check_.kind("pull", w.table(), w.element(), w.whole());
    if (w.whole()) check_.whole("pull", w.table(), w.elements());
    else check_.rows("pull", w.table(), w.keys().size(), w.elements());
    check_.keys("pull", w.table(), w.keys());
  }
  return check_.allowed(wishes.empty() ? 0 : wishes.front().table(), asked, bound());
}

/// Reads rows that are here, and notes what is to be asked for. Whether that is nothing.
bool reader::look_for(std::span<pull_wish const> wishes, staleness s) {
  rows_found all;
  for (std::size_t i = 0; i < wishes.size(); ++i) look_for(wishes[i], pulled_[i], s, all);
  auto const mine = std::span<share const>(pulled_).first(wishes.size());
  bool const is_here = std::ranges::all_of(mine, [](share const& p) { return p.asked == selection::nothing; });
  if (!synchronized_ || (is_here && !all.mixed)) return is_here;
  for (std::size_t i = 0; i < wishes.size(); ++i) miss(wishes[i], pulled_[i]);  // PS-1: all of one cut
  return wishes.empty();
}

void reader::look_for(pull_wish const& w, share& p, staleness s, rows_found& all) {
  replica& r = replica_of(w.table());
  freshness const& fresh = usable(s);
  p.table = w.table();
  p.asked = selection::nothing;
  p.oldest = clock_index::highest();
  p.scattered = false;
  p.rows.clear();
  if (w.whole()) {
    if (!r.base_readable(fresh)) return miss(w, p);
    p.oldest = r.base_clock();
    return r.note_base(all);
  }
  rows_found const found = r.read_rows(w.keys(), fresh, r.base_readable(fresh), w.out(), p.rows);
  p.oldest = found.oldest;
  all.mixed = all.mixed || found.mixed || (found.fetch != 0 && all.fetch != 0 && found.fetch != all.fetch);
  if (all.fetch == 0) all.fetch = found.fetch;
  if (p.rows.empty()) return;
  if (renews_) return miss(w, p);  // where copies are renewed, one question does
  p.asked = selection::rows;
}

/// All of it is to be asked for.
void reader::miss(pull_wish const& w, share& p) {
  p.rows.clear();
  p.oldest = clock_index::highest();
  p.asked = w.whole() ? selection::all : w.keys().empty() ? selection::nothing : selection::rows;
  if (w.whole() || synchronized_) replica_of(w.table()).drop_base();  // PS-1: a copy would be of an older cut than rows
  if (!w.whole()) p.rows.add_all(w.keys());
}

/// Sends the requests of all tables, then waits for the answers. Rows are looked for before anything is sent: that may
/// fail in a partition of the user's, and what has been asked for is not to be waited for then.
void reader::fetch_together(std::span<pull_wish const> wishes, staleness s) {
  RUBATO_ASSERT(ahead_ == ahead::nothing);
  struct ending {
    reader& of;
    std::size_t n;
    ~ending() {
      for (std::size_t i = 0; i < n; ++i)
        if (of.pulled_[i].scattered) of.replica_of(of.pulled_[i].table).end_scatter();
    }
  } const at_exit{*this, wishes.size()};
  for (std::size_t i = 0; i < wishes.size(); ++i)
    if (pulled_[i].asked != selection::nothing) address(wishes[i], pulled_[i]);
  auto const mine = std::span<share const>(pulled_).first(wishes.size());
  duration const send_before = metrics_.send;
  if (synchronized_) fetch_cut(s, true);
  time_point const before = link_.now();
  for (share const& p : mine) {
    if (p.asked == selection::nothing) continue;
    request(p.table, p.from, s);
    if (renews_) use_[p.table].asked = clock_;
  }
  collect(mine, before, send_before);
  for (share const& p : mine)
    if (p.asked != selection::nothing) ++metrics_.fetches;
  note_let_in(s);
}

/// Writes what is to be asked for into the slots of the servers, which are then in `p.from`.
void reader::address(pull_wish const& w, share& p) {
  replica& r = replica_of(p.table);
  if (p.asked == selection::rows) {
    address_rows(p.table, p.rows);
  } else {
    p.scattered = !renews_ && link_.scatters() && r.may_scatter() && r.prefers_no_base();
    if (p.scattered) r.scatter(w.out());
    address_all(p.table);
  }
  p.from.assign(asked_.begin(), asked_.end());
}

/// The answers are there: what the body wants of them goes to where it wants it.
void reader::take(pull_wish const& w, share& p) {
  replica& r = replica_of(p.table);
  if (p.asked == selection::rows) {
    p.oldest = std::min(p.oldest, r.accept_rows(p.rows, mark_, w.out()));
  } else if (p.scattered) {
    r.accept_scattered(mark_, w.out());
    p.oldest = r.base_clock();
  } else if (w.whole()) {
    if (p.asked == selection::all) r.accept_base(mark_);
    p.oldest = r.base_clock();
    r.read_whole(w.out());
  }
}

}  // namespace rubato::detail
