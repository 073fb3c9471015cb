// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "rubato/core/rare.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/worker/cached_part.hpp"
#include "rubato/worker/process_cache.hpp"

namespace rubato::detail {

// ---- the cache

process_cache::process_cache(blueprint const& plan, server_fetcher& servers)
    : plan_(plan), fetcher_(servers), servers_(plan.servers()) {
  for (std::size_t table = 0; table < plan.tables().size(); ++table)
    for (std::uint32_t s = 0; s < plan.servers(); ++s)
      parts_.push_back(std::make_unique<cached_part>(*this, table, server_id{s}));
}

process_cache::~process_cache() { fetcher_.withdraw_all(); }

void process_cache::begin_stage(std::size_t protocol) {
  fetcher_.withdraw_all();
  std::lock_guard const guard(lock_);
  protocol_ = protocol;
  for (server_state& s : servers_) s = {};
  inquiries_.clear();
  readers_.clear();
  for (auto& one : parts_) one->clear();
}

std::size_t process_cache::enlist(inquiry& asked, worker_id w, clock_index at) {
  std::lock_guard const guard(lock_);
  for (server_state& s : servers_) s.readers.push_back({at, at, at});
  inquiries_.push_back(&asked);
  readers_.push_back(w);
  return inquiries_.size() - 1;
}

void process_cache::posting(std::size_t reader, server_id s, clock_index next) {
  std::lock_guard const guard(lock_);
  servers_[s.index()].readers[reader].may_have_left = next;
}

void process_cache::posted(std::size_t reader, server_id s, clock_index next) {
  std::lock_guard const guard(lock_);
  servers_[s.index()].readers[reader].has_left = next;
}

void process_cache::request(std::size_t reader, server_id s, std::size_t table, read_header const& read,
                            read_slot& slot) {
  cached_part& p = part(table, s);
  std::unique_lock guard(lock_);
  inquiries_[reader]->missing.fetch_add(1, std::memory_order_relaxed);
  try {
    p.request(guard, reader, read, slot);
  } catch (...) {  // of the same read nothing is under way any more: its slots are for the next one
    for (auto& one : parts_) one->forget(reader);
    inquiries_[reader]->forget();
    throw;
  }
}

void process_cache::forget(std::size_t reader) {
  std::lock_guard const guard(lock_);
  for (auto& one : parts_) one->forget(reader);
}

// ---- one table on one server

struct cached_part::fetch final : server_fetch {
  fetch(cached_part& p, pending const& by, clock_index n, std::vector<clock_index> left)
      : of(p),
        asker(by.reader),
        need(n),
        seen(std::make_shared<shared_state>(std::move(left), p.now_, by.slot->asked == selection::all,
                                            p.is_live(by.slot->asked))) {
    server = p.server_;
    table = p.table_;
    read = by.read;
    slot.asked = by.slot->asked;
  }
  void done(refusal why) override { of.answered(*this, why); }
  void failed(std::exception_ptr const& why) override { of.failed(*this, why); }

  /// Where a row is among those asked for, or nothing. O(1), after the first call.
  [[nodiscard]] std::optional<std::size_t> place_of(std::uint64_t row) {
    if (places.empty())
      for (std::size_t i = 0; i < slot.rows.size(); ++i) places.emplace(slot.rows[i], i);
    auto const at = places.find(row);
    return at == places.end() ? std::nullopt : std::optional(at->second);
  }

