// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>

#include "rubato/storage/arithmetic.hpp"
#include "rubato/worker/error_feedback.hpp"
#include "rubato/worker/filtering.hpp"
#include "rubato/worker/replica.hpp"

namespace rubato {

replica::replica(table_blueprint const& table, std::uint32_t servers, std::size_t protocol)
    : where_(table.where()),
      only_server_(where_.only_server()),
      filter_(table.description().filter),
      updates_(table.updates()),
      row_bytes_(table.row_bytes()),
      asks_all_(table.versioned(protocol)),  // versions move on where it is read, rows or none
      answers_coded_(table.answers()),
      rows_(row_bytes_, static_cast<std::size_t>(table.description().cached_rows)) {
  bool const may_pad = !table.merge(protocol).lazy();
  parts_.reserve(servers);
  for (std::uint32_t s = 0; s < servers; ++s) {
    std::uint64_t const rows = where_.rows_of(server_id{s});
    parts_.emplace_back(rows, row_bytes_, table.pool(), may_pad);
    if (updates_) parts_.back().left = std::make_unique<accumulator>(rows, row_bytes_, table.pool(), may_pad);
  }
}

clock_index replica::base_clock() const noexcept {
  clock_index least = clock_index::highest();
  for (auto const& p : parts_) least = std::min(least, p.mark.server_clock);
  return least;
}

std::size_t replica::kept_commits() const noexcept {
  std::size_t most = 0;
  for (auto const& p : parts_) most = std::max(most, p.committed.size());
  return most;
}

void replica::drop_base() noexcept {
  if (!has_base_) return;
  has_base_ = false;
  for (auto& p : parts_) p.base.clear();
}

void replica::drop_committed() noexcept {
  for (auto& p : parts_) {
    for (auto& u : p.committed) p.own.reuse(std::move(u));
    p.committed.clear();
  }
}

void replica::accept_base(fetch_mark const& mark) {
  for (auto& p : parts_) {
    swap(p.base, p.slot.state);
    p.slot.state.clear();
  }
  mark_fetched(mark);
  has_base_ = true;
}

void replica::scatter(std::byte* out) {
  for (std::uint32_t s = 0; s < parts_.size(); ++s) {
    parts_[s].slot.scattered.clear();
    for_each_run(s, [&](layout::run const& run) {
      parts_[s].slot.scattered.emplace_back(out + static_cast<std::size_t>(run.first) * row_bytes_,
                                            static_cast<std::size_t>(run.rows) * row_bytes_);
    });
  }
}

void replica::end_scatter() noexcept {
  for (auto& p : parts_) p.slot.scattered.clear();
}

void replica::forget_committed(part& p, clock_index included) noexcept {
  clock_index const in = has_base_ ? std::min(included, p.base_included) : included;
  auto const kept = std::ranges::find_if(p.committed, [in](auto const& u) { return u.stamp >= in; });
  for (auto u = p.committed.begin(); u != kept; ++u) p.own.reuse(std::move(*u));
  p.committed.erase(p.committed.begin(), kept);
}

update_buffer replica::room() {
  if (only_server_) return parts_[only_server_->index()].own.room();
  update_buffer made = std::exchange(room_, {});
  if (!made) made = update_buffer(update{});
  made->values.resize_bytes(static_cast<std::size_t>(where_.rows().rows()) * row_bytes_);
  return made;
}

bool replica::marks_allowed(freshness const& f) const {
  return std::ranges::all_of(parts_, [&](auto const& p) { return f.allows(p.mark); });
}

void replica::mark_fetched(fetch_mark const& mark) {
  for (auto& p : parts_) {
    p.mark = mark;
    // Of a server that was not asked for rows there are none that could be old.
    bool const has_answered = p.slot.asked == selection::all;
    p.mark.server_clock = has_answered ? p.slot.stamp.server_clock : clock_index::highest();
    p.base_included = p.slot.stamp.included;
  }
  drop_rows();
  fetched_ = true;
  base_pays_ = false;
}

bool replica::may_stay(std::span<std::uint64_t const> keys) {
  constexpr std::size_t worth_looking_for = 16;
  if (rows_.limited() || rows_.size() * worth_looking_for > keys.size()) return false;
  return rows_.has_none_of(keys) && !repeated_.find(keys);
}

namespace detail {

/// The replica of a table of T.
template <parameter T>
class replica_of final : public replica {
 public:
  replica_of(table_blueprint const& table, std::uint32_t servers, std::size_t protocol, own_filter const& filter)
      : replica(table, servers, protocol) {
    if (filter.rule == nullptr) return;
    filtering_ = std::make_unique<filtering<T>>(where_, width(), *filter.rule, filter.self, table.pool(),
                                                !table.merge(protocol).lazy());
    filtered_ = true;
  }

