// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/reactor.hpp"
#include "rubato/transport/tcp/arrivals.hpp"
#include "rubato/transport/tcp/bodies.hpp"
#include "rubato/transport/tcp/coordinator_link.hpp"
#include "rubato/transport/tcp/server_stats.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// A server process: one shard of every table, behind links to the worker processes, under the
/// orders of the coordinator. All of it lives in one thread, so nothing is locked.
template <class Plan>
class server_node final : coordinator_user {
 public:
  using shard_type = typename Plan::shard_type;
  using message = typename Plan::message;

  /// `sparse_max` bytes of rows of sparse tables come in one frame at most; `held_max` bytes of one
  /// process's commits are held back at most, beside those that the protocol lets it send.
  server_node(Plan const& p, std::string agreed, net::deployment const& place,
              std::uint64_t sparse_max, std::uint64_t held_max = std::uint64_t{1} << 30)
      : plan_(p),
        place_(place),
        sparse_max_(sparse_max),
        held_max_(held_max),
        door_(reactor_, connection_limits(place),
              [this](auto guest, auto const& said) { welcome(std::move(guest), said); },
              guests_limit(place)),
        listener_(reactor_, place.listening(), place.keys, listener_limits(place),
                  [this](auto fresh) { door_.receive(std::move(fresh)); }),
        coordinator_(reactor_, *this, place,
                     {.as = net::role::server,
                      .rank = place.rank,
                      .listens = announced(place, listener_.bound()).text(),
                      .agreed = std::move(agreed),
                      .pid = 0}) {}

  /// Serves until all workers have left, or `stop` is called.
  /// @throws lost_error when the coordinator is lost, or ends the run because somebody else is; error
  /// (errc::refused) when it does not let this server in
  void run() {
    while (!over_ && !stop_asked_) {
      reactor_.run_one();
      forget_sessions();
    }
    for (auto& [id, s] : sessions_)
      if (failure_) s->link.refuse(failure_->sentence());
      else s->link.close();
    coordinator_.close();
    if (failure_) failure_->raise();
  }
  /// Makes `run` return. Any thread, and signal handlers' threads.
  void stop() noexcept {
    stop_asked_ = true;
    reactor_.interrupt();
  }
  /// Handles what has happened, without waiting: for whoever drives it step by step.
  void poll() {
    reactor_.poll();
    forget_sessions();
  }
  /// Where it listens.
  [[nodiscard]] net::address bound() const { return listener_.bound(); }
  /// Any thread.
  [[nodiscard]] server_stats const& stats() const noexcept { return stats_; }

 private:
  static constexpr std::size_t tables = Plan::table_count;

  template <class Sequence>
  struct slots_of;
  template <std::size_t... I>
  struct slots_of<std::index_sequence<I...>> {
    using type = std::tuple<read_slot<typename Plan::template store_type<I>>...>;
  };
  using slots = typename slots_of<std::make_index_sequence<tables>>::type;
  using question = typename arrivals<Plan>::question;

  /// A worker process, over one link.
  struct session final : net::link_user {
    session(server_node& node, net::hello const& said, std::string const& who)
        : node_(node),
          process(said.number),
          incarnation(said.incarnation),
          link(node.reactor_, *this, link_limits(node.place_), who),
          arriving(node.plan_, *node.self_, node.sparse_max_) {}

    void begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
               std::vector<std::span<std::byte>>& body) override {
      node_.begin(*this, header, meta, body);
    }
    void more(net::link&, wire::frame_header const&,
              std::vector<std::span<std::byte>>& body) override {
      arriving.more(*node_.shard_, body);
    }
    void end(net::link&, wire::frame_header const& header) override { node_.end(*this, header); }
    void drained(net::link&) override { node_.flush(); }
    void resumed(net::link&) override { node_.count_connections(); }
    void broken(net::link&, std::string const&) override { node_.withdraw(*this); }
    void lost(net::link&, std::string const& reason, bool expected) override {
      node_.lose(*this, reason, expected);
    }

