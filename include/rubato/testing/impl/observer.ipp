// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/testing/observer.hpp"

namespace rubato::testing {

observer::observer(expectations r, std::uint32_t starters, std::uint32_t workers,
         std::vector<std::vector<std::uint32_t>> servers_of)
    : rules_(std::move(r)), workers_(workers), servers_of_(std::move(servers_of)) {
  members_.resize(workers);
  for (std::uint32_t w = 0; w < workers; ++w) {
    members_[w].now = w < starters ? state::live : state::absent;
    for (auto const& rows : servers_of_) {
      members_[w].tables.emplace_back(rows.size());
      members_[w].tables.back().start(0);
    }
  }
  for (auto const& rows : servers_of_) seen_.emplace_back(2 * workers * rows.size() * workers, 0);
}

void observer::started(std::uint32_t w, clock_index at) {
  std::lock_guard const guard(lock_);
  member& m = members_.at(w);
  bool const joiner = m.now == state::absent;
  for (member& other : members_) other.may_be_apart = other.may_be_apart || other.now == state::crashed;
  m.now = state::live;
  m.joined = joiner;
  m.may_be_apart = false;
  m.started = m.begun = m.done = at.value();
  for (auto& t : m.tables) t.start(at.value());
  if (!joiner && at != clock_index{0})
    fail("worker ", w, " began with the run, but at clock ", at.value());
  // The greatest of the shards' c_min when they registered it, and it has held them there since.
  if (joiner && !published_.empty() && std::ranges::max(published_) != at)
    fail("worker ", w, " joined at clock ", at.value(),
         ", but the greatest c_min of a server is ", std::ranges::max(published_).value());
}

void observer::pushing(std::uint32_t w, std::size_t table, std::size_t row, std::int64_t amount) {
  std::lock_guard const guard(lock_);
  members_[w].tables[table].push(row, amount);
}

void observer::committing(std::uint32_t w) {
  std::lock_guard const guard(lock_);
  member& m = members_[w];
  ++m.begun;
  for (auto& t : m.tables) t.commit();
}

void observer::committed(std::uint32_t w, clock_index now) {
  std::lock_guard const guard(lock_);
  member& m = members_[w];
  m.done = m.begun;
  if (now.value() != m.done)
    fail("worker ", w, " has committed ", m.done, " times, but its clock is ", now.value());
}

void observer::not_committed(std::uint32_t w) {
  std::lock_guard const guard(lock_);
  member& m = members_[w];
  --m.begun;
  for (auto& t : m.tables) t.retract();
}

void observer::asking(std::uint32_t w, staleness s) {
  std::lock_guard const guard(lock_);
  members_[w].asked = std::min(s, rules_.bound);
}

void observer::left(std::uint32_t w) {
  std::lock_guard const guard(lock_);
  members_[w].now = state::left;
}

void observer::crashed(std::uint32_t w) {
  std::lock_guard const guard(lock_);
  members_[w].now = state::crashed;
}

void observer::read(std::uint32_t w, staleness s, std::size_t table, kind how,
          std::span<std::uint64_t const> rows, std::span<std::int64_t const> values) {
  if (rows.empty()) return;  // of nothing, which waits for nobody
  std::lock_guard const guard(lock_);
  clock_index const c{members_[w].done};
  if (auto const least = c_min_for(w, c); !members_[w].may_be_apart && least_read(w, c, s) > least)
    fail("SSP-3: worker ", w, " reads at clock ", c.value(), " while c_min is ", least.value());
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::uint32_t m = 0; m < workers_; ++m)
      check_cell(w, c, s, table, how, static_cast<std::size_t>(rows[i]), m,
                 values[i * workers_ + m]);
  if (how == kind::whole && rules_.atomic_servers) check_whole(w, table, values);
}

void observer::read_before_pushes(std::uint32_t w, std::size_t table, std::span<std::byte const> bytes) {
  if (!rules_.barrier) return;
  std::lock_guard const guard(lock_);
  auto const [at, first] = agreed_.try_emplace(std::pair(table, members_[w].done));
  if (first)
    at->second.assign(bytes.begin(), bytes.end());
  else if (!std::ranges::equal(at->second, bytes))
    fail("BSP: worker ", w, " reads other parameters of table ", table, " at clock ",
         members_[w].done, " than another worker did");
}