  cached_part& of;
  std::size_t asker;
  clock_index need;
  std::shared_ptr<shared_state> seen;
  std::vector<waiter> waiting;
  row_map<std::size_t> places{};  ///< of rows, once somebody has looked
};

cached_part::cached_part(process_cache& cache, std::size_t table, server_id s)
    : cache_(cache),
      table_(table),
      server_(s),
      row_bytes_(cache.plan_.table(table).row_bytes()),
      rows_(row_bytes_, capacity()) {}

void cached_part::clear() {
  under_way_.clear();
  whole_.reset();
  whole_seen_.reset();
  rows_.clear();
  floors_.clear();
}

void cached_part::forget(std::size_t reader) {
  for (auto& f : under_way_)
    std::erase_if(f->waiting, [&](auto const& w) { return w.by->reader == reader; });
}

void cached_part::request(std::unique_lock<std::mutex>& guard, std::size_t reader,
                          read_header const& read, read_slot& slot) {
  auto const by = std::make_shared<pending>(pending{reader, read, &slot, 1});
  slot.shared = slot.by_process = true;
  slot.fetched = {};
  wishes open;
  switch (slot.asked) {
    case selection::nothing:
      // Now and then it is told which of its commits are in, or it would keep them all.
      if (need(read) > state().known || distance(known_in(reader), read.clock) > behind_max / 2) break;
      slot.stamp = {.server_clock = state().known, .included = known_in(reader)};
      return finish(*by);
    case selection::all:
      if (whole_seen_ && fill_whole(*by, *whole_seen_, *whole_)) return finish(*by);
      if (join_whole(by)) return;
      break;
    case selection::rows:
      slot.values.resize_bytes(slot.rows.size() * row_bytes_);
      slot.row_stamps.assign(slot.rows.size(), {});
      open = fill_rows(*by);
      join_rows(by, open);
      if (open.empty() && by->answers_missing == 1) return finish(*by);
      if (open.empty()) {
        --by->answers_missing;
        return;
      }
      break;
  }
  fetch& f = begin_fetch(by, std::move(open));
  guard.unlock();
  try {
    cache_.fetcher_.ask(f);
  } catch (...) {
    guard.lock();
    abandon(f, std::current_exception());
    throw;
  }
}

/// Whether such an answer is read off the store while it is sent; at least where it is.
bool cached_part::is_live(selection asked) const noexcept {
  return asked == selection::all && cache_.plan_.table(table_).bounded() &&
         !cache_.plan_.protocol(cache_.protocol_).visibility.holds_back();
}

/// Of what the process may keep, this server's share.
std::size_t cached_part::capacity() const {
  std::uint64_t const servers = cache_.plan_.servers();
  std::uint64_t const all = cache_.plan_.table(table_).description().cached_rows;
  return static_cast<std::size_t>((all + servers - 1) / servers);
}

shared_state::floor& cached_part::floor_of(std::size_t reader) {
  if (reader >= floors_.size()) floors_.resize(reader + 1);
  return floors_[reader];
}

std::optional<read_stamp> cached_part::usable(pending const& by, shared_state const& seen,
                                              clock_index least) {
  if (seen.stamp().server_clock < least || seen.is_older_than(floor_of(by.reader))) return std::nullopt;
  auto const stamp = seen.for_reader(by.reader);
  return stamp && stamp->included >= known_in(by.reader) ? stamp : std::nullopt;
}

// ---- from what is here

std::optional<read_stamp> cached_part::cached(pending const& by, shared_state const& seen) {
  if (by.read.renews && !seen.is_news(floor_of(by.reader))) return std::nullopt;
  auto const stamp = usable(by, seen, cache_need(by.read));
  return stamp && distance(stamp->included, by.read.clock) <= behind_max ? stamp : std::nullopt;
}

bool cached_part::fill_whole(pending& by, shared_state const& seen, table_state const& from) {
  auto const stamp = cached(by, seen);
  if (!stamp) return false;
  seen.raise(floor_of(by.reader));
  by.slot->state = from.share();
  by.slot->stamp = *stamp;
  return true;
}

/// Fills the rows that are here, and returns the others.
cached_part::wishes cached_part::fill_rows(pending& by) {
  wishes open;
  for (std::size_t i = 0; i < by.slot->rows.size(); ++i) {
    auto const* const e = rows_.use(by.slot->rows[i]);
    auto const stamp = e == nullptr ? std::nullopt : cached(by, *e->mark.seen);
    if (stamp) {
      e->mark.seen->raise(floor_of(by.reader));
      put_row(by, i, *stamp, rows_.values(*e));
    } else {
      open.push_back({i, 0});
    }
  }
  return open;
}

void cached_part::put_row(pending& by, std::size_t index, read_stamp const& stamp, std::byte const* from) {
  std::memcpy(by.slot->values.data() + index * row_bytes_, from, row_bytes_);
  by.slot->row_stamps[index] = stamp;
}

// ---- requests under way

/// Whether this request's answer will do for the reader, and come no later than its own would.
bool cached_part::joinable(pending const& by, fetch const& f) {
  clock_index const mine = need(by.read);
  clock_index const known = state().known;
  if (f.need != mine && (f.need > known || mine > known)) return false;
  if (!f.seen->knows(by.reader) || f.seen->will_be_older_than(floor_of(by.reader))) return false;
  // A server that is at the reader's clock has all of its commits.
  return mine >= by.read.clock || f.seen->left_before(by.reader) == by.read.clock;
}

bool cached_part::join_whole(std::shared_ptr<pending> const& by) {
  for (auto& f : under_way_)
    if (f->slot.asked == selection::all && joinable(*by, *f)) {
      if (by->read.renews) RUBATO_RARE("a copy is renewed by what another thread has asked for");
      f->waiting.push_back({by, {}});
      return true;
    }
  return false;
}

/// Joins requests for rows that are open, and takes those off the list.
void cached_part::join_rows(std::shared_ptr<pending> const& by, wishes& open) {
  for (auto& f : under_way_) {
    if (open.empty()) return;
    if (f->slot.asked != selection::rows || !joinable(*by, *f)) continue;
    waiter w{by, {}};
    std::erase_if(open, [&](wish const& one) {
      auto const at = f->place_of(by->slot->rows[one.index]);
      if (at) w.rows.push_back({one.index, *at});
      return at.has_value();
    });
    if (w.rows.empty()) continue;
    if (by->read.renews) RUBATO_RARE("a row is renewed by what another thread has asked for");
    ++by->answers_missing;
    f->waiting.push_back(std::move(w));
  }
}

/// A request of the cache's own, on behalf of this reader.
cached_part::fetch& cached_part::begin_fetch(std::shared_ptr<pending> const& by, wishes open) {
  by->slot->by_process = false;
  auto made = std::make_unique<fetch>(*this, *by, need(by->read), left());
  fetch& f = *made;
  for (wish& one : open) {
    one.at = f.slot.rows.size();
    f.slot.rows.push_back(by->slot->rows[one.index]);
  }
  by->slot->fetched.sent += f.slot.request_bytes();
  f.waiting.push_back({by, std::move(open)});
  under_way_.push_back(std::move(made));  // last: all before may throw
  return f;
}

std::unique_ptr<cached_part::fetch> cached_part::take(fetch& f) {
  auto const at = std::ranges::find_if(under_way_, [&](auto const& u) { return u.get() == &f; });
  std::unique_ptr<fetch> taken = std::move(*at);
  under_way_.erase(at);
  return taken;
}

/// It could not be asked. Others may have joined since it was listed: they hear why. (They look when
/// the asker's thread withdraws, which takes the turn.)
void cached_part::abandon(fetch& f, std::exception_ptr const& why) {
  std::unique_ptr<fetch> const self = take(f);
  for (waiter& w : self->waiting) {
    if (w.by->reader != f.asker) fail(w, why);
  }
}

void cached_part::fail(waiter& w, std::exception_ptr const& why) {
  cache_.inquiries_[w.by->reader]->failure = why;
  if (--w.by->answers_missing == 0) finish(*w.by);
}

std::vector<clock_index> cached_part::left() {
  std::vector<clock_index> all;
  for (auto const& r : state().readers) all.push_back(r.has_left);
  return all;
}

std::vector<clock_index> cached_part::left_by_now() {
  std::vector<clock_index> all;
  for (auto const& r : state().readers) all.push_back(r.may_have_left);
  return all;
}

// ---- answers

/// In the turn of whoever heard it, who need not be one of those that wait: if memory ends here, it is them that hear.
void cached_part::answered(fetch& f, refusal why) {
  std::lock_guard const guard(cache_.lock_);
  std::exception_ptr failure;
  try {
    if (why == refusal::none) note(f);
  } catch (...) {
    failure = std::current_exception();
  }
  std::unique_ptr<fetch> const self = take(f);
  for (waiter& w : self->waiting) {
    if (why != refusal::none)
      cache_.inquiries_[w.by->reader]->refused.store(why, std::memory_order_relaxed);
    note_held(*w.by->slot, self->slot);
    if (failure) {
      fail(w, failure);
      continue;
    }
    try {
      if (why == refusal::none && !serve(w, *self)) ask_again(w);
      else if (--w.by->answers_missing == 0) finish(*w.by);
    } catch (...) {
      fail(w, std::current_exception());
    }
  }
}

/// Of what a read waits for, the answer that was held for the longest says when.
void cached_part::note_held(read_slot& to, read_slot const& answer) {
  if (answer.admitted == time_point::min()) return;  // refused, before anybody said when
  if (answer.admitted - answer.arrived <= to.admitted - to.arrived) return;
  to.arrived = answer.arrived;
  to.admitted = answer.admitted;
}

void cached_part::failed(fetch& f, std::exception_ptr const& why) {
  std::lock_guard const guard(cache_.lock_);
  std::unique_ptr<fetch> const self = take(f);
  for (waiter& w : self->waiting) fail(w, why);
}

void cached_part::note(fetch& f) {
  f.seen->answered(f.slot.stamp, left_by_now(), ++now_);
  state().known = std::max(state().known, f.slot.stamp.server_clock);
  keep(f);
}

/// Whether somebody might be served from a copy, ever.
bool cached_part::is_of_use() const {
  admission_rule const& a = cache_.admission();
  return std::ranges::any_of(cache_.readers_, [&](worker_id w) {
    return a.cache_need(clock_index{}, a.bound(), w) != clock_index::highest();
  });
}

void cached_part::keep(fetch& f) {
  if (!is_of_use()) return;
  if (f.slot.asked == selection::all) {
    if (whole_seen_ && whole_seen_->stamp().server_clock > f.slot.stamp.server_clock) return;
    whole_ = f.slot.state.share();
    whole_seen_ = f.seen;
  } else if (f.slot.asked == selection::rows) {
    for (std::size_t i = 0; i < f.slot.rows.size(); ++i)
      rows_.put(f.slot.rows[i], {.seen = f.seen}, f.slot.stamp.server_clock,
                f.slot.values.data() + i * row_bytes_);
  }
}

/// Whether the answer did for this reader.
bool cached_part::serve(waiter& w, fetch& f) {
  bool const own = w.by->reader == f.asker;
  std::optional const stamp = own ? f.slot.stamp : usable(*w.by, *f.seen, need(w.by->read));
  if (!stamp) return false;
  w.by->slot->stamp = *stamp;
  if (own) w.by->slot->fetched.received += f.slot.reply_bytes();
  if (f.slot.asked != selection::nothing) f.seen->raise(floor_of(w.by->reader));
  if (f.slot.asked == selection::all) w.by->slot->state = f.slot.state.share();
  for (wish const& one : w.rows)
    put_row(*w.by, one.index, *stamp, f.slot.values.data() + one.at * row_bytes_);
  return true;
}

/// Its own commits left while another's request was under way: it asks for itself.
void cached_part::ask_again(waiter& w) {
  fetch& f = begin_fetch(w.by, std::move(w.rows));
  try {
    cache_.fetcher_.ask_in_turn(f);
  } catch (...) {
    (void)take(f);
    throw;
  }
}

/// The slot holds the answer.
void cached_part::finish(pending& by) {
  read_slot& slot = *by.slot;
  if (slot.asked == selection::rows && !slot.row_stamps.empty()) {
    slot.stamp = slot.row_stamps.front();
    for (read_stamp const& s : slot.row_stamps) {
      slot.stamp.server_clock = std::min(slot.stamp.server_clock, s.server_clock);
      slot.stamp.included = std::min(slot.stamp.included, s.included);
      slot.stamp.version = std::max(slot.stamp.version, s.version);
    }
  }
  table_blueprint const& table = cache_.plan_.table(table_);
  if (coding const& answers = slot.asked == selection::rows ? table.answers_by_key() : table.answers())
    slot.coded = coded_answer(slot, answers);
  auto& reader = state().readers[by.reader];
  reader.known_in = std::max(reader.known_in, slot.stamp.included);
  cache_.inquiries_[by.reader]->missing.fetch_sub(1, std::memory_order_release);
}

}  // namespace rubato::detail
