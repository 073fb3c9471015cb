// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/flat.hpp"
#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/transport/concepts.hpp"
#include "rubato/worker/argument_check.hpp"
#include "rubato/worker/pacer.hpp"
#include "rubato/worker/replica.hpp"
#include "rubato/worker/worker_table.hpp"

namespace rubato::detail {

/// How a worker reads: whether it may go on (admission), which copies of its replicas will do, what is
/// asked of which server, and what has been asked ahead of time. Knows the worker's clock, and what
/// servers have told of the others'. Not synchronized.
template <class Endpoint, class System>
class reader {
 public:
  using protocol_type = typename System::protocol_type;
  using pacer_type = pacer<pace_of<protocol_type>>;
  template <std::size_t I>
  using value_type = typename System::template value_type<I>;

  /// All that is referred to is the worker's. `nearest` is the server that is asked where any will do.
  reader(Endpoint& link, System const& system, sender self, server_id nearest,
         argument_check<System> const& check, pacer_type& pace, worker_metrics& metrics)
      : link_(link),
        self_(self),
        admission_(system.protocol_used().admission()),
        visibility_(system.protocol_used().visibility()),
        replicas_(system.make_replicas()),
        check_(check),
        pacer_(pace),
        metrics_(metrics),
        nearest_(nearest) {
    for (std::uint32_t s = 0; s < system.servers(); ++s) servers_.push_back(server_id{s});
  }
  reader(reader const&) = delete;
  reader& operator=(reader const&) = delete;

  [[nodiscard]] clock_index clock() const noexcept { return clock_; }
  [[nodiscard]] version_index version() const noexcept { return version_; }
  [[nodiscard]] staleness bound() const noexcept { return admission_.bound(); }
  template <std::size_t I>
  [[nodiscard]] auto& replica_of() noexcept {
    return std::get<I>(replicas_);
  }
  template <std::size_t I>
  [[nodiscard]] auto const& replica_of() const noexcept {
    return std::get<I>(replicas_);
  }

  void start(starting_point const& at) {
    clock_ = at.clock;
    version_ = at.version;
    read_this_clock_ = false;
  }
  /// The worker has committed.
  void next_clock() {
    clock_ = clock_.next();
    version_ = version_index{version_.value() + 1};
    read_this_clock_ = false;
  }
  /// Gives up what has been read: others hold memory for it.
  void end() {
    System::for_each_table([&](auto tag) {
      auto& r = replica_of<decltype(tag)::index>();
      r.drop_base();
      r.drop_rows();
      r.drop_committed();
    });
  }

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

  // ---- pulls

