// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/core/assert.hpp"
#include "rubato/worker/reader.hpp"

namespace rubato::detail {

/// For how long a question that has no answer yet has been held up by the protocol, of the time since then, as far as
/// it is known at this end.
inline duration held_up(time_point arrived, time_point admitted, time_point since, time_point now) noexcept {
  if (arrived == time_point::max()) return {};
  time_point const from = std::max(arrived, since);
  return std::max(admitted == time_point::min() ? now : admitted, from) - from;
}

reader::reader(endpoint& link, blueprint const& plan, std::size_t protocol, sender self,
               server_id nearest, argument_check const& check, pacer& pace, worker_metrics& metrics)
    : link_(link),
      synchronized_(plan.synchronized(protocol)),
      shares_reads_(link.shares_reads()),
      admission_(plan.protocol(protocol).admission),
      visibility_(plan.protocol(protocol).visibility),
      check_(check),
      pacer_(pace),
      metrics_(metrics),
      servers_(plan.server_ids()),
      header_{self, {}, {}, {}},
      nearest_(nearest),
      renews_(plan.protocol(protocol).renews) {
  auto const& filter = plan.protocol(protocol).filter;
  own_filter const own{filter ? &*filter : nullptr, self.worker};
  for (table_blueprint const& t : plan.tables()) replicas_.push_back(make_replica(t, plan.servers(), protocol, own));
  if (renews_) use_.resize(replicas_.size());
}

void reader::start(starting_point const& at) {
  clock_ = at.clock;
  version_ = by_rounds() ? version_index{0} : at.version;  // of rounds, answers tell
  read_this_clock_ = entered_ = false;
}

void reader::next_clock() {
  clock_ = clock_.next();
  if (!by_rounds()) version_ = version_index{version_.value() + 1};
  read_this_clock_ = entered_ = false;
}

void reader::end() {
  for (auto const& r : replicas_) {
    r->drop_base();
    r->drop_rows();
    r->drop_committed();
  }
}

void reader::ask_admission(staleness s) {
  worker_id const self = header_.from.worker;
  fresh_ = {clock_, admission_.need(clock_, s, self), admission_.cache_need(clock_, s, self)};
  fresh_for_ = s;
}

void reader::enter_anew(staleness s) {
  clock_index const needed = need(s);
  // Where it is a matter of values or rounds, clocks say nothing; and each server has rounds of its own.
  bool const asks = needed > known_ || admission_.limits() || admission_.by_round();
  if (asks && !(end_prefetch() && needed <= known_ && !admission_.limits())) {
    if (synchronized_) {
      fetch_cut(s, false);
    } else {
      bool const asks_all = own_may_lag_ || admission_.by_round();
      std::span<server_id const> const ask = asks_all ? servers_ : std::span<server_id const>(&nearest_, 1);
      for (server_id const server : ask) slot(0, server).asked = selection::nothing;
      fetch(0, ask, s);
    }
  }
  entered_ = needed <= known_ || admission_.lets_in_one_by_one();
  entered_for_ = s;
}

// ---- pulls

void reader::pull_whole(std::size_t table, std::byte* out, std::size_t elements,
                        std::optional<staleness> asked) {
  before_read();
  replica& r = replica_of(table);
  check_.whole("pull", table, elements);
  staleness const s = check_.allowed(table, asked, bound());
  if (!enter_by_base(table, s)) {
    if (!renews_ && link_.scatters() && r.may_scatter() && r.prefers_no_base()) return pull_scattered(table, out, s);
    bring_base(table, s);
  }
  if (renews_) note_read(table, {}, r.base_clock());
  count_read(r.base_clock());
  time_point const before = link_.now();
  r.read_whole(out);
  metrics_.send += link_.now() - before;
}

void reader::pull_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values,
                          std::optional<staleness> asked) {
  before_read();
  replica& r = replica_of(table);
  staleness const s = check_.allowed(table, asked, bound());
  if (!enter_by_base(table, s)) bring_base(table, s);
  if (renews_) note_read(table, {}, r.base_clock());
  count_read(r.base_clock());
  time_point const before = link_.now();
  r.read_touched(keys, values);
  metrics_.send += link_.now() - before;
}

