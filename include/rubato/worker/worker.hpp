// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/flat.hpp"
#include "rubato/core/random.hpp"
#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/transport/concepts.hpp"
#include "rubato/worker/pacer.hpp"
#include "rubato/worker/replica.hpp"
#include "rubato/worker/worker_table.hpp"

namespace rubato {

/// What the training body holds: one worker of the protocol. The same in every transport.
///
/// Pulls read the replica; the first one after a commit is ruled by admission and caches, and may
/// wait. Pushes go into the replica at once and to the servers with the next commit. `step` ends a
/// local step, and the protocol's pace decides whether it commits.
/// Thread safety: belongs to the thread (or fiber) that the body runs in.
template <class Endpoint, class System>
class worker {
 public:
  using protocol_type = typename System::protocol_type;
  template <std::size_t I>
  using value_type = typename System::template value_type<I>;

  worker(Endpoint& link, System const& system, sender self, std::uint32_t rank, std::uint64_t seed)
      : link_(link),
        system_(system),
        self_(self),
        rank_(rank),
        admission_(system.protocol_used().admission()),
        pacer_(system.protocol_used().pace(), self.worker),
        visibility_(system.protocol_used().visibility()),
        replicas_(system.make_replicas()),
        random_(seed, self.worker.value(), self.incarnation.value()),
        nearest_(rank % system.servers()) {
    for (std::uint32_t s = 0; s < system.servers(); ++s) servers_.push_back(server_id{s});
  }
  worker(worker const&) = delete;
  worker& operator=(worker const&) = delete;

  // ---- who and when

  /// This worker's place among the workers, from 0; a joiner takes the next number.
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  /// How many workers the run began with.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] worker_id id() const noexcept { return self_.worker; }
  /// The number of this worker's commits; a joiner starts where the others are.
  [[nodiscard]] clock_index clock() const noexcept { return clock_; }
  /// Local steps since the last commit.
  [[nodiscard]] std::int64_t steps_since_commit() const noexcept { return pacer_.steps(); }
  [[nodiscard]] time_point now() const { return link_.now(); }
  /// This worker's own stream: the same numbers for the same seed, whatever the schedule.
  [[nodiscard]] random_stream& random() noexcept { return random_; }
  [[nodiscard]] worker_metrics const& metrics() const noexcept { return metrics_; }

  // ---- tables

  template <std::size_t I>
    requires(I < System::table_count)
  [[nodiscard]] worker_table<I, Endpoint, System> operator[](table_tag<I>) noexcept {
    return worker_table<I, Endpoint, System>(*this);
  }

  /// `worker.pull(…)` and `worker.push(…)` mean the first table.
  void pull(flat<value_type<0>> out)
    requires(System::template table_type<0>::bounded)
  {
    (*this)[table<0>].pull(out);
  }
  void pull(flat<value_type<0>> out, staleness s)
    requires(System::template table_type<0>::bounded)
  {
    (*this)[table<0>].pull(out, s);
  }
  template <key_range Keys>
  void pull(Keys const& keys, flat<value_type<0>> out) {
    (*this)[table<0>].pull(keys, out);
  }
  template <key_range Keys>
  void pull(Keys const& keys, flat<value_type<0>> out, staleness s) {
    (*this)[table<0>].pull(keys, out, s);
  }
  void prefetch() { (*this)[table<0>].prefetch(); }
  template <key_range Keys>
  void prefetch(Keys const& keys) {
    (*this)[table<0>].prefetch(keys);
  }
  void push(flat<value_type<0> const> delta)
    requires(System::template table_type<0>::bounded)
  {
    (*this)[table<0>].push(delta);
  }
  template <key_range Keys>
  void push(Keys const& keys, flat<value_type<0> const> delta) {
    (*this)[table<0>].push(keys, delta);
  }

  // ---- clock