  // ---- pushes

  void push_whole(std::byte const* bytes) override {
    auto const* const delta = reinterpret_cast<T const*>(bytes);
    index_recent();
    fetched_rows_see([&] {
      for (std::uint32_t s = 0; s < parts_.size(); ++s) {
        if (where_.rows_of(server_id{s}) == 0) continue;
        parts_[s].own.template add_whole<T>([&](auto add) {
          for_each_run(s, [&](layout::run const& run) {
            add(static_cast<std::size_t>(run.local_first) * width(),
                delta + static_cast<std::size_t>(run.first) * width(),
                static_cast<std::size_t>(run.rows) * width());
          });
        });
      }
    });
    rows_.add_all(delta);
  }

  void push_whole(update_buffer written) override {
    std::byte const* const bytes = written->values.data();
    if (!only_server_ || !parts_[only_server_->index()].own.empty()) {
      push_whole(bytes);
      if (!only_server_) room_ = std::move(written);
      return;
    }
    index_recent();
    rows_.add_all(reinterpret_cast<T const*>(bytes));
    parts_[only_server_->index()].own.put(std::move(written));
  }

  void push_rows(std::span<std::uint64_t const> keys, std::byte const* bytes) override {
    auto const* const delta = reinterpret_cast<T const*>(bytes);
    bool const to_recent = recent_.is_of(keys);
    // Many at once: a partition may be the user's. Those that were fetched last have been asked for.
    if (!to_recent && !where_.bounded() && !only_server_) where_.locate(keys, places_);
    std::span<layout::place const> const places = to_recent ? recent_.places() : places_;
    if (!to_recent) index_recent();
    fetched_rows_see([&] {
      bool const first = starts_update(keys, to_recent);
      if (first && only_server_) parts_[only_server_->index()].own.append_rows(keys, delta);
      else push_to_own(keys, places, delta, first);
    });
    if (to_recent) return recent_.add(delta);
    for (std::size_t i = 0; i < keys.size(); ++i) rows_.add(keys[i], delta + i * width());
  }

  /// Adds a push to what is to be committed. Where that fails in its middle, for want of memory, fetched rows would lack
  /// what will be sent of it, so that they are given up.
  template <class Add>
  void fetched_rows_see(Add add) {
    try {
      add();
    } catch (...) {
      drop_rows();
      throw;
    }
  }
  /// Adds to what is to be committed; `first` says that it starts an update. @pre they have been located
  void push_to_own(std::span<std::uint64_t const> keys, std::span<layout::place const> places, T const* delta,
                   bool first) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      layout::place const at = place_of(keys, places, i);
      accumulator& own = parts_[at.server.index()].own;
      if (first) own.append_row(at.local, delta + i * width());
      else own.add_row(at.local, delta + i * width());
    }
  }

  void saw_whole(std::byte const* values) override { filtering_->saw_whole(reinterpret_cast<T const*>(values)); }
  void saw_rows(std::span<std::uint64_t const> keys, std::byte const* values) override {
    filtering_->saw_rows(keys, reinterpret_cast<T const*>(values));
  }

  [[nodiscard]] bool ends_with_commit() const noexcept override { return filtering_ && filtering_->asks_all(); }

  void begin_commit(clock_index clock, bool flush) override {
    if (!filtering_) return;
    filtering_->begin(clock, flush);
    for (std::uint32_t s = 0; s < parts_.size(); ++s) {
      accumulator& own = parts_[s].own;
      if (filtering_->asks_all() && where_.rows_of(server_id{s}) != 0) own.fill();
      if (filtering_->measures() && !own.empty()) filtering_->measure(s, own.all());
    }
    filtering_->decide();
  }

  shared_update commit(server_id s, clock_index stamp, bool keep, bool flush) override {
    part& p = parts_[s.index()];
    static constexpr update_filter none{};
    update_filter const& filter = flush && filter_.small == small_entries::carry ? none : filter_;
    if (filtering_ || p.left) return commit_divided(s, stamp, keep, flush, filter);
    if (!keep || p.own.empty()) return p.own.template take<T>(filter);
    auto committed = p.own.template take_indexed<T>(stamp, filter);
    auto sent = committed.part;
    if (!sent.empty()) p.committed.push_back(std::move(committed));  // all may have been small
    return sent;
  }

