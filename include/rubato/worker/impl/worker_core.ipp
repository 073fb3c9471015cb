// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/worker/argument_check.hpp"
#include "rubato/worker/endpoint.hpp"
#include "rubato/worker/pacer.hpp"
#include "rubato/worker/reader.hpp"
#include "rubato/worker/worker_core.hpp"

namespace rubato {

void endpoint_decorator::post(server_id to, commit_message&& commit) {
  inner_.post(to, std::move(commit));
}

struct worker_core::state {
  explicit state(worker_setup const& s)
      : link(s.link),
        plan(s.plan),
        self(s.self),
        rank(s.rank),
        conducted(s.plan.conducted(s.protocol)),
        pace(s.plan.protocol(s.protocol).pace, s.self.worker),
        check(s.plan, s.rank, s.protocol),
        reads(s.link, s.plan, s.protocol, s.self, server_id{s.rank % s.plan.servers()}, check, pace,
              metrics),
        random(s.seed, s.self.worker.value(), s.self.incarnation.value()) {}

  void check_live() {
    if (!live) refuse_stale();
    link.checkpoint();
  }
  /// Of calls that take some time anyway.
  void check_thread() const {
    if (live && std::this_thread::get_id() != thread) refuse_thread();
  }
  /// Of calls for few rows, where it would be a part of their time: in builds with checks only.
  void check_thread_of_rows() const {
#if defined(RUBATO_CHECKS) || !defined(NDEBUG)
    check_thread();
#endif
  }
  /// A body that reads and adds again and again without a step: where only steps and waiting make time pass it
  /// would never end.
  void note_work(std::uint64_t work) {
    idle_work += work;
    if (idle_work >= idle_work_max) check_progress();
  }
  void note_read(std::size_t table, std::uint64_t work, std::uint32_t round) {
    if (reads.replica_of(table).take_pushed()) unstepped_rounds += round;
    note_work(work);
  }
  void note_push(std::size_t table, std::uint64_t work) {
    reads.replica_of(table).note_pushed();
    note_work(work);
  }
  void check_progress();
  void check_stepped() const;
  [[noreturn]] void refuse_thread() const;
  [[noreturn]] void refuse_stale() const {
    throw usage_error(errc::stale_handle,
                      "worker " + std::to_string(rank) + ": the handle was used after its run ended");
  }
  /// To a whole table.
  void begin_push(std::size_t table, std::byte const* delta, std::size_t elements) {
    check_thread();
    check_live();
    check.whole("push", table, elements);
    check.finite("push", table, delta, elements);
    reads.enter(reads.bound());
    ++metrics.pushes;
    pushed = true;
    note_push(table, work_of_whole(elements));
  }
  void begin_clock(time_point now) {
    pushed = false;
    pace.begin(reads.clock(), now);
  }
  void pause(time_point until) {
    struct waiting {
      state& of;
      time_point since;
      ~waiting() { of.metrics.wait += of.link.now() - since; }
    } const until_it_ends{*this, link.now()};  // be it since the run is stopped
    link.pause(until);
  }
  void commit(bool flush);
  [[nodiscard]] commit_message make_message(server_id s, bool flush);

  endpoint& link;
  blueprint const& plan;
  sender self;
  std::uint32_t rank;
  std::uint32_t count = 0;
  bool joined = false;
  bool live = false;
  bool conducted;
  bool pushed = false;  ///< since the last commit
  time_point started{};
  std::thread::id thread{};             ///< that the body runs in
  std::uint64_t idle_work = 0;          ///< of pulls and pushes since the last step or commit
  time_point idle_since{};
  std::uint64_t unstepped_rounds = 0;   ///< reads of a table that came after a push to it, until a step; see below

  // Work is counted in rows. A read of a whole table is as many as it may take the time of.
  static constexpr std::uint64_t idle_work_max = 1'000'000'000;
  [[nodiscard]] static std::uint64_t work_of_whole(std::size_t elements) noexcept { return 1000 + elements / 100; }
  // Three rounds of pushing to a whole table and pulling it again, or 3000 by key: one pass over some rows may be one
  // local step.
  static constexpr std::uint32_t round_of_whole = 1000, round_of_rows = 1;
  static constexpr std::uint64_t unstepped_rounds_max = 3000;