  /// Ends a local step that took `work` units (examples, usually), and commits if the pace says so.
  /// Returns whether it did.
  bool step(double work = 1.0) {
    check_live();
    if (!(work >= 0))
      throw usage_error(errc::bad_option, "step: worker " + std::to_string(rank_) + ": work is " +
                                              std::to_string(work) + ", expected 0 or more units");
    link_.charge(work);
    pacer_.step();
    ++metrics_.steps;
    auto const now = [this] { return link_.now(); };
    if constexpr (System::conducted)
      while (auto const order = link_.take_order()) pacer_.follow(*order);
    if (auto const until = pacer_.pause(now)) pause(*until);
    if (!pacer_.due(now)) return false;
    commit();
    return true;
  }

  /// Reports what this worker's training came to, a mini-batch's mean loss for example, to a pace
  /// that goes by the loss. Nothing happens where no pace asks, or where the run evaluates the loss
  /// itself; what is not finite is ignored. A worker's losses are those of its replica: between
  /// commits they fall by its own steps alone, so a loss that the run evaluates says more.
  void report_loss(double loss) {
    check_live();
    if constexpr (System::conducted) link_.report_loss(loss);
  }

  /// Sends what has been pushed since the last commit, and moves to the next clock. Waits as a push
  /// does, and for a prefetch. O(size pushed).
  void commit() { commit(false); }

  // ---- for whoever runs the worker

  /// Starts at this clock among `count` workers.
  void start(starting_point const& at, std::uint32_t count) {
    clock_ = at.clock;
    version_ = at.version;
    count_ = count;
    started_ = link_.now();
    live_ = true;
    begin_clock(started_);
  }
  /// The body has returned: what it pushed last is not lost.
  void finish() {
    if (pushed_) commit(true);
    else end_prefetch();
    end();
  }
  /// The handle is of no use any more; time is up.
  void end() {
    if (!live_) return;
    live_ = false;
    metrics_.compute = link_.now() - started_ - metrics_.send - metrics_.wait;
    System::for_each_table([&](auto tag) {
      auto& r = replica_of<decltype(tag)::index>();
      r.drop_base();
      r.drop_rows();
      r.drop_committed();
    });
  }
  template <std::size_t I>
  [[nodiscard]] auto& slot(server_id s) noexcept {
    return replica_of<I>().slot(s);
  }
  /// Where the replica's memory begins, for whoever wants to fetch it early.
  [[nodiscard]] void const* first_part() const noexcept {
    return std::get<0>(replicas_).first_part();
  }
  [[nodiscard]] sender const& identity() const noexcept { return self_; }

 private:
  template <std::size_t, class, class>
  friend class worker_table;
  using visibility_type = visibility_of<protocol_type>;

  template <std::size_t I>
  [[nodiscard]] auto& replica_of() noexcept {
    return std::get<I>(replicas_);
  }

  void pause(time_point until) {
    time_point const before = link_.now();
    link_.pause(until);
    metrics_.wait += link_.now() - before;
  }

  // ---- admission

  /// The first read or push of a clock waits until its need is met; a worker that already knows of a
  /// sufficient `c_min` asks nobody. Any server's will do: what it has received has been committed.
  void enter(staleness s) {
    if (admission_.need(clock_, s) <= known_) return;
    if (end_prefetch() && admission_.need(clock_, s) <= known_) return;
    if constexpr (System::synchronized) {
      (void)fetch_cut(s, false);
    } else {
      std::span<server_id const> const ask = own_may_lag_
                                                 ? std::span<server_id const>(servers_)
                                                 : std::span<server_id const>(&nearest_, 1);
      for (server_id const server : ask) slot<0>(server).asked = selection::nothing;
      fetch<0>(ask, s);
    }
  }

  /// Waits to be let in by the coordinator, which answers with a cut.
  [[nodiscard]] shared_cut fetch_cut(staleness s, bool pull) {
    time_point const before = link_.now();
    cut_.pull = pull;
    link_.request_cut({self_, clock_, s, {}}, cut_);
    link_.wait();
    known_ = std::max(known_, cut_.cut->c_min());
    for (server_id const server : servers_) acknowledge(server, cut_.cut->of(self_.worker));
    metrics_.bytes_received += cut_.cut->bytes();
    count_time(before, cut_.admitted - cut_.arrived);
    return std::exchange(cut_.cut, nullptr);
  }