/// Fetches what a read of rows has not found, or all of them where what it has found may not be used. `oldest`
/// is the least server clock of those found.
void reader::complete_rows(std::size_t table, key_list keys, std::byte* out, staleness s, clock_index oldest) {
  if ((synchronized_ || renews_) && missing_.size() != keys.size()) {
    miss_all(keys);  // PS-1: rows of one read are of one cut; where copies are renewed, one question does
    oldest = clock_index::highest();
  }
  if (synchronized_) replica_of(table).drop_base();  // of an older cut than these rows, which later reads may not see
  fetch_rows(table, s);
  if (renews_) note_read(table, keys, known_);
  count_read(std::min(oldest, replica_of(table).accept_rows(missing_, mark_, out)));
}

/// Whether a read of the whole table is answered by the copy that there is; if not, it is given up.
bool reader::enter_by_base(std::size_t table, staleness s) {
  replica& r = replica_of(table);
  if (ahead_ != ahead::nothing && !r.base_usable(usable(s))) end_prefetch();
  if (!r.base_readable(usable(s))) {
    r.drop_base();
    return false;
  }
  enter(s);
  return true;
}

void reader::bring_base(std::size_t table, staleness s) {
  fetch_whole(table, s);
  replica_of(table).accept_base(mark_);
}

void reader::fetch_whole(std::size_t table, staleness s) {
  address_all(table);
  fetch(table, asked_, s);
  if (renews_) use_[table].asked = clock_;
  ++metrics_.fetches;
}

/// Has the whole table written where the user wants it, without a base in between.
void reader::pull_scattered(std::size_t table, std::byte* out, staleness s) {
  replica& r = replica_of(table);
  struct ending {
    replica& of;
    ~ending() { of.end_scatter(); }
  } const at_exit{r};
  r.scatter(out);
  fetch_whole(table, s);
  time_point const before = link_.now();
  r.accept_scattered(mark_, out);
  metrics_.send += link_.now() - before;
  count_read(r.base_clock());
}

void reader::miss_all(key_list keys) {
  missing_.clear();
  missing_.add_all(keys);
}

/// Asks each server for the missing rows that it holds.
void reader::fetch_rows(std::size_t table, staleness s) {
  end_prefetch();
  address_rows(table, missing_);
  fetch(table, asked_, s);
  if (renews_) use_[table].asked = clock_;
  ++metrics_.fetches;
}

/// Writes these rows into the slots of the servers that hold them, which are then in `asked_`.
void reader::address_rows(std::size_t table, missing_rows& rows) {
  replica& r = replica_of(table);
  asked_.clear();
  if (auto const only = r.only_server()) {
    address_rows_to(*only, r.slot(*only), rows);
    return address_others(table);
  }
  r.where().locate(rows.keys(), rows.places);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    layout::place const& at = rows.places[i];
    read_slot& to = r.slot(at.server);
    if (std::ranges::find(asked_, at.server) == asked_.end()) {
      asked_.push_back(at.server);
      to.asked = selection::rows;
      to.rows.clear();
      to.row_stamps.clear();
    }
    rows.set_index(i, to.rows.size());
    to.rows.push_back(at.local);
  }
  address_others(table);
}

/// The same where one server has them all.
void reader::address_rows_to(server_id server, read_slot& to, missing_rows& rows) {
  if (rows.empty()) return;
  asked_.push_back(server);
  to.asked = selection::rows;
  to.rows.assign(rows.keys().begin(), rows.keys().end());
  to.row_stamps.clear();
  rows.set_only_server(server);
}

/// Writes that they are to give all they have into the slots of the servers that are asked for the whole table.
void reader::address_all(std::size_t table) {
  replica& r = replica_of(table);
  asked_.clear();
  for (server_id const server : servers_)
    if (r.takes_part(server)) {
      r.slot(server).asked = selection::all;
      asked_.push_back(server);
    }
  address_others(table);
}

/// Where own commits may not be in yet, the servers that are asked for no row have to say of theirs.
void reader::address_others(std::size_t table) {
  if (!own_may_lag_ || synchronized_) return;  // a cut says it for all servers
  for (server_id const server : servers_)
    if (std::ranges::find(asked_, server) == asked_.end()) {
      slot(table, server).asked = selection::nothing;
      asked_.push_back(server);
    }
}

// ---- prefetches