  // ---- reads

  void accept_scattered(fetch_mark const& mark, std::byte* out) override {
    mark_fetched(mark);
    for (std::uint32_t s = 0; s < parts_.size(); ++s) add_own_to(s, out);
  }

  void read_whole(std::byte* out) const override {
    for (std::uint32_t s = 0; s < parts_.size(); ++s) {
      for_each_run(s, [&](layout::run const& run) {
        parts_[s].base.copy(static_cast<std::size_t>(run.local_first) * row_bytes_,
                            static_cast<std::size_t>(run.rows) * row_bytes_,
                            out + static_cast<std::size_t>(run.first) * row_bytes_);
      });
      add_own_to(s, out);
    }
  }

  void read_touched(std::vector<std::uint64_t>& keys, raw_array& values) const override {
    std::map<std::uint64_t, std::vector<T>> merged;
    auto const add = [&](std::span<std::uint64_t const> rows, T const* from) {
      for (std::uint64_t const row : rows) {
        add_row(merged.try_emplace(row, width()).first->second.data(), from, width());
        from += width();
      }
    };
    for (auto const& p : parts_) {
      if (!p.base.empty()) add(p.base.keys(), reinterpret_cast<T const*>(p.base.row_values()));
      p.for_each_own(p.base_included,
                     [&](update const& u) { add(u.rows, u.values.as<T>().data()); });
    }
    keys.clear();
    values.clear();
    for (auto const& [k, row] : merged) {
      keys.push_back(k);
      values.append(std::as_bytes(std::span(row)));
    }
  }

  rows_found read_rows(std::span<std::uint64_t const> keys, freshness const& f, bool base_ok,
                       std::byte* out, missing_rows& missing) override {
    rows_found found;
    index_recent();
    if (rows_.empty() && !base_ok && missing.empty()) {  // as most batches are: nothing to look for
      missing.add_all(keys);
      return found;
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::byte* const to = out == nullptr ? nullptr : out + i * row_bytes_;
      if (!read_cached(keys[i], f, to, found) && !(base_ok && read_base(keys[i], to, found)))
        missing.add(keys[i], i);
    }
    return found;
  }

  clock_index accept_rows(missing_rows const& fetched, fetch_mark const& mark,
                          std::byte* out) override {
    clock_index oldest = clock_index::highest();
    index_recent();
    bool const stays = may_stay(fetched.keys());
    if (stays) recent_.start(fetched.size(), mark, row_bytes_);
    if (stays && fetched.as_listed() && parts_[fetched.server(0).index()].slot.row_stamps.empty())
      return accept_as_listed(fetched, out);
    for (std::size_t i = 0; i < fetched.size(); ++i) {
      part& p = parts_[fetched.server(i).index()];
      std::size_t const at = fetched.index(i);
      read_stamp const& stamp = p.slot.row_stamps.empty() ? p.slot.stamp : p.slot.row_stamps[at];
      std::byte* const row = p.slot.values.data() + at * row_bytes_;
      if (p.has_own()) add_own(p, stamp.included, p.slot.rows[at], row);
      std::byte const* seen = row;
      if (stays) copy_row(row, recent_.set(i, stamp.server_clock, row_bytes_));
      else seen = rows_.put(fetched.keys()[i], mark, stamp.server_clock, row);
      if (out != nullptr) copy_row(seen, out + fetched.position(i) * row_bytes_);
      oldest = std::min(oldest, p.slot.stamp.server_clock);
    }
    if (stays) recent_.keep(fetched.keys(), fetched.known_places());
    return oldest;
  }

 private:
  /// The common case of a batch: rows from one server are the caller's, one after the other.
  clock_index accept_as_listed(missing_rows const& fetched, std::byte* out) {
    part& p = parts_[fetched.server(0).index()];
    std::span<std::byte> const values = p.slot.values.bytes();
    if (p.has_own())
      for (std::size_t i = 0; i < fetched.size(); ++i)
        add_own(p, p.slot.stamp.included, p.slot.rows[i], values.data() + i * row_bytes_);
    RUBATO_ASSERT(values.size() == fetched.size() * row_bytes_);
    if (out != nullptr) std::memcpy(out, values.data(), fetched.size() * row_bytes_);
    recent_.set_all(p.slot.stamp.server_clock, p.slot.values);
    recent_.keep(fetched.keys());
    return p.slot.stamp.server_clock;
  }