  /// Sends the requests that the slots hold, and waits for the answers.
  template <std::size_t I>
  void fetch(std::span<server_id const> from, staleness s) {
    RUBATO_ASSERT(accept_prefetched_ == nullptr);
    shared_cut cut;
    duration const send_before = metrics_.send;
    if constexpr (System::synchronized) cut = fetch_cut(s, true);
    time_point const before = link_.now();
    request<I>(from, s, std::move(cut));
    collect<I>(from, before, send_before);
  }

  template <std::size_t I>
  void request(std::span<server_id const> from, staleness s, shared_cut cut = {}) {
    read_header const header{self_, clock_, s, std::move(cut)};
    for (server_id const server : from) link_.request(server, table<I>, header, slot<I>(server));
  }

  /// Waits for the answers. The time since `before` is counted, and all that was sent since
  /// `send_before`.
  template <std::size_t I>
  void collect(std::span<server_id const> from, time_point before, duration send_before) {
    link_.wait();
    duration held{};
    for (server_id const server : from) {
      auto& answer = slot<I>(server);
      known_ = std::max(known_, answer.stamp.server_clock);
      version_ = std::max(version_, answer.stamp.version);
      held = std::max(held, answer.admitted - answer.arrived);
      acknowledge(server, answer.stamp.included);
      metrics_.bytes_sent += answer.request_bytes();
      metrics_.bytes_received += answer.reply_bytes();
    }
    if constexpr (System::synchronized) link_.release_cut(self_.worker);
    count_time(before, held);
    pacer_.fetched(metrics_.send - send_before);
  }

  /// A server's answer, or a cut, includes the own commits with stamps below `included`.
  void acknowledge(server_id server, clock_index included) {
    System::for_each_table([&](auto tag) {
      replica_of<decltype(tag)::index>().acknowledge(server, included);
    });
  }

  /// Of the time since `before`, `held` was spent waiting to be let in.
  void count_time(time_point before, duration held) {
    duration const total = link_.now() - before;
    held = std::clamp(held, duration::zero(), total);
    metrics_.wait += held;
    metrics_.send += total - held;
  }

  template <std::size_t I>
  [[nodiscard]] staleness allowed(std::optional<staleness> s) const {
    if (!s) return admission_.bound();
    if (*s > admission_.bound())
      throw usage_error(errc::bad_staleness, where<I>("pull") + "staleness " +
                                                 std::to_string(s->clocks()) +
                                                 " is more than the protocol's " +
                                                 std::to_string(admission_.bound().clocks()));
    return *s;
  }

  /// Whether a cached copy will do for a read at this clock: by the cache column of the rules for
  /// the first read, and between commits if it was fetched since the last one.
  [[nodiscard]] auto usable(staleness s) const noexcept {
    return [this, need = admission_.need(clock_, s),
            cache_need = admission_.cache_need(clock_, s)](fetch_mark const& m) {
      return m.server_clock >= cache_need || (m.at == clock_ && m.need >= need);
    };
  }

  void count_read(clock_index server_clock) {
    ++metrics_.pulls;
    if (std::exchange(read_this_clock_, true)) return;
    auto const behind = static_cast<std::uint64_t>(
        std::max<std::int64_t>(0, distance(std::min(server_clock, clock_), clock_)));
    ++metrics_.staleness[std::min<std::uint64_t>(behind, metrics_.staleness.size() - 1)];
  }

  // ---- prefetches: the requests of the next pull have been sent, and their answers may have come