void reader::prefetch_whole(std::size_t table) {
  if (synchronized_ || ahead_ == ahead::renewal) return;  // not to wait
  if (is_ahead(table)) end_prefetch();
  replica& r = replica_of(table);
  if (r.base_readable(usable(bound()))) return;
  r.drop_base();
  share& p = next_ahead(table, selection::all);
  address_all(table);
  start_prefetch(ahead::prefetch, p);
}

void reader::prefetch_rows(std::size_t table, key_list keys) {
  if (synchronized_ || ahead_ == ahead::renewal) return;
  if (is_ahead(table)) end_prefetch();
  check_.keys("prefetch", table, keys);
  replica& r = replica_of(table);
  freshness const fresh = usable(bound());
  share& p = next_ahead(table, selection::rows);
  (void)r.read_rows(keys, fresh, r.base_readable(fresh), nullptr, p.rows);
  if (p.rows.empty()) return;
  address_rows(table, p.rows);
  start_prefetch(ahead::prefetch, p);
}

bool reader::is_ahead(std::size_t table) const noexcept {
  auto const asked = std::span(prefetched_).first(prefetches_);
  return std::ranges::find(asked, table, &share::table) != asked.end();
}

/// Beside those that have been asked for; counts once it is started.
reader::share& reader::next_ahead(std::size_t table, selection asked) {
  if (prefetches_ == prefetched_.size()) prefetched_.emplace_back();
  share& p = prefetched_[prefetches_];
  p.table = table;
  p.asked = asked;
  p.rows.clear();
  return p;
}

/// Asks the servers in `asked_`. Where that fails, nothing is under way any more: a transport withdraws what was asked
/// for before.
void reader::start_prefetch(ahead what, share& p) {
  p.from.assign(asked_.begin(), asked_.end());
  try {
    request(p.table, p.from, bound(), what == ahead::renewal);
    link_.start();
  } catch (...) {
    prefetches_ = 0;
    ahead_ = ahead::nothing;
    throw;
  }
  ++prefetches_;
  ahead_ = what;
  if (renews_) use_[p.table].asked = clock_;
}

bool reader::finish_prefetch() {
  ahead_ = ahead::nothing;
  auto const asked = std::span(prefetched_).first(std::exchange(prefetches_, 0));
  collect(asked, link_.now(), metrics_.send);
  metrics_.fetches += asked.size();
  for (share const& p : asked) {
    replica& r = replica_of(p.table);
    if (p.asked == selection::all) r.accept_base(mark_);
    else (void)r.accept_rows(p.rows, mark_, nullptr);
  }
  for (share const& p : asked) acknowledge(p);
  return true;
}

// ---- renewals

/// A table has been read from copies, or `keys` have come from the servers. @param from the oldest one's server clock
void reader::note_read(std::size_t table, key_list keys, clock_index from) {
  usage& u = use_[table];
  if (u.read != clock_) {
    std::swap(u.rows_before, u.rows);
    u.rows.clear();
  }
  u.read = clock_;
  u.from = from;
  u.rows.add(keys);
  if (ahead_ == ahead::nothing && renewed_ != clock_) renew();
}

/// Of the tables in use, the one that was asked for longest ago has the turn.
void reader::renew() {
  std::size_t turn = use_.size();
  for (std::size_t t = 0; t < use_.size(); ++t) {
    usage const& u = use_[t];
    if (u.asked == clock_ || u.read < clock_ - staleness{lately}) continue;
    if (!replicas_[t]->has_base() && u.rows.empty() && u.rows_before.empty()) continue;
    if (turn == use_.size() || u.asked < use_[turn].asked) turn = t;
  }
  if (turn == use_.size()) return;
  clock_index const from = replicas_[turn]->has_base() ? replicas_[turn]->base_clock() : use_[turn].from;
  if (renews_({clock_, staleness{distance(std::min(from, clock_), clock_)}})) renew(turn);
}

void reader::renew(std::size_t table) {
  renewed_ = clock_;
  if (replicas_[table]->has_base()) {  // rows by themselves would be newer than the rest
    share& all = next_ahead(table, selection::all);
    address_all(table);
    return start_prefetch(ahead::renewal, all);
  }
  usage& u = use_[table];
  rows_read keys = u.rows;
  if (u.read == clock_) keys.add(u.rows_before.sorted());
  share& p = next_ahead(table, selection::rows);
  p.rows.add_all(keys.sorted());
  address_rows(table, p.rows);
  start_prefetch(ahead::renewal, p);
}