  pacer pace;
  detail::argument_check check;
  detail::reader reads;
  worker_metrics metrics;
  random_stream random;
  std::vector<std::uint64_t> keys;
};

worker_core::worker_core(worker_setup const& setup) : state_(std::make_unique<state>(setup)) {}
worker_core::~worker_core() = default;

// ---- who and when

std::uint32_t worker_core::rank() const noexcept { return state_->rank; }
std::uint32_t worker_core::count() const noexcept { return state_->count; }
bool worker_core::has_joined() const noexcept { return state_->joined; }
worker_id worker_core::id() const noexcept { return state_->self.worker; }
clock_index worker_core::clock() const noexcept { return state_->reads.clock(); }
std::int64_t worker_core::steps_since_commit() const noexcept { return state_->pace.steps(); }
time_point worker_core::now() const { return state_->link.now(); }
random_stream& worker_core::random() noexcept { return state_->random; }
worker_metrics const& worker_core::metrics() const noexcept { return state_->metrics; }

// ---- clock

bool worker_core::step(double work) {
  state& s = *state_;
  s.check_thread();
  s.check_live();
  s.idle_work = 0;
  if (!(work >= 0) || !std::isfinite(work))
    throw usage_error(errc::bad_option, "step: worker " + std::to_string(s.rank) + ": work is " +
                                            std::to_string(work) + ", expected a finite number of units, 0 or more");
  s.link.charge(work);
  s.pace.step();
  ++s.metrics.steps;
  auto const now = [&s] { return s.link.now(); };
  if (s.conducted)
    while (auto const order = s.link.take_order()) s.pace.follow(*order);
  if (auto const until = s.pace.pause(now); until != time_point::min()) s.pause(until);
  if (!s.pace.due(now)) return false;
  commit();
  return true;
}

void worker_core::report_loss(double loss) {
  state_->check_thread();
  state_->check_live();
  if (state_->conducted) state_->link.report_loss(loss);
}

void worker_core::commit() { state_->commit(false); }

/// `flush`: what the filter would hold back goes, too.
void worker_core::state::commit(bool flush) {
  check_thread();
  check_live();
  idle_work = 0;
  reads.end_prefetch();
  reads.enter(reads.bound());
  reads.make_room_for_commit();
  time_point const before = link.now();
  reads.prepare_commit(flush);
  for (std::uint32_t s = 0; s < plan.servers(); ++s) {
    commit_message message = make_message(server_id{s}, flush);
    metrics.bytes_sent += message.bytes();
    link.post(server_id{s}, std::move(message));
  }
  time_point const after = link.now();
  metrics.send += after - before;
  ++metrics.commits;
  reads.next_clock();
  pace.committed(after - before);
  begin_clock(after);
  if (conducted) link.report_commit(reads.clock());
}

void worker_core::state::check_progress() {
  time_point const now = link.now();
  if (now == idle_since)
    throw usage_error(errc::deadlock,
                      "worker " + std::to_string(rank) + ": it pulls and pushes for ever at " +
                          std::to_string(std::chrono::duration<double>(now - time_point{}).count()) +
                          " s of virtual time, which these do not make pass; end each local step by step() or "
                          "commit()");
  idle_since = now;
  idle_work = 0;
}

/// What was pushed last is committed at the end; but a body that trained for several rounds meant more than one update.
void worker_core::state::check_stepped() const {
  if (metrics.steps != 0 || metrics.commits != 0 || unstepped_rounds < unstepped_rounds_max) return;
  throw usage_error(errc::bad_option, "worker " + std::to_string(rank) + ": its body has returned after " +
                                          std::to_string(metrics.pulls) + " pulls and " +
                                          std::to_string(metrics.pushes) +
                                          " pushes without a step, so all of it would be one update; call step() after "
                                          "each mini-batch, or commit()");
}

void worker_core::state::refuse_thread() const {
  throw usage_error(errc::stale_handle, "worker " + std::to_string(rank) +
                                            ": its handle was used from another thread than its body's; let the body's "
                                            "thread pull, push and step, or run more workers");
}

commit_message worker_core::state::make_message(server_id s, bool flush) {
  commit_message m{.from = self, .stamp = reads.clock(), .version = reads.version(), .parts = {}};
  for (std::size_t i = 0; i < plan.tables().size(); ++i)
    m.parts.push_back(reads.replica_of(i).commit(s, m.stamp, reads.keeps_commit(i), flush));
  return m;
}

// ---- for whoever runs the worker

void worker_core::start(starting_point const& at, std::uint32_t count) {
  state& s = *state_;
  s.reads.start(at);
  s.count = std::max(count, s.rank + 1);
  s.joined = s.rank >= count;
  s.started = s.idle_since = s.link.now();
  s.thread = std::this_thread::get_id();
  s.live = true;
  s.begin_clock(s.started);
}

void worker_core::finish() {
  state& s = *state_;
  s.check_stepped();
  bool const ends_with_commit = s.reads.ends_with_commit();
  if (s.pushed && ends_with_commit) s.commit(false);  // the one that ends takes back what was sent before it
  if (s.pushed || (s.metrics.commits != 0 && ends_with_commit)) s.commit(true);
  else if (s.reads.end_prefetch()) RUBATO_RARE("a worker ends while its copies are renewed");
  end();
}

void worker_core::end() {
  state& s = *state_;
  if (!s.live) return;
  s.live = false;
  s.metrics.compute = s.link.now() - s.started - s.metrics.send - s.metrics.wait;
  s.reads.end();
}

read_slot& worker_core::slot(std::size_t table, server_id s) noexcept {
  return state_->reads.replica_of(table).slot(s);
}
std::span<std::byte const> worker_core::footprint() const noexcept {
  auto const* const first = reinterpret_cast<std::byte const*>(state_.get());
  return {first, reinterpret_cast<std::byte const*>(&state_->metrics.staleness)};  // of which most is not touched
}
void const* worker_core::first_part() const noexcept {
  return state_->reads.replica_of(0).first_part();
}
sender const& worker_core::identity() const noexcept { return state_->self; }

// ---- what typed handles are made of

void worker_core::pull_whole(std::size_t table, std::byte* out, std::size_t elements,
                             std::optional<staleness> s) {
  state_->check_thread();
  state_->check_live();
  state_->note_read(table, state::work_of_whole(elements), state::round_of_whole);
  state_->reads.pull_whole(table, out, elements, s);
  if (replica& r = state_->reads.replica_of(table); r.filtered()) r.saw_whole(out);
}

void worker_core::pull_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values,
                               std::optional<staleness> s) {
  state_->check_thread();
  state_->check_live();
  state_->reads.pull_touched(table, keys, values, s);
  state_->note_read(table, state::work_of_whole(values.size_bytes() / sizeof(float)), state::round_of_whole);
}