  template <std::size_t I>
  void prefetch_whole() {
    check_live();
    if constexpr (!System::synchronized) {
      end_prefetch();
      auto& r = replica_of<I>();
      staleness const s = admission_.bound();
      if (r.base_readable(usable(s))) return;
      r.drop_base();
      for (server_id const server : servers_) slot<I>(server).asked = selection::all;
      start_prefetch<I>(servers_, s, &worker::template accept_whole<I>);
    }
  }

  template <std::size_t I, key_range Keys>
  void prefetch_rows(Keys const& keys) {
    check_live();
    if constexpr (!System::synchronized) {
      end_prefetch();
      auto& r = replica_of<I>();
      staleness const s = admission_.bound();
      auto const fresh = usable(s);
      bool const base_ok = r.base_readable(fresh);
      unwanted_.resize(r.width() * sizeof(value_type<I>));
      auto* const to = reinterpret_cast<value_type<I>*>(unwanted_.data());
      missing_.clear();
      for (auto const raw : keys)
        if (key const k = to_key<I>("prefetch", raw); !r.read_row(k, base_ok, fresh, to))
          missing_.push_back({k, {}, 0, 0});
      if (missing_.empty()) return;
      address_missing<I>();
      start_prefetch<I>(asked_, s, &worker::template accept_missing<I>);
    }
  }

  template <std::size_t I>
  void start_prefetch(std::span<server_id const> from, staleness s, void (worker::*accept)()) {
    prefetched_from_.assign(from.begin(), from.end());
    request<I>(from, s);
    if constexpr (prefetching_endpoint<Endpoint>) link_.start();
    accept_prefetched_ = accept;
  }
  /// Before anything else uses the slots: waits for the answers. Whether there was a prefetch.
  bool end_prefetch() {
    if (accept_prefetched_ == nullptr) return false;
    (this->*std::exchange(accept_prefetched_, nullptr))();
    return true;
  }
  template <std::size_t I>
  void accept_whole() {
    collect<I>(prefetched_from_, link_.now(), metrics_.send);
    ++metrics_.fetches;
    replica_of<I>().accept_base(mark_of_fetch(admission_.bound()));
  }
  template <std::size_t I>
  void accept_missing() {
    collect<I>(prefetched_from_, link_.now(), metrics_.send);
    ++metrics_.fetches;
    auto* const to = reinterpret_cast<value_type<I>*>(unwanted_.data());
    for (missing_row const& m : missing_)
      replica_of<I>().accept_row(m.row, m.server, m.index, mark_of_fetch(admission_.bound()), to);
  }

  // ---- reads

  template <std::size_t I, class Out>
  void pull_whole(Out&& out, std::optional<staleness> asked) {
    check_live();
    end_prefetch();
    auto& r = replica_of<I>();
    if constexpr (System::template table_type<I>::bounded) check_size<I>("pull", out.size());
    staleness const s = allowed<I>(asked);
    if (r.base_readable(usable(s))) {
      enter(s);
    } else {
      r.drop_base();
      if constexpr (scattering_endpoint<Endpoint> && System::template table_type<I>::bounded)
        if (link_.scatters() && r.prefers_no_base()) return pull_scattered<I>(out, s);
      fetch_whole<I>(s);
      r.accept_base(mark_of_fetch(s));
    }
    count_read(r.base_clock());
    time_point const before = link_.now();
    if constexpr (System::template table_type<I>::bounded) r.read_whole(out.data());
    else r.read_whole(out);
    metrics_.send += link_.now() - before;
  }

  template <std::size_t I>
  void fetch_whole(staleness s) {
    for (server_id const server : servers_) slot<I>(server).asked = selection::all;
    fetch<I>(servers_, s);
    ++metrics_.fetches;
  }

  /// Has the whole table written where the user wants it, without a base in between.
  template <std::size_t I>
  void pull_scattered(flat<value_type<I>> out, staleness s) {
    auto& r = replica_of<I>();
    struct ending {
      std::remove_reference_t<decltype(r)>& of;
      ~ending() { of.end_scatter(); }
    } const at_exit{r};
    r.scatter(out.data());
    fetch_whole<I>(s);
    time_point const before = link_.now();
    r.accept_scattered(mark_of_fetch(s), out.data());
    metrics_.send += link_.now() - before;
    count_read(r.base_clock());
  }

