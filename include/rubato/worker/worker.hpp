// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/flat.hpp"
#include "rubato/core/random.hpp"
#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/transport/concepts.hpp"
#include "rubato/worker/argument_check.hpp"
#include "rubato/worker/pacer.hpp"
#include "rubato/worker/reader.hpp"
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
        random_(seed, self.worker.value(), self.incarnation.value()),
        pacer_(system.protocol_used().pace(), self.worker),
        check_(system, rank),
        reads_(link, system, self, server_id{rank % system.servers()}, check_, pacer_, metrics_) {}
  worker(worker const&) = delete;
  worker& operator=(worker const&) = delete;

  // ---- who and when

  /// This worker's place among the workers, from 0; a joiner takes the next number.
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  /// How many workers the run began with; for one that joined later at least `rank() + 1`, so that
  /// `shard(rank(), count())` is a part of the data for everyone.
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] worker_id id() const noexcept { return self_.worker; }
  /// The number of this worker's commits; a joiner starts where the others are.
  [[nodiscard]] clock_index clock() const noexcept { return reads_.clock(); }
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
    reads_.start(at);
    count_ = std::max(count, rank_ + 1);
    started_ = link_.now();
    live_ = true;
    begin_clock(started_);
  }
  /// The body has returned: what it pushed last is not lost.
  void finish() {
    if (pushed_) commit(true);
    else reads_.end_prefetch();
    end();
  }
  /// The handle is of no use any more; time is up.
  void end() {
    if (!live_) return;
    live_ = false;
    metrics_.compute = link_.now() - started_ - metrics_.send - metrics_.wait;
    reads_.end();
  }
  template <std::size_t I>
  [[nodiscard]] auto& slot(server_id s) noexcept {
    return reads_.template replica_of<I>().slot(s);
  }
  /// Where the replica's memory begins, for whoever wants to fetch it early.
  [[nodiscard]] void const* first_part() const noexcept {
    return reads_.template replica_of<0>().first_part();
  }
  [[nodiscard]] sender const& identity() const noexcept { return self_; }

 private:
  template <std::size_t, class, class>
  friend class worker_table;

  // ---- reads

  template <std::size_t I, class Out>
  void pull_whole(Out&& out, std::optional<staleness> s) {
    check_live();
    reads_.template pull_whole<I>(out, s);
  }
  template <std::size_t I, key_range Keys>
  void pull_rows(Keys const& keys, flat<value_type<I>> out, std::optional<staleness> s) {
    check_live();
    reads_.template pull_rows<I>(keys, out, s);
  }
  template <std::size_t I>
  void prefetch_whole() {
    check_live();
    if constexpr (!System::synchronized) reads_.template prefetch_whole<I>();
  }
  template <std::size_t I, key_range Keys>
  void prefetch_rows(Keys const& keys) {
    check_live();
    if constexpr (!System::synchronized) reads_.template prefetch_rows<I>(keys);
  }

  // ---- pushes

  template <std::size_t I>
  void push_whole(flat<value_type<I> const> delta) {
    check_live();
    check_.template whole<I>("push", delta.size());
    check_.template finite<I>("push", delta);
    reads_.enter(reads_.bound());
    ++metrics_.pushes;
    pushed_ = true;
    reads_.template replica_of<I>().push_whole(delta.data());
  }

  template <std::size_t I, key_range Keys>
  void push_rows(Keys const& keys, flat<value_type<I> const> delta) {
    check_live();
    check_.template rows<I>("push", std::ranges::size(keys), delta.size());
    for (auto const raw : keys) (void)check_.template to_key<I>("push", raw);  // all or nothing
    check_.template finite<I>("push", delta);
    reads_.enter(reads_.bound());
    ++metrics_.pushes;
    pushed_ = pushed_ || !delta.empty();
    auto& r = reads_.template replica_of<I>();
    value_type<I> const* from = delta.data();
    for (auto const raw : keys) {
      r.push_row(check_.template to_key<I>("push", raw), from);
      from += r.width();
    }
  }

  // ---- commits

  /// `flush`: what the filter would hold back goes, too.
  void commit(bool flush) {
    check_live();
    reads_.end_prefetch();
    reads_.enter(reads_.bound());
    reads_.make_room_for_commit();
    time_point const before = link_.now();
    bool const keep = reads_.keeps_commit();
    for (std::uint32_t s = 0; s < system_.servers(); ++s) {
      auto message = make_message(server_id{s}, keep, flush);
      metrics_.bytes_sent += message.bytes();
      link_.post(server_id{s}, std::move(message));
    }
    time_point const after = link_.now();
    metrics_.send += after - before;
    ++metrics_.commits;
    reads_.next_clock();
    pacer_.committed(after - before);
    begin_clock(after);
    if constexpr (System::conducted) link_.report_commit(clock());
  }

  [[nodiscard]] typename System::message make_message(server_id s, bool keep, bool flush) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return typename System::message{
          self_,
          clock(),
          reads_.version(),
          {reads_.template replica_of<I>().commit(s, clock(), keep, flush)...}};
    }(std::make_index_sequence<System::table_count>{});
  }

  void begin_clock(time_point now) {
    pushed_ = false;
    pacer_.begin(clock(), now);
  }

  void pause(time_point until) {
    time_point const before = link_.now();
    link_.pause(until);
    metrics_.wait += link_.now() - before;
  }

  void check_live() {
    if (!live_)
      throw usage_error(errc::stale_handle, "worker " + std::to_string(rank_) +
                                                ": the handle was used after its run ended");
    link_.checkpoint();
  }

  Endpoint& link_;
  System const& system_;
  sender self_;
  std::uint32_t rank_;
  std::uint32_t count_ = 0;
  bool live_ = false;
  bool pushed_ = false;  ///< since the last commit
  time_point started_{};

  worker_metrics metrics_;
  random_stream random_;
  pacer<pace_of<protocol_type>> pacer_;
  detail::argument_check<System> check_;
  detail::reader<Endpoint, System> reads_;
};

}  // namespace rubato