// ---- requests and answers

/// Waits to be let in by the coordinator, which answers with a cut.
void reader::fetch_cut(staleness s, bool pull) {
  time_point const before = link_.now();
  cut_.pull = pull;
  header_.clock = clock_;
  header_.bound = s;
  link_.request_cut(header_, cut_);
  wait_for_answers(before, [this, before](time_point now) {
    return detail::held_up(cut_.arrived, cut_.admitted, before, now);
  });
  know(cut_.cut->c_min());
  for (server_id const server : servers_) acknowledge(server, cut_.cut->of(header_.from.worker));
  metrics_.bytes_received += cut_.cut->bytes();
  count_time(before, cut_.admitted - cut_.arrived);
  header_.cut = std::exchange(cut_.cut, nullptr);
  if (!pull) header_.cut = nullptr;
}

/// Sends the requests that the slots hold, and waits for the answers.
void reader::fetch(std::size_t table, std::span<server_id const> from, staleness s) {
  RUBATO_ASSERT(ahead_ == ahead::nothing);
  duration const send_before = metrics_.send;
  if (synchronized_) fetch_cut(s, true);
  time_point const before = link_.now();
  request(table, from, s);
  collect(table, from, before, send_before);
  note_let_in(s);
}

void reader::note_let_in(staleness s) noexcept {
  if (!admission_.lets_in_one_by_one() && !admission_.by_round()) return;
  if (!entered_ || s < entered_for_) entered_for_ = s;
  entered_ = true;  // who has answered lets it in, whatever clock it told
}

void reader::request(std::size_t table, std::span<server_id const> from, staleness s, bool renews) {
  header_.clock = clock_;
  header_.bound = s;
  header_.renews = renews;
  mark_ = {.at = clock_, .need = need(s), .fetch = metrics_.fetches + 1};
  for (server_id const server : from) {
    read_slot& asked = slot(table, server);
    asked.shared = asked.by_process = false;
    link_.request(server, table, header_, asked);
  }
}

/// If none come, since the run is stopped, a read refused or this worker lost, the time since `before` is counted here.
/// @param held_until for how long the protocol has held the questions up by then, as far as it is known
template <class Held>
void reader::wait_for_answers(time_point before, Held held_until) {
  try {
    link_.wait();
  } catch (...) {
    count_time(before, held_until(link_.now()));
    throw;
  }
}

/// The greatest of them.
duration reader::held_up(std::size_t table, std::span<server_id const> from, time_point since, time_point now) {
  duration held{};
  for (server_id const server : from) {
    read_slot const& asked = slot(table, server);
    held = std::max(held, detail::held_up(asked.arrived, asked.admitted, since, now));
  }
  return held;
}

/// Waits for the answers. The time since `before` is counted, and all that was sent since
/// `send_before`.
void reader::collect(std::size_t table, std::span<server_id const> from, time_point before,
                     duration send_before) {
  wait_for_answers(before, [&](time_point now) { return held_up(table, from, before, now); });
  for (server_id const server : from) acknowledge(server, slot(table, server).stamp.included);
  end_exchange(before, take_answers(table, from, before), send_before);
}

/// The same for several tables. What they say of own commits is for when all have been accepted: one may lack a commit
/// that another one includes.
void reader::collect(std::span<share const> shares, time_point before, duration send_before) {
  duration held{};
  wait_for_answers(before, [&](time_point now) {
    for (share const& p : shares)
      if (p.asked != selection::nothing) held = std::max(held, held_up(p.table, p.from, before, now));
    return held;
  });
  for (share const& p : shares)
    if (p.asked != selection::nothing) held = std::max(held, take_answers(p.table, p.from, before));
  end_exchange(before, held, send_before);
}

/// Returns for how long since then the protocol did not let one go on. What has been asked for ahead of time may have
/// been let in before.
duration reader::take_answers(std::size_t table, std::span<server_id const> from, time_point since) {
  duration held{};
  for (server_id const server : from) {
    read_slot& answer = slot(table, server);
    know(answer.stamp.server_clock);
    version_ = std::max(version_, answer.stamp.version);
    time_point const waits_from = std::max(answer.arrived, since);
    held = std::max(held, std::max(answer.admitted, waits_from) - waits_from);
    ++(answer.by_process ? metrics_.process_hits : metrics_.requests);
    read_traffic const moved = answer.traffic();
    metrics_.bytes_sent += moved.sent;
    metrics_.bytes_received += moved.received;
  }
  return held;
}