  template <std::size_t I, key_range Keys>
  void pull_rows(Keys const& keys, flat<value_type<I>> out, std::optional<staleness> asked) {
    check_live();
    end_prefetch();
    auto& r = replica_of<I>();
    check_rows<I>("pull", std::ranges::size(keys), out.size());
    staleness const s = allowed<I>(asked);
    auto const fresh = usable(s);
    bool const base_ok = r.base_readable(fresh);
    missing_.clear();
    std::size_t i = 0;
    clock_index oldest = clock_index::highest();
    std::uint64_t first_fetch = 0;
    bool mixed = false;
    for (auto const raw : keys) {
      key const k = to_key<I>("pull", raw);
      if (auto const from = r.read_row(k, base_ok, fresh, out.data() + i * r.width())) {
        oldest = std::min(oldest, from->server_clock);
        if (first_fetch == 0) first_fetch = from->fetch;
        mixed = mixed || from->fetch != first_fetch;
      } else {
        missing_.push_back({k, {}, 0, i});
      }
      ++i;
    }
    if (i == 0) return;
    if (System::synchronized && (mixed || (!missing_.empty() && missing_.size() != i))) {
      miss_all<I>(keys);  // PS-1: rows of one read are of one cut
      oldest = clock_index::highest();
    }
    if (missing_.empty()) enter(s);
    else fetch_rows<I>(s);
    for (missing_row const& m : missing_) {
      r.accept_row(m.row, m.server, m.index, mark_of_fetch(s), out.data() + m.position * r.width());
      oldest = std::min(oldest, r.slot(m.server).stamp.server_clock);
    }
    count_read(oldest);
  }

  template <std::size_t I, key_range Keys>
  void miss_all(Keys const& keys) {
    missing_.clear();
    for (auto const raw : keys) missing_.push_back({to_key<I>("pull", raw), {}, 0, missing_.size()});
  }

  /// How what has just been fetched is marked, but for the server's clock.
  [[nodiscard]] fetch_mark mark_of_fetch(staleness s) const noexcept {
    return {.at = clock_, .need = admission_.need(clock_, s), .fetch = metrics_.fetches};
  }

  /// Asks each server for the missing rows that it holds.
  template <std::size_t I>
  void fetch_rows(staleness s) {
    address_missing<I>();
    fetch<I>(asked_, s);
    ++metrics_.fetches;
  }

  /// Writes the missing rows into the slots of the servers that hold them, which are then in `asked_`.
  template <std::size_t I>
  void address_missing() {
    auto& r = replica_of<I>();
    asked_.clear();
    for (missing_row& m : missing_) {
      layout::place const at = r.locator().locate(m.row);
      auto& slot = r.slot(at.server);
      if (std::ranges::find(asked_, at.server) == asked_.end()) {
        asked_.push_back(at.server);
        slot.asked = selection::rows;
        slot.rows.clear();
        slot.row_stamps.clear();
      }
      m.server = at.server;
      m.index = slot.rows.size();
      slot.rows.push_back(at.local);
    }
    if (own_may_lag_ && !System::synchronized)  // a cut says it for all servers
      for (server_id const server : servers_)
        if (std::ranges::find(asked_, server) == asked_.end()) {
          r.slot(server).asked = selection::nothing;
          asked_.push_back(server);
        }
  }

  // ---- pushes

  template <std::size_t I>
  void push_whole(flat<value_type<I> const> delta) {
    check_live();
    check_size<I>("push", delta.size());
    check_finite<I>(delta);
    enter(admission_.bound());
    ++metrics_.pushes;
    pushed_ = true;
    replica_of<I>().push_whole(delta.data());
  }