    server_node& node_;
    std::uint32_t process;
    std::uint32_t incarnation;
    net::link link;
    arrivals<Plan> arriving;
    slots answers;  ///< of reads that are answered at once
    std::uint64_t longest_rows = 0;  ///< of the answers so far, in bytes
    std::uint64_t longest_commit = 0;
    std::uint64_t unweighed = 0;     ///< bytes of commits since its part of the log was last weighed
    bool over = false;
  };

  /// The names of the last sessions that are over.
  class past_sessions {
   public:
    [[nodiscard]] bool contains(std::uint64_t session) const { return known_.contains(session); }
    void remember(std::uint64_t session) {
      constexpr std::size_t most = 4096;
      if (!known_.insert(session).second) return;
      in_order_.push_back(session);
      if (in_order_.size() <= most) return;
      known_.erase(in_order_.front());
      in_order_.pop_front();
    }

   private:
    std::set<std::uint64_t> known_;
    std::deque<std::uint64_t> in_order_;
  };

  /// A read that waits. A worker has at most one.
  struct waiting_read {
    session* from;
    question asked;
    net::reactor::clock::time_point since;
    bool cut_is_early = false;  ///< it waits for orders that this server has yet to get
  };

  // ---- worker processes

  void welcome(std::unique_ptr<net::connection> guest, net::hello const& said) {
    auto const at = sessions_.find(said.session);
    if (at != sessions_.end() && !at->second->over)
      return at->second->link.adopt(std::move(guest), said);
    if (past_.contains(said.session) || at != sessions_.end() || said.as != net::role::worker ||
        is_expelled(said)) {
      net::log(net::log_level::warning, guest->peer() + ": worker process " +
                                            std::to_string(said.number) +
                                            " was refused: it has been given up");
      return net::refuse(*guest, "this process was given up as lost; it can only start anew");
    }
    if (std::ranges::any_of(sessions_, [&](auto const& entry) {
          session const& other = *entry.second;
          return !other.over && other.process == said.number && other.incarnation == said.incarnation;
        }))
      return net::refuse(*guest, "worker process " + std::to_string(said.number) + " is here already");
    auto fresh = std::make_unique<session>(*this, said, "worker process " + std::to_string(said.number));
    session& s = *fresh;
    sessions_.emplace(said.session, std::move(fresh));
    s.link.adopt(std::move(guest), said);
  }

  [[nodiscard]] bool is_expelled(net::hello const& said) const {
    auto const at = expelled_.find(said.number);
    return at != expelled_.end() && said.incarnation <= at->second;
  }

  void begin(session& s, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) {
    switch (static_cast<wire::kind>(header.kind)) {
      case wire::kind::commit:
        return s.arriving.begin_commit(header, meta, *shard_, speaks_for(s, header.sender), body);
      case wire::kind::request: return s.arriving.begin_request(header, meta, body);
      case wire::kind::initial: return s.arriving.begin_initial(header, meta, body);
      case wire::kind::count: return expect_length(header, 0);
      default:
        throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                                ", which is not for a server");
    }
  }

  void end(session& s, wire::frame_header const& header) {
    check_debt(s);
    switch (static_cast<wire::kind>(header.kind)) {
      case wire::kind::commit: {
        message const m = s.arriving.take_commit(*shard_);
        take_commit(s, header, m);
        return s.arriving.end_commit();
      }
      case wire::kind::request: return take_request(s, s.arriving.take_request());
      case wire::kind::initial:
        if (stage_ != stage_id{})
          throw wire::frame_error("initial values came after the first run began");
        return s.arriving.take_initial(header.table, *shard_);
      default: return count(s, header.sequence);
    }
  }

  void lose(session& s, std::string const& reason, bool expected) {
    if (!expected) net::log(net::log_level::warning, s.link.who() + ": " + reason);
    end_session(s);
    count_connections();
  }
  void end_session(session& s) {
    s.over = some_are_over_ = true;
    if (s.arriving.is_in_pieces()) shard_->count_partly_folded();
    stats_.add(stats_.connections_lost, 1);
    withdraw(s);
  }
  /// Of sessions that are over only the last names are kept, to know who comes back. Not from inside
  /// of a link.
  void forget_sessions() {
    if (!std::exchange(some_are_over_, false)) return;
    std::erase_if(sessions_, [&](auto const& entry) {
      if (!entry.second->over) return false;
      std::erase(touched_, entry.second.get());
      past_.remember(entry.first);
      return true;
    });
  }
  void count_connections() {
    stats_.set(stats_.connections,
               static_cast<std::uint64_t>(std::ranges::count_if(
                   sessions_, [](auto const& entry) { return entry.second->link.is_up(); })));
  }

  // ---- commits

  /// Whether this worker is one of the session's process, in this stage.
  [[nodiscard]] std::uint64_t workers_in(session const& s) const {
    auto const at = workers_of_.find(s.process);
    return at == workers_of_.end() ? 0 : at->second.size();
  }
  [[nodiscard]] bool speaks_for(session const& s, std::uint32_t worker) const {
    auto const at = workers_of_.find(s.process);
    return at != workers_of_.end() && std::ranges::find(at->second, worker_id{worker}) != at->second.end();
  }

  void take_commit(session& s, wire::frame_header const& header, message const& m) {
    worker_id const from = m.from.worker;
    released_.clear();
    if (refusal const r = apply(s, header, m); r != refusal::none) {
      if (s.arriving.is_in_pieces()) shard_->count_partly_folded();
      return refuse(s, m.from, 0, r);
    }
    stats_.add(stats_.commits, 1);
    stats_.add(stats_.bytes_received, header.length);
    if constexpr (Plan::synchronized)
      coordinator_.send(wire::progress_note{stage_, from, m.stamp.next()});
    release();
    retry_early();
    report_when_over();
    check_held(s, header.length);
  }

  [[nodiscard]] refusal apply(session const& s, wire::frame_header const& header, message const& m) {
    if (refusal const r = s.arriving.refused(); r != refusal::none) {
      shard_->count_refused();
      return r;
    }
    return speaks_for(s, header.sender) ? shard_->commit(m, released_) : refusal::stranger;
  }

  /// Whoever commits far ahead of the others is not listened to any more: what it says has to be kept
  /// until they are there. Workers that keep to the protocol wait before; under unbounded staleness
  /// with synchronized reads they may not, and this is where their run ends.
  void check_held(session& s, std::uint64_t bytes) {
    s.longest_commit = std::max(s.longest_commit, bytes);
    if constexpr (visibility_of<typename Plan::protocol_type>::holds_back) {
      constexpr std::uint64_t overhead = 256;  // of a commit, besides what it holds
      s.unweighed += bytes + overhead;
      if (s.unweighed < held_max_ / 16) return;
      s.unweighed = 0;
      std::uint64_t held = 0;
      shard_->inspect([&](auto const& control) {
        control.for_each_held([&](commit_info const& info, message const& m) {
          if (speaks_for(s, info.from.value())) held += m.bytes() + overhead;
        });
      });
      // A worker may be as far ahead as a read may lag, and one commit more is on its way.
      auto const ahead = static_cast<std::uint64_t>(
          std::min<std::int64_t>(plan_.protocol_used().admission().bound().clocks(), 62) + 2);
      std::uint64_t const one = std::max<std::uint64_t>(s.longest_commit, shard_->memory().parameters);
      std::uint64_t const most = held_max_ + workers_in(s) * ahead * (one + overhead);
      if (held > most)
        throw wire::frame_error(std::to_string(held) + " bytes of commits are ahead of what the slowest "
                                "worker has committed, expected at most " + std::to_string(most));
    }
  }

  void refuse(session& s, sender const& whom, std::uint64_t ticket, refusal why) {
    stats_.add(stats_.refused, 1);
    wire::frame_header h;
    h.kind = +wire::kind::refused;
    h.sender = whom.worker.value();
    h.incarnation = whom.incarnation.value();
    h.sequence = ticket;
    s.link.send(h, wire::to_bytes(wire::refused_meta{whom.stage, why}));
  }

  // ---- reads

  /// A question that has to wait is moved from.
  void take_request(session& s, question& asked) {
    dispatch(asked.table, [&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      if (asked.by_observer) return observe<I>(s, asked);
      if (!speaks_for(s, asked.read.from.worker.value()))
        return refuse(s, asked.read.from, asked.ticket, refusal::stranger);
      withdraw(asked.read.from.worker);  // it waits for this answer only
      read_slot<typename Plan::template store_type<I>>& slot = std::get<I>(s.answers);
      slot.asked = to_be_read<I>(asked.asked);
      slot.rows.swap(asked.rows);
      auto const [refused, done] = shard_->template admit<I>(asked.read, slot);
      if (done) answer<I>(s, asked, slot, {});
      slot.rows.swap(asked.rows);
      if (done) return;
      // Who waits for a cut waits for orders that are still on their way.
      if (refused != refusal::none && refused != refusal::cut)
        return refuse(s, asked.read.from, asked.ticket, refused);
      waiting_[asked.read.from.worker] = {&s, std::move(asked), net::reactor::clock::now(),
                                          refused == refusal::cut};
    });
  }

  /// Whoever goes on without reading the answers is not listened to any more: they take memory here.
  void check_debt(session const& s) const {
    constexpr std::uint64_t always = 64 * 1024 * 1024;
    if (s.link.unsent() <= always) return;
    // Each of its workers may have one answer under way, and so may whoever looks on: a whole table,
    // or rows, of which it may name more than there are. One more may be given up already.
    std::uint64_t largest = s.longest_rows;
    Plan::for_each_table([&](auto tag) {
      std::uint64_t const whole = shard_->template store<decltype(tag)::index>().bytes();
      largest = std::max(largest, whole);
    });
    std::uint64_t const most = always + 2 * (workers_in(s) + 2) * largest;
    if (s.link.unsent() > most)
      throw wire::frame_error("more comes, but " + std::to_string(s.link.unsent()) +
                              " bytes of answers have not been read");
  }

  template <std::size_t I>
  void observe(session& s, question const& asked) {
    auto& slot = std::get<I>(s.answers);
    slot.asked = selection::all;
    slot.stamp = {};
    if constexpr (!streams<I>) shard_->template observe<I>(slot.snapshot);
    answer<I>(s, asked, slot, {});
  }

  template <std::size_t I, class Slot>
  void answer(session& s, question const& asked, Slot& slot, duration held) {
    wire::frame_header h;
    h.kind = +wire::kind::reply;
    h.table = I;
    h.sender = asked.by_observer ? wire::observer : asked.read.from.worker.value();
    h.incarnation = asked.read.from.incarnation.value();
    h.sequence = asked.ticket;
    wire::reply_meta meta{.server_clock = slot.stamp.server_clock,
                          .included = slot.stamp.included,
                          .version = slot.stamp.version,
                          .folded_below = slot.stamp.folded_below,
                          .held = held,
                          .asked = slot.asked,
                          .rows = 0};
    std::uint64_t bytes = 0;
    if (asked.asked == selection::all) {
      meta.asked = selection::all;
      if constexpr (streams<I>) {
        bytes = shard_->template store<I>().bytes();
        s.link.send(h, written(meta), bytes,
                    std::make_unique<live_body<typename Plan::template store_type<I>>>(
                        shard_->template store<I>()));
      } else {
        bytes = send_state<I>(s, h, meta, slot.snapshot);
      }
    } else if (slot.asked == selection::rows) {
      bytes = slot.values.size() * sizeof(typename Plan::template value_type<I>);
      s.longest_rows = std::max(s.longest_rows, bytes);
      s.link.send(h, written(meta), wire::bytes_of(std::as_const(slot.values)));
    } else {
      s.link.send(h, written(meta));
    }
    touched_.push_back(&s);
    stats_.add(stats_.reads, 1);
    stats_.add(stats_.bytes_sent, bytes);
  }

  [[nodiscard]] std::span<std::byte const> written(wire::reply_meta const& meta) {
    wire::write(meta, meta_);
    return meta_;
  }

  /// Whether a whole table is sent chunk by chunk, as it is at that moment.
  template <std::size_t I>
  static constexpr bool streams = !shard_type::control_type::serial &&
                                  is_dense_state<typename Plan::template snapshot_type<I>>;
  /// What the shard is to put into the slot for such a question.
  template <std::size_t I>
  [[nodiscard]] static constexpr selection to_be_read(selection asked) noexcept {
    return streams<I> && asked == selection::all ? selection::nothing : asked;
  }

  template <std::size_t I, class Snapshot>
  std::uint64_t send_state(session& s, wire::frame_header const& h, wire::reply_meta& meta,
                           Snapshot& state) {
    if constexpr (!is_dense_state<Snapshot>) meta.rows = state.keys.size();
    std::uint64_t const bytes = state.bytes();
    std::size_t const elements = bytes / sizeof(typename Plan::template value_type<I>);
    s.link.send(h, written(meta), bytes,
                std::make_unique<state_body<Snapshot>>(state, elements));
    state.clear();
    return bytes;
  }

  /// Answers those whom the last commit, order or mark let go on.
  void release() {
    for (worker_id const w : released_) {
      auto node = waiting_.extract(w);
      if (node.empty()) continue;
      waiting_read& r = node.mapped();
      duration const held = net::reactor::clock::now() - r.since;
      dispatch(r.asked.table, [&](auto tag) {
        constexpr std::size_t I = decltype(tag)::index;
        auto& slot = std::get<I>(r.from->answers);
        slot.asked = to_be_read<I>(r.asked.asked);
        slot.rows = std::move(r.asked.rows);
        shard_->template read_released<I>(r.asked.read, slot);
        answer<I>(*r.from, r.asked, slot, held);
      });
    }
    flush();
  }

  void flush() {
    for (session* s : touched_) s->link.flush();
    touched_.clear();
    stats_.set(stats_.reads_waiting, waiting_.size());
    if (stage_ != stage_id{})
      stats_.set(stats_.clock, shard_->inspect([](auto const& control) {
        return static_cast<std::uint64_t>(control.published().value());
      }));
  }

  void retry_early() {
    if constexpr (Plan::synchronized) {
      std::vector<waiting_read> again;
      for (auto at = waiting_.begin(); at != waiting_.end();)
        if (at->second.cut_is_early) {
          again.push_back(std::move(at->second));
          at = waiting_.erase(at);
        } else {
          ++at;
        }
      for (waiting_read& r : again) take_request(*r.from, r.asked);
      if (!again.empty()) flush();  // nothing else may follow that would
    }
  }

  /// The connection is gone, and with it the questions; the other end asks again.
  void withdraw(worker_id reader) {
    if (waiting_.erase(reader) != 0) shard_->withdraw(reader);
  }
  void withdraw(session& s) {
    std::erase_if(waiting_, [&](auto const& entry) {
      if (entry.second.from != &s) return false;
      shard_->withdraw(entry.first);
      return true;
    });
  }

  void count(session& s, std::uint64_t ticket) {
    wire::frame_header h;
    h.kind = +wire::kind::counted;
    h.sequence = ticket;
    s.link.send(h, wire::to_bytes(counters().commits));
  }

  [[nodiscard]] shard_counters counters() const {
    return shard_->inspect([](auto const& control) { return control.counters(); });
  }

  // ---- the coordinator

  void welcomed(wire::welcome const& w) override {
    self_ = server_id{w.process};
    shard_ = plan_.make_shard(*self_);
    door_.open();
  }

  void told(wire::control_message const& said) override {
    std::visit([this](auto const& m) { this->on(m); }, said);
  }
  template <class Other>
  void on(Other const&) {
    throw wire::frame_error("the coordinator said something that is not for a server");
  }
  void on(wire::begin_stage const& m) {
    stage_ = m.stage;
    stats_.set(stats_.stage, stage_.value());
    ending_ = false;
    waiting_.clear();
    workers_of_.clear();
    shard_->begin_stage(stage_);
  }
  void on(wire::server_order const& m) {
    released_.clear();
    if (m.order.what == membership_order::kind::enlist)
      workers_of_[m.process].push_back(m.order.worker);
    wire::order_done done{m.order, shard_->order(m.order, released_)};
    coordinator_.send(std::move(done));
    release();
    retry_early();
    report_when_over();
  }
  void on(wire::cut_mark const& m) {
    released_.clear();
    shard_->advance(m.stage, commit_cut(m.below, m.c_min), released_);
    release();
    retry_early();
  }
  void on(wire::expel const& m) {
    auto const [at, first] = expelled_.try_emplace(m.process, m.incarnation);
    at->second = std::max(at->second, m.incarnation);
    for (auto const& [id, s] : sessions_)
      if (s->process == m.process && s->incarnation <= m.incarnation && !s->over) {
        end_session(*s);
        s->link.refuse("this process was given up as lost; it can only start anew");
      }
    count_connections();
    released_.clear();
    for (worker_id const w : workers_of_[m.process]) shard_->abandon(w, released_);
    release();
    report_when_over();
  }
  void on(wire::end_stage const& m) {
    ending_ = m.stage == stage_;
    report_when_over();
  }
  void on(wire::shut_down const& m) {
    over_ = true;
    if (!m.failure.empty()) fail(errc::lost, m.failure);
  }

  /// All of the stage is in once nobody is left whose commits may come.
  void report_when_over() {
    if (!ending_) return;
    bool const empty =
        shard_->inspect([](auto const& control) { return control.workers().live() == 0; });
    if (!empty) return;
    ending_ = false;
    coordinator_.send(wire::stage_over{stage_, counters(), shard_->versions_peak()});
  }

  void coordinator_lost(std::string const& reason, bool expected) override {
    over_ = true;
    if (!expected) fail(errc::lost, "the coordinator was lost: " + reason);
  }
  void coordinator_refused(std::string const& reason) override {
    over_ = true;
    fail(errc::refused, "the coordinator refused this server: " + reason);
  }
  void fail(errc code, std::string sentence) { failure_.emplace(code, std::move(sentence)); }

  /// Calls `f(table<I>)` for the table of this number.
  template <class F>
  static void dispatch(std::size_t table, F f) {
    Plan::for_each_table([&](auto tag) {
      if (table == decltype(tag)::index) f(tag);
    });
  }

  Plan const& plan_;
  net::deployment place_;
  std::uint64_t sparse_max_;
  std::uint64_t held_max_;
  net::reactor reactor_;
  std::optional<server_id> self_;
  std::unique_ptr<shard_type> shard_;
  stage_id stage_{};
  bool ending_ = false;
  bool over_ = false;
  std::atomic<bool> stop_asked_ = false;
  std::optional<breakdown> failure_;
  server_stats stats_;

  std::map<std::uint64_t, std::unique_ptr<session>> sessions_;
  past_sessions past_;
  bool some_are_over_ = false;
  std::map<std::uint32_t, std::uint32_t> expelled_;  ///< by process: the last life that is over
  std::map<std::uint32_t, std::vector<worker_id>> workers_of_;  ///< by process, in this stage
  std::map<worker_id, waiting_read> waiting_;
  std::vector<worker_id> released_;
  std::vector<session*> touched_;
  std::vector<std::byte> meta_;  ///< of the reply that is being sent

  net::doorkeeper door_;
  net::listener listener_;
  coordinator_link coordinator_;
};

}  // namespace rubato::detail