void reader::end_exchange(time_point before, duration held, duration send_before) {
  if (synchronized_) {
    header_.cut = nullptr;
    link_.release_cut();
  }
  count_time(before, held);
  pacer_.fetched(metrics_.send - send_before);
}

void reader::know(clock_index c_min) noexcept { known_ = std::max(known_, c_min); }

/// A server's answer, or a cut, includes the own commits with stamps below `included`.
void reader::acknowledge(server_id server, clock_index included) {
  for (auto const& r : replicas_) r->acknowledge(server, included);
}

/// The same of all answers about a table, which have been accepted.
void reader::acknowledge(share const& p) {
  if (p.asked == selection::nothing) return;
  for (server_id const server : p.from) acknowledge(server, slot(p.table, server).stamp.included);
}

/// Of the time since `before`, `held` was spent waiting to be let in.
void reader::count_time(time_point before, duration held) {
  duration const total = std::max(duration::zero(), link_.now() - before);
  held = std::clamp(held, duration::zero(), total);
  metrics_.wait += held;
  metrics_.send += total - held;
}

/// Of the first read of a clock.
void reader::count_staleness(clock_index server_clock) {
  auto const behind = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, distance(std::min(server_clock, clock_), clock_)));
  ++metrics_.staleness[std::min<std::uint64_t>(behind, metrics_.staleness.size() - 1)];
}

// ---- commits

void reader::make_room_for_commit() {
  if ((!synchronized_ && !shares_reads_) || kept_commits() < kept_commits_max) return;
  if (synchronized_) {
    fetch_cut(bound(), false);
  } else {
    for (server_id const server : servers_) slot(0, server).asked = selection::nothing;
    fetch(0, servers_, bound());
  }
}

void reader::prepare_commit(bool flush) {
  drop_useless_copies();
  own_may_lag_ = own_may_lag_ || !next_read_includes_own() || shares_reads_;
  // Not to be left to servers' answers: those without rows of the tables that are pulled are asked nothing.
  for (std::size_t i = 0; i < replicas_.size(); ++i)
    if (!keeps_commit(i)) replicas_[i]->drop_committed();
  for (auto const& r : replicas_)
    if (r->filtered()) r->begin_commit(clock_, flush);
}

bool reader::ends_with_commit() const noexcept {
  return std::ranges::any_of(replicas_, [](auto const& r) { return r->ends_with_commit(); });
}

bool reader::keeps_commit(std::size_t table) const noexcept {
  return own_may_lag_ || replicas_[table]->has_base();
}

/// Own commits that are kept until somebody says that they are in: nobody tells a worker that only
/// pushes.
std::size_t reader::kept_commits() const noexcept {
  std::size_t most = 0;
  for (auto const& r : replicas_) most = std::max(most, r->kept_commits());
  return most;
}

/// Gives up, before the commit is sent, what the next clock could not read anyway: then stores
/// need not keep a state for it.
void reader::drop_useless_copies() {
  clock_index const least = admission_.cache_need(clock_.next(), bound(), header_.from.worker);
  freshness const next{clock_index::lowest(), clock_index::highest(), least};
  for (auto const& r : replicas_) {
    // A base that lacks too many own commits costs more to bring up to date than to fetch anew.
    if (!r->base_usable(next) || r->kept_commits() >= kept_commits_max) r->drop_base();
    r->drop_rows_unless_from(least);
  }
}

/// Whether the least `c_min` that lets the next clock's read go on makes this commit visible to
/// it. Holds for `eager` and `strict`; where it does not, own commits stay in the replica until
/// every server has said that they are in.
bool reader::next_read_includes_own() const noexcept {
  if (!visibility_.holds_back() || by_rounds()) return true;
  clock_index const next = clock_.next();
  clock_index const needed = admission_.need(next, bound(), header_.from.worker);
  return visibility_.horizon({.c_min = needed, .bound = bound()}) >= next;
}

}  // namespace rubato::detail