  template <std::size_t I, key_range Keys>
  void push_rows(Keys const& keys, flat<value_type<I> const> delta) {
    check_live();
    check_rows<I>("push", std::ranges::size(keys), delta.size());
    for (auto const raw : keys) (void)to_key<I>("push", raw);  // all or nothing
    check_finite<I>(delta);
    enter(admission_.bound());
    ++metrics_.pushes;
    pushed_ = pushed_ || !delta.empty();
    auto& r = replica_of<I>();
    value_type<I> const* from = delta.data();
    for (auto const raw : keys) {
      r.push_row(to_key<I>("push", raw), from);
      from += r.width();
    }
  }

  // ---- commits

  /// `flush`: what the filter would hold back goes, too.
  void commit(bool flush) {
    check_live();
    end_prefetch();
    enter(admission_.bound());
    if (kept_commits() >= kept_commits_max) ask_what_is_in();
    time_point const before = link_.now();
    bool const keeps_base = next_clock_may_use_base();
    own_may_lag_ = own_may_lag_ || !next_read_includes_own() || shares_reads();
    for (std::uint32_t s = 0; s < system_.servers(); ++s) {
      auto message = make_message(server_id{s}, keeps_base, flush);
      metrics_.bytes_sent += message.bytes();
      link_.post(server_id{s}, std::move(message));
    }
    time_point const after = link_.now();
    metrics_.send += after - before;
    ++metrics_.commits;
    clock_ = clock_.next();
    version_ = version_index{version_.value() + 1};
    pacer_.committed(after - before);
    begin_clock(after);
    if constexpr (System::conducted) link_.report_commit(clock_);
  }

  [[nodiscard]] typename System::message make_message(server_id s, bool keeps_base, bool flush) {
    bool const keep = keeps_base || own_may_lag_;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return typename System::message{
          self_, clock_, version_, {replica_of<I>().commit(s, clock_, keep, flush)...}};
    }(std::make_index_sequence<System::table_count>{});
  }

  /// For a worker that keeps its commits and reads too rarely to be told.
  void ask_what_is_in() {
    if constexpr (System::synchronized) {
      (void)fetch_cut(admission_.bound(), false);
    } else if (shares_reads()) {
      for (server_id const server : servers_) slot<0>(server).asked = selection::nothing;
      fetch<0>(servers_, admission_.bound());
    }
  }

  /// Own commits that are kept until somebody says that they are in: nobody tells a worker that only
  /// pushes.
  [[nodiscard]] std::size_t kept_commits() const noexcept {
    return std::apply([](auto const&... r) { return std::max({r.kept_commits()...}); }, replicas_);
  }

  /// Gives up, before the commit is sent, what the next clock could not read anyway: then stores
  /// need not keep a state for it.
  [[nodiscard]] bool next_clock_may_use_base() {
    clock_index const need = admission_.cache_need(clock_.next(), admission_.bound());
    bool any = false;
    System::for_each_table([&](auto tag) {
      auto& r = replica_of<decltype(tag)::index>();
      auto const still = [need](fetch_mark const& m) { return m.server_clock >= need; };
      // A base that lacks too many own commits costs more to bring up to date than to fetch anew.
      if (r.base_usable(still) && r.kept_commits() < kept_commits_max) any = true;
      else r.drop_base();
      r.drop_rows_unless_from(need);
    });
    return any;
  }

  /// Whether the least `c_min` that lets the next clock's read go on makes this commit visible to
  /// it. Holds for `eager` and `strict`; where it does not, own commits stay in the replica until
  /// every server has said that they are in.
  [[nodiscard]] bool next_read_includes_own() const noexcept {
    if constexpr (!visibility_type::holds_back) return true;
    clock_index const next = clock_.next();
    staleness const s = admission_.bound();
    return visibility_.horizon({.c_min = admission_.need(next, s), .bound = s}) >= next;
  }

  /// Whether answers may be to others' questions, which went out before this worker's last commits.
  [[nodiscard]] bool shares_reads() const noexcept {
    if constexpr (sharing_endpoint<Endpoint>) return link_.shares_reads();
    return false;
  }