  template <std::size_t I, class Out>
  void pull_whole(Out&& out, std::optional<staleness> asked) {
    end_prefetch();
    auto& r = replica_of<I>();
    if constexpr (System::template table_type<I>::bounded) check_.template whole<I>("pull", out.size());
    staleness const s = check_.template allowed<I>(asked, admission_.bound());
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

  template <std::size_t I, key_range Keys>
  void pull_rows(Keys const& keys, flat<value_type<I>> out, std::optional<staleness> asked) {
    end_prefetch();
    auto& r = replica_of<I>();
    check_.template rows<I>("pull", std::ranges::size(keys), out.size());
    staleness const s = check_.template allowed<I>(asked, admission_.bound());
    auto const fresh = usable(s);
    bool const base_ok = r.base_readable(fresh);
    missing_.clear();
    std::size_t i = 0;
    clock_index oldest = clock_index::highest();
    std::uint64_t first_fetch = 0;
    bool mixed = false;
    for (auto const raw : keys) {
      key const k = check_.template to_key<I>("pull", raw);
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

  // ---- prefetches: the requests of the next pull have been sent, and their answers may have come.
  // Not with synchronized reads, each of which is of a cut of its own.

  template <std::size_t I>
  void prefetch_whole() {
    end_prefetch();
    auto& r = replica_of<I>();
    staleness const s = admission_.bound();
    if (r.base_readable(usable(s))) return;
    r.drop_base();
    for (server_id const server : servers_) slot<I>(server).asked = selection::all;
    start_prefetch<I>(servers_, s, &reader::template accept_whole<I>);
  }

  template <std::size_t I, key_range Keys>
  void prefetch_rows(Keys const& keys) {
    end_prefetch();
    auto& r = replica_of<I>();
    staleness const s = admission_.bound();
    auto const fresh = usable(s);
    bool const base_ok = r.base_readable(fresh);
    unwanted_.resize(r.width() * sizeof(value_type<I>));
    auto* const to = reinterpret_cast<value_type<I>*>(unwanted_.data());
    missing_.clear();
    for (auto const raw : keys)
      if (key const k = check_.template to_key<I>("prefetch", raw); !r.read_row(k, base_ok, fresh, to))
        missing_.push_back({k, {}, 0, 0});
    if (missing_.empty()) return;
    address_missing<I>();
    start_prefetch<I>(asked_, s, &reader::template accept_missing<I>);
  }

  /// Before anything else uses the slots: waits for the answers. Whether there was a prefetch.
  bool end_prefetch() {
    if (accept_prefetched_ == nullptr) return false;
    (this->*std::exchange(accept_prefetched_, nullptr))();
    return true;
  }

  // ---- commits

  /// Before a commit: a worker that keeps its own and reads too rarely to be told asks whether they are
  /// in.
  void make_room_for_commit() {
    if (kept_commits() < kept_commits_max) return;
    if constexpr (System::synchronized) {
      (void)fetch_cut(admission_.bound(), false);
    } else if (shares_reads()) {
      for (server_id const server : servers_) slot<0>(server).asked = selection::nothing;
      fetch<0>(servers_, admission_.bound());
    }
  }
  /// Whether the replicas still need the commit that is about to be sent.
  [[nodiscard]] bool keeps_commit() {
    bool const keeps_base = next_clock_may_use_base();
    own_may_lag_ = own_may_lag_ || !next_read_includes_own() || shares_reads();
    return keeps_base || own_may_lag_;
  }

 private:
  template <std::size_t I>
  [[nodiscard]] auto& slot(server_id s) noexcept {
    return replica_of<I>().slot(s);
  }

  // ---- requests and answers

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

  template <std::size_t I>
  void start_prefetch(std::span<server_id const> from, staleness s, void (reader::*accept)()) {
    prefetched_from_.assign(from.begin(), from.end());
    request<I>(from, s);
    if constexpr (prefetching_endpoint<Endpoint>) link_.start();
    accept_prefetched_ = accept;
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
  void miss_all(Keys const& keys) {
    missing_.clear();
    for (auto const raw : keys)
      missing_.push_back({check_.template to_key<I>("pull", raw), {}, 0, missing_.size()});
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
    if constexpr (!visibility_of<protocol_type>::holds_back) return true;
    clock_index const next = clock_.next();
    staleness const s = admission_.bound();
    return visibility_.horizon({.c_min = admission_.need(next, s), .bound = s}) >= next;
  }

  /// Whether answers may be to others' questions, which went out before this worker's last commits.
  [[nodiscard]] bool shares_reads() const noexcept {
    if constexpr (sharing_endpoint<Endpoint>) return link_.shares_reads();
    return false;
  }

  struct missing_row {
    key row;
    server_id server;
    std::size_t index;     ///< in the server's slot
    std::size_t position;  ///< in the caller's list
  };

  static constexpr std::size_t kept_commits_max = 64;

  Endpoint& link_;
  sender self_;
  admission_of<protocol_type> admission_;
  visibility_of<protocol_type> visibility_;
  typename System::replicas replicas_;
  argument_check<System> const& check_;
  pacer_type& pacer_;
  worker_metrics& metrics_;
  std::vector<server_id> servers_;
  server_id nearest_;

  clock_index clock_{};
  clock_index known_ = clock_index::lowest();  ///< the greatest `c_min` that a server told
  version_index version_{};
  bool read_this_clock_ = false;
  bool own_may_lag_ = false;  ///< own commits may be missing from what servers answer

  cut_slot cut_;
  std::vector<missing_row> missing_;
  std::vector<server_id> asked_;
  void (reader::*accept_prefetched_)() = nullptr;  ///< a prefetch is under way
  std::vector<server_id> prefetched_from_;
  std::vector<std::byte> unwanted_;  ///< a row that nobody has asked to see
};

}  // namespace rubato::detail