  shared_update commit_divided(server_id s, clock_index stamp, bool keep, bool flush, update_filter const& filter) {
    part& p = parts_[s.index()];
    divided_update halves;
    if (filtering_ && !p.own.empty()) halves = filtering_->split(s.value(), p.own.release());
    else halves = p.own.template divide<T>(filter);
    auto& [sent, carried] = halves;
    p.own.put(std::move(sent));
    if constexpr (std::floating_point<T>)
      if (p.left) round_with_feedback<T>(updates_, *p.left, p.own, row_bytes_, flush);
    bool const kept = keep && !p.own.empty();
    if (kept) p.committed.push_back(p.own.take_indexed(stamp));
    shared_update goes = kept ? p.committed.back().part : p.own.take();
    p.own.put(std::move(carried));
    return goes;
  }

  /// Whether these are the first rows since the last commit, few, and none of them twice.
  [[nodiscard]] bool starts_update(std::span<std::uint64_t const> keys, bool known_to_differ) {
    if (keys.size() < 2) return false;
    for (std::uint32_t s = 0; s < parts_.size(); ++s)
      if (!parts_[s].own.may_start(keys.size())) return false;
    return known_to_differ || !repeated_.find(keys);
  }

  [[nodiscard]] layout::place place_of(std::span<std::uint64_t const> keys, std::span<layout::place const> places,
                                       std::size_t i) const noexcept {
    if (only_server_) return {*only_server_, keys[i]};
    return places.empty() ? where_.rows().locate(key{keys[i]}) : places[i];
  }

  void copy_row(std::byte const* from, std::byte* to) const noexcept {
    if (width() == 1) std::memcpy(to, from, sizeof(T));
    else std::memcpy(to, from, row_bytes_);
  }

  bool read_cached(std::uint64_t k, freshness const& f, std::byte* out, rows_found& found) {
    auto const* const e = rows_.use(k);
    if (e == nullptr || !f.allows(e->mark)) return false;
    if (out != nullptr) copy_row(rows_.values(*e), out);
    found.note(e->mark);
    return true;
  }

  bool read_base(std::uint64_t k, std::byte* out, rows_found& found) {
    if (!where_.bounded()) return false;
    layout::place const at = where_.rows().locate(key{k});
    part& p = parts_[at.server.index()];
    // It may be older than what was read of a row that has been evicted since.
    if (p.mark.fetch < rows_.forgotten()) return false;
    if (out != nullptr) {
      p.base.copy(static_cast<std::size_t>(at.local) * row_bytes_, row_bytes_, out);
      add_own(p, p.base_included, at.local, out);
    }
    found.note(p.mark);
    return true;
  }

  /// Adds what the own updates hold of a row that a state including stamps below `included` lacks.
  void add_own(part& p, clock_index included, std::uint64_t row, std::byte* to) const {
    auto const add = [&](std::byte const* from) {
      if (from != nullptr) add_row(reinterpret_cast<T*>(to), reinterpret_cast<T const*>(from), width());
    };
    for (auto const& u : p.committed)
      if (u.stamp >= included) add(u.find(row, row_bytes_));
    add(p.own.find(row));
    if (p.left) add(p.left->find(row));
  }

  /// Adds the own updates that one server's part of the last fetch lacks.
  void add_own_to(std::uint32_t server, std::byte* bytes) const {
    auto* const out = reinterpret_cast<T*>(bytes);
    parts_[server].for_each_own(parts_[server].base_included, [&](update const& u) {
      T const* from = u.values.as<T>().data();
      if (u.whole)
        return for_each_run(server, [&](layout::run const& run) {
          add_scaled(out + static_cast<std::size_t>(run.first) * width(),
                     from + static_cast<std::size_t>(run.local_first) * width(),
                     static_cast<std::size_t>(run.rows) * width(), 1.0);
        });
      for (std::uint64_t const row : u.rows) {
        key const k = where_.rows().key_of(server_id{server}, row);
        add_row(out + k.index() * width(), from, width());
        from += width();
      }
    });
  }

  [[nodiscard]] std::size_t width() const noexcept { return row_bytes_ / sizeof(T); }

  std::vector<layout::place> places_;  // of the rows that are being pushed
  std::unique_ptr<filtering<T>> filtering_;  // none: all is sent
};

}  // namespace detail

std::unique_ptr<replica> make_replica(table_blueprint const& table, std::uint32_t servers, std::size_t protocol,
                                      own_filter const& filter) {
  return with_element(table.element(), [&]<class T>() -> std::unique_ptr<replica> {
    return std::make_unique<detail::replica_of<T>>(table, servers, protocol, filter);
  });
}

}  // namespace rubato