  void begin_clock(time_point now) {
    pushed_ = false;
    read_this_clock_ = false;
    pacer_.begin(clock_, now);
  }

  // ---- misuse

  void check_live() {
    if (!live_)
      throw usage_error(errc::stale_handle, "worker " + std::to_string(rank_) +
                                                ": the handle was used after its run ended");
    link_.checkpoint();
  }

  template <std::size_t I>
  [[nodiscard]] std::string where(char const* call) const {
    return std::string(call) + ": worker " + std::to_string(rank_) + ", table " +
           std::to_string(I) + ": ";
  }

  template <std::size_t I>
  void check_size(char const* call, std::size_t given) const {
    auto const& t = system_.template spec<I>();
    std::size_t const expected = static_cast<std::size_t>(t.rows) * t.width;
    if (given != expected)
      throw usage_error(errc::wrong_size, where<I>(call) + "the span has " + std::to_string(given) +
                                              " elements, expected " + std::to_string(expected) +
                                              " (rows x width)");
  }

  template <std::size_t I>
  void check_rows(char const* call, std::size_t keys, std::size_t given) const {
    std::size_t const width = system_.template spec<I>().width;
    if (given != keys * width)
      throw usage_error(errc::wrong_size, where<I>(call) + "the span has " + std::to_string(given) +
                                              " elements, expected " + std::to_string(keys * width) +
                                              " (keys x width)");
  }

  template <std::size_t I, class Raw>
  [[nodiscard]] key to_key(char const* call, Raw raw) const {
    key k;
    if constexpr (std::same_as<Raw, key>) k = raw;
    else k = key{static_cast<std::uint64_t>(raw)};
    if (!std::get<I>(replicas_).locator().contains(k))
      throw usage_error(errc::unknown_key, where<I>(call) + "key " + std::to_string(k.value()) +
                                               " is not in the table, expected one below " +
                                               std::to_string(system_.template spec<I>().rows));
    return k;
  }

  template <std::size_t I>
  void check_finite(flat<value_type<I> const> delta) const {
    if constexpr (std::floating_point<value_type<I>>) {
      if (!system_.template spec<I>().check_finite) return;
      auto const bad = std::ranges::find_if(delta, [](auto x) { return !std::isfinite(x); });
      if (bad != delta.end())
        throw usage_error(errc::not_finite,
                          where<I>("push") + "element " + std::to_string(bad - delta.begin()) +
                              " of the update is " + (std::isnan(*bad) ? "NaN" : "infinite"));
    }
  }

  struct missing_row {
    key row;
    server_id server;
    std::size_t index;     ///< in the server's slot
    std::size_t position;  ///< in the caller's list
  };

  static constexpr std::size_t kept_commits_max = 64;

  Endpoint& link_;
  System const& system_;
  sender self_;
  std::uint32_t rank_;
  std::uint32_t count_ = 0;
  bool live_ = false;

  admission_of<protocol_type> admission_;
  pacer<pace_of<protocol_type>> pacer_;
  visibility_of<protocol_type> visibility_;
  typename System::replicas replicas_;
  random_stream random_;

  clock_index clock_{};
  clock_index known_ = clock_index::lowest();  ///< the greatest `c_min` that a server told
  version_index version_{};
  bool read_this_clock_ = false;
  bool pushed_ = false;  ///< since the last commit
  bool own_may_lag_ = false;

  time_point started_{};
  std::vector<server_id> servers_;
  server_id nearest_;
  cut_slot cut_;
  std::vector<missing_row> missing_;
  std::vector<server_id> asked_;
  void (worker::*accept_prefetched_)() = nullptr;  ///< a prefetch is under way
  std::vector<server_id> prefetched_from_;
  std::vector<std::byte> unwanted_;  ///< a row that nobody has asked to see
  worker_metrics metrics_;
};

}  // namespace rubato