void observer::check_servers(server_group const& servers) {
  std::lock_guard const guard(lock_);
  published_.resize(servers.size(), clock_index{0});
  for (std::uint32_t s = 0; s < servers.size(); ++s)
    servers.server(server_id{s}).inspect([&](auto const& control) { check_server(s, control); });
  clock_index const limit = (c_min() + rules_.bound).next();
  for (std::uint32_t w = 0; w < workers_; ++w)
    if (members_[w].now == state::live && clock_index{members_[w].done} > limit)
      fail("worker ", w, " stands at clock ", members_[w].done,
           ", beyond c_min + s + 1 = ", detail::text(limit));
}

void observer::finish(std::size_t table, std::span<std::int64_t const> values) {
  std::lock_guard const guard(lock_);
  for (std::size_t row = 0; row < servers_of_[table].size(); ++row)
    for (std::uint32_t w = 0; w < workers_; ++w) {
      member const& m = members_[w];
      std::int64_t const value = values[row * workers_ + w];
      if (m.now != state::crashed && value != m.tables[table].pushed(row))
        fail("in the end row ", row, " of table ", table, " holds ", value, " of worker ", w,
             ", which pushed ", m.tables[table].pushed(row));
      if (m.now != state::crashed) continue;
      auto const [first, last] = m.tables[table].clocks(value, row);
      if (first > last)
        fail("in the end row ", row, " of table ", table, " holds ", value, " of worker ", w,
             ", which are no whole commits");
    }
}

std::uint64_t observer::partly_folded(std::size_t table,
                                          std::span<std::int64_t const> values) const {
  std::lock_guard const guard(lock_);
  std::uint64_t total = 0;
  for (std::uint32_t w = 0; w < workers_; ++w) {
    if (members_[w].now != state::crashed) continue;
    std::map<std::uint32_t, std::int64_t> reached;
    for (std::size_t row = 0; row < servers_of_[table].size(); ++row)
      reached[servers_of_[table][row]] =
          members_[w].tables[table].clocks(values[row * workers_ + w], row).first;
    std::int64_t least = members_[w].begun;
    for (auto const& [server, clock] : reached) least = std::min(least, clock);
    for (auto const& [server, clock] : reached)
      total += static_cast<std::uint64_t>(clock - least);
  }
  return total;
}

void observer::finish_lost(std::size_t table, std::span<std::int64_t const> values) {
  std::lock_guard const guard(lock_);
  for (std::size_t row = 0; row < servers_of_[table].size(); ++row)
    for (std::uint32_t w = 0; w < workers_; ++w) {
      member const& m = members_[w];
      std::int64_t const sent = m.tables[table].below(clock_index{m.done}, row);
      if (m.now == state::crashed && values[row * workers_ + w] < sent)
        fail("in the end row ", row, " of table ", table, " lacks commits of lost worker ", w,
             " that every server had received");
    }
}

std::vector<std::string> observer::violations() const {
  std::lock_guard const guard(lock_);
  return violations_.take();
}

std::uint64_t observer::commits() const {
  std::lock_guard const guard(lock_);
  std::uint64_t total = 0;
  for (member const& m : members_) total += static_cast<std::uint64_t>(m.begun - m.started);
  return total;
}

clock_index observer::c_min() const {
  clock_index least = clock_index::highest();
  for (member const& m : members_)
    if (m.now == state::live) least = std::min(least, clock_index{m.begun});
  return least;
}

bool observer::heeds(std::uint32_t reader, std::uint32_t other, clock_index c) const {
  if (!rules_.admission || !rules_.admission->heeds_some() || reader == other) return true;
  // Who had been let in before a joiner came may be ahead of it by more.
  return !members_[other].joined && rules_.admission->heeds(worker_id{reader}, worker_id{other}, c);
}

clock_index observer::c_min_for(std::uint32_t reader, clock_index c) const {
  clock_index least = clock_index::highest();
  for (std::uint32_t w = 0; w < workers_; ++w)
    if (members_[w].now == state::live && heeds(reader, w, c)) least = std::min(least, clock_index{members_[w].begun});
  return least;
}

clock_index observer::least_read(std::uint32_t w, clock_index c, staleness s) const {
  if (rules_.admission && rules_.admission->limits()) return clock_index::lowest();  // clocks are not looked at
  staleness const allowed = std::min(s, rules_.bound);
  clock_index least = c - allowed;
  if (rules_.admission && !rules_.admission->extends())  // of the server, or of a copy
    least = std::max(least, std::min(rules_.admission->need(c, allowed, worker_id{w}),
                                     rules_.admission->cache_need(c, allowed, worker_id{w})));
  return least;
}