void worker_core::pull_rows(std::size_t table, key_list keys, std::byte* out, std::size_t elements,
                            std::optional<staleness> s) {
  state_->check_thread_of_rows();
  state_->check_live();
  state_->note_read(table, keys.size() + 1, state::round_of_rows);
  state_->reads.pull_rows(table, keys, out, elements, s);
  if (replica& r = state_->reads.replica_of(table); r.filtered()) r.saw_rows(keys, out);
}

void worker_core::pull_together(std::span<pull_wish const> wishes, std::optional<staleness> s) {
  state_->check_thread();
  state_->check_live();
  state_->reads.pull_together(wishes, s);
  for (pull_wish const& w : wishes) {
    if (w.whole()) state_->note_read(w.table(), state::work_of_whole(w.elements()), state::round_of_whole);
    else state_->note_read(w.table(), w.keys().size() + 1, state::round_of_rows);
    replica& r = state_->reads.replica_of(w.table());
    if (!r.filtered()) continue;
    if (w.whole()) r.saw_whole(w.out());
    else r.saw_rows(w.keys(), w.out());
  }
}

void worker_core::prefetch_whole(std::size_t table) {
  state_->check_thread();
  state_->check_live();
  state_->reads.prefetch_whole(table);
}

void worker_core::prefetch_rows(std::size_t table, key_list keys) {
  state_->check_thread();
  state_->check_live();
  state_->reads.prefetch_rows(table, keys);
}

void worker_core::push_whole(std::size_t table, std::byte const* delta, std::size_t elements) {
  state_->begin_push(table, delta, elements);
  state_->reads.replica_of(table).push_whole(delta);
}

update_buffer worker_core::room_for_push(std::size_t table) {
  state_->check_thread();
  state_->check_live();
  return state_->reads.replica_of(table).room();
}

void worker_core::push_whole(std::size_t table, update_buffer written) {
  state_->begin_push(table, written->values.data(), state_->plan.table(table).elements());
  state_->reads.replica_of(table).push_whole(std::move(written));
}

void worker_core::push_rows(std::size_t table, key_list keys, std::byte const* delta,
                            std::size_t elements) {
  state& s = *state_;
  s.check_thread_of_rows();
  s.check_live();
  s.check.rows("push", table, keys.size(), elements);
  s.check.keys("push", table, keys);  // all or nothing
  s.check.finite("push", table, delta, elements);
  s.reads.enter(s.reads.bound());
  ++s.metrics.pushes;
  s.pushed = s.pushed || elements != 0;
  s.note_push(table, keys.size() + 1);
  s.reads.replica_of(table).push_rows(keys, delta);
}

std::vector<std::uint64_t>& worker_core::key_room() noexcept { return state_->keys; }

}  // namespace rubato