clock_index observer::most_awaited(worker_id w, clock_index c) const {
  staleness const asked = members_[w.index()].asked;
  if (rules_.admission) return rules_.admission->need(c, asked, w);
  return rules_.minimal_waits ? c - asked : clock_index::highest();
}

void observer::check_cell(std::uint32_t reader, clock_index c, staleness s, std::size_t table, kind how,
                std::size_t row, std::uint32_t w, std::int64_t value) {
  member const& m = members_[w];
  detail::ledger const& truth = m.tables[table];
  auto const say = [&](char const* rule, auto const&... what) {
    fail(rule, ": worker ", reader, " at clock ", c.value(), " reads ", value, " of worker ", w,
         " in row ", row, " of table ", table, ", ", what...);
  };
  std::int64_t& before =
      seen_[table]
           [((static_cast<std::size_t>(how) * workers_ + reader) * servers_of_[table].size() +
             row) *
                workers_ +
            w];
  if (value < before) say("cache", "but read ", before, " before");
  before = std::max(before, value);
  if (w == reader) {
    if (value != truth.pushed(row)) say("SSP-2", "but has pushed ", truth.pushed(row));
    return;
  }
  auto const [first, last] = truth.clocks(value, row);
  if (first > last) return say("SSP-1", "which are no whole commits, each once");
  clock_index const need = least_read(reader, c, s);
  if (m.now != state::crashed && !members_[reader].may_be_apart && heeds(reader, w, c) &&
      value < truth.below(need, row))
    say("SSP-1", "expected all stamps below ", detail::text(need));
  if (first > m.started && clock_index{first} > rules_.newest(c))
    say("SSP-4", "which includes stamp ", first - 1, ", expected stamps below ",
        detail::text(rules_.newest(c)));
}

void observer::check_whole(std::uint32_t reader, std::size_t table, std::span<std::int64_t const> values) {
  for (std::uint32_t w = 0; w < workers_; ++w) {
    if (w == reader) continue;
    std::map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> common;
    for (std::size_t row = 0; row < servers_of_[table].size(); ++row) {
      auto const here = members_[w].tables[table].clocks(values[row * workers_ + w], row);
      auto& both = common.try_emplace(servers_of_[table][row], here).first->second;
      both = {std::max(both.first, here.first), std::min(both.second, here.second)};
    }
    auto cut = common.begin()->second;
    for (auto const& [server, both] : common) {
      if (both.first > both.second)
        fail("SSP-1: worker ", reader, " reads part of a commit of worker ", w, " from server ",
             server);
      cut = {std::max(cut.first, both.first), std::min(cut.second, both.second)};
    }
    if (rules_.same_cut && cut.first > cut.second)
      fail("PS-1: worker ", reader, " reads commits of worker ", w, " up to stamp ",
           cut.first - 1, " from one server, but not that of stamp ", cut.second,
           " from another one");
  }
}

void observer::check_server(std::uint32_t s, shard_control const& control) {
  clock_index const published = control.published();
  if (published < published_[s])
    fail("c_min of server ", s, " fell from ", published_[s].value(), " to ", published.value());
  published_[s] = published;
  if (published > c_min())
    fail("server ", s, " holds c_min for ", published.value(), ", but it is ", c_min().value());
  for (auto const& ticket : control.waiting().tickets()) {
    if (control.limits()) break;  // they wait for no clock
    clock_index const need = most_awaited(ticket.worker, ticket.clock);
    if (ticket.need <= published || need <= published)
      fail("worker ", ticket.worker.value(), " waits at server ", s, " for c_min ",
           detail::text(std::min(need, ticket.need)), ", which is ", published.value());
  }
  if (!rules_.same_cut) check_held_back(s, published, control.held_back());
}

void observer::check_held_back(std::uint32_t s, clock_index published, std::size_t held) {
  clock_index const folded = rules_.newest(published);
  std::int64_t most = 0;
  for (member const& m : members_)
    if (rules_.holds_back && clock_index{m.begun} > folded)
      most += m.begun - std::max(folded.value(), m.started);
  if (static_cast<std::int64_t>(held) > most)
    fail("server ", s, " holds back ", held, " commits, expected at most ", most);
}

}  // namespace rubato::testing
