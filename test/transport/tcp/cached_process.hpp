// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The workers of a process and what they share, before servers from which nothing comes but by
// hand.
#pragma once

#include <rubato/transport/tcp/process_cache.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/cluster/blueprint.hpp>
#include <rubato/core/null_mutex.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/storage/dense.hpp>

namespace rubato::test {

using counts = std::vector<std::int64_t>;

constexpr clock_index at(std::int64_t value) { return clock_index{value}; }
constexpr server_id first_server{0};

/// A request that a worker would have sent, had it been alone: its answer shows when it would have
/// been answered.
struct shadow {
  std::size_t of;
  std::uint64_t serial;
  clock_index need;
};

/// Servers, and the links of a process to them: nothing moves but by hand, in order each way.
template <class Plan>
class hand_driven_network {
 public:
  using message = typename Plan::message;
  using slot_type = read_slot<typename Plan::template store_type<0>>;
  /// A server reads the whole table off its store while it sends it.
  static constexpr bool streams = !Plan::shard_type::control_type::serial;

  explicit hand_driven_network(Plan const& p) : plan_(p), lines_(p.servers()) {
    for (std::uint32_t s = 0; s < p.servers(); ++s) lines_[s].shard = p.make_shard(server_id{s});
  }

  // ---- as a worker_node

  void ask(server_id s, detail::question& q) {
    if (on_ask) on_ask();
    ask_in_turn(s, q);
  }
  void ask_in_turn(server_id s, detail::question& q) {
    q.asker->missing.fetch_add(1);
    line(s).sent.push_back(&q);
    ++asked;
  }
  void withdraw(detail::inquiry& by) {
    auto const is_his = [&](detail::question const* q) { return q != nullptr && q->asker == &by; };
    for (link& l : lines_) {
      std::erase_if(l.sent, [&](auto const& m) {
        auto const* const q = std::get_if<question*>(&m);
        return q != nullptr && is_his(*q);
      });
      std::erase_if(l.waiting, [&](auto const& w) { return is_his(w.second.first); });
      std::erase_if(l.replies, [&](reply const& r) { return is_his(r.to); });
    }
    by.missing = 0;
  }

  // ---- by hand

  std::size_t asked = 0;
  std::function<void()> on_ask;  ///< before it is asked; may throw
  std::function<void(shadow const&)> heard_shadow;

  void begin_stage(stage_id stage) {
    for (link& l : lines_) l.shard->begin_stage(stage);
  }
  std::optional<membership_report> order(server_id s, membership_order const& o) {
    released_.clear();
    auto const report = line(s).shard->order(o, released_);
    release(s);
    return report;
  }
  void post(server_id s, message m) { line(s).sent.push_back(std::move(m)); }
  void post_abroad(server_id s, message m) { line(s).abroad.push_back(std::move(m)); }
  void send_shadow(server_id s, shadow const& one) { line(s).sent.push_back(one); }
  [[nodiscard]] clock_index published(server_id s) {
    return line(s).shard->inspect([](auto const& control) { return control.published(); });
  }

  /// The server takes the next that this process has sent to it; says whether there was any.
  bool serve(server_id s = first_server) {
    auto& sent = line(s).sent;
    if (sent.empty()) return false;
    auto const next = std::move(sent.front());
    sent.pop_front();
    if (auto* const m = std::get_if<message>(&next))
      commit(s, *m);
    else if (auto* const q = std::get_if<question*>(&next))
      take(s, **q);
    else
      line(s).shadows.push_back(std::get<shadow>(next));
    let_shadows_go(s);
    return true;
  }
  /// The same for what other processes have sent.
  bool serve_abroad(server_id s = first_server) {
    auto& sent = line(s).abroad;
    if (sent.empty()) return false;
    commit(s, sent.front());
    sent.pop_front();
    return true;
  }
  /// The process hears the next answer.
  bool hear(server_id s = first_server) {
    auto& replies = line(s).replies;
    if (replies.empty()) return false;
    reply r = std::move(replies.front());
    replies.pop_front();
    if (r.to == nullptr)
      heard_shadow(r.instead);
    else if (r.why != refusal::none)
      r.to->done(r.why);
    else
      deliver(s, r);
    return true;
  }
  /// The server refuses the next that this process has sent to it. @pre that is a question
  void refuse(refusal why, server_id s = first_server) {
    line(s).replies.push_back({.to = std::get<question*>(line(s).sent.front()), .why = why});
    line(s).sent.pop_front();
  }

 private:
  using question = detail::question;
  struct reply {
    question* to = nullptr;
    refusal why = refusal::none;
    wire::reply_meta meta{};
    counts values{};
    shadow instead{};
  };
  struct link {
    std::unique_ptr<typename Plan::shard_type> shard;
    std::deque<std::variant<message, question*, shadow>> sent;
    std::deque<message> abroad;
    std::map<worker_id, std::pair<question*, read_header>> waiting;
    std::vector<shadow> shadows;
    std::deque<reply> replies;
  };

  [[nodiscard]] link& line(server_id s) { return lines_[s.index()]; }

  void commit(server_id s, message const& m) {
    released_.clear();
    REQUIRE(line(s).shard->commit(m, released_) == refusal::none);
    release(s);
  }
  void release(server_id s) {
    for (worker_id const w : released_) {
      auto const node = line(s).waiting.extract(w);
      if (node.empty()) continue;
      auto const& [q, read] = node.mapped();
      slot_type slot = slot_of(*q);
      line(s).shard->template read_released<0>(read, slot);
      answer(s, *q, slot);
    }
    let_shadows_go(s);
  }
  void let_shadows_go(server_id s) {
    std::erase_if(line(s).shadows, [&](shadow const& one) {
      if (one.need > published(s)) return false;
      line(s).replies.push_back({.instead = one});
      return true;
    });
  }

  void take(server_id s, question& q) {
    auto const m = wire::from_bytes<wire::request_meta>(q.meta);
    read_header const read{
        {worker_id{q.header.sender}, incarnation_id{q.header.incarnation}, m.stage},
        m.clock,
        m.bound,
        {}};
    slot_type slot = slot_of(q);
    auto const [refused, done] = line(s).shard->template admit<0>(read, slot);
    if (done) return answer(s, q, slot);
    if (refused != refusal::none) return line(s).replies.push_back({.to = &q, .why = refused});
    REQUIRE_FALSE(line(s).waiting.contains(read.from.worker));  // a server keeps one for each
    line(s).waiting[read.from.worker] = {&q, read};
  }
  [[nodiscard]] static slot_type slot_of(question const& q) {
    auto const m = wire::from_bytes<wire::request_meta>(q.meta);
    slot_type slot;
    slot.asked = streams && m.asked == selection::all ? selection::nothing : m.asked;
    slot.rows.resize(static_cast<std::size_t>(m.rows));
    REQUIRE(q.body.size() == slot.rows.size() * sizeof(std::uint64_t));
    if (!q.body.empty()) std::memcpy(slot.rows.data(), q.body.data(), q.body.size());
    return slot;
  }
  void answer(server_id s, question& q, slot_type& slot) {
    reply r{.to = &q};
    r.meta = {.server_clock = slot.stamp.server_clock,
              .included = slot.stamp.included,
              .version = slot.stamp.version,
              .folded_below = slot.stamp.folded_below,
              .asked = wire::from_bytes<wire::request_meta>(q.meta).asked};
    if (slot.asked == selection::rows) r.values = slot.values;
    if (slot.asked == selection::all) copy(s, slot.snapshot, r.values);
    line(s).replies.push_back(std::move(r));
  }
  void deliver(server_id s, reply& r) {
    if (streams && r.meta.asked == selection::all) {
      slot_type now;
      line(s).shard->template store<0>().snapshot(now.snapshot);
      copy(s, now.snapshot, r.values);
    }
    wire::frame_header h;
    h.kind = +wire::kind::reply;
    h.length = r.values.size() * sizeof(std::int64_t);
    std::vector<std::span<std::byte>> body;
    r.to->begin(h, wire::to_bytes(r.meta), body);
    auto from = wire::bytes_of(r.values);
    for (auto const piece : body) {
      std::ranges::copy(from.first(piece.size()), piece.begin());
      from = from.subspan(piece.size());
    }
    REQUIRE(from.empty());
    r.to->done(refusal::none);
  }
  void copy(server_id s, typename Plan::template snapshot_type<0> const& state, counts& to) const {
    to.resize(static_cast<std::size_t>(plan_.template locator<0>().rows_of(s)) *
              plan_.template spec<0>().width);
    state.copy(0, to.size(), to.data());
  }

  Plan const& plan_;
  std::vector<link> lines_;
  std::vector<worker_id> released_;
};

/// What a process and its servers are like.
struct shape {
  std::uint32_t here = 2;
  std::uint32_t abroad = 1;
  std::uint32_t servers = 1;
  std::uint64_t cached_rows = 0;
};

/// The workers of a process, one of others, and the cache. In a row's column m is how many commits
/// of worker m it reflects: each adds 1 in every row.
template <protocol P, table_spec... More>
class cached_process {
 public:
  using counts_table = dense<std::int64_t, sum>;
  using plan_type = blueprint<null_mutex, P, counts_table, More...>;
  using network_type = hand_driven_network<plan_type>;
  using slot_type = typename network_type::slot_type;

  struct worker {
    worker(sender const& who, bool here, membership_report const& start)
        : self(who),
          is_here(here),
          joined(start.clock),
          clock(start.clock),
          version(start.version) {}

    sender self;
    bool is_here;
    clock_index joined;
    clock_index clock;
    version_index version;
    std::size_t number = 0;  ///< in the cache
    detail::inquiry asked{};
    std::vector<slot_type> slots{};

    [[nodiscard]] bool waits() const { return asked.missing.load() != 0; }
    [[nodiscard]] slot_type& slot(server_id s = first_server) { return slots[s.index()]; }
    [[nodiscard]] slot_type const& slot(server_id s = first_server) const {
      return slots[s.index()];
    }
  };

  static constexpr std::uint64_t rows = 8;

  cached_process(P const& p, shape const& is, More... more)
      : width(is.here + is.abroad + 1),  // and one for a joiner
        plan(p, is.servers,
             counts_table{.rows = rows, .width = width, .cached_rows = is.cached_rows}, more...),
        net(plan),
        cache(plan, net, 0) {
    begin_stage();
    for (std::uint32_t i = 0; i < is.here; ++i) add(true);
    for (std::uint32_t i = 0; i < is.abroad; ++i) add(false);
  }

  void begin_stage() {
    stage = stage_id{stage.value() + 1};
    workers.clear();
    net.begin_stage(stage);
    cache.begin_stage();
  }
  worker& add(bool here) {
    sender const self{worker_id{static_cast<std::uint32_t>(workers.size())}, {}, stage};
    membership_report start{at(0), {}};
    each_server([&](server_id s) {
      auto const r = order(s, membership_order::kind::enlist, self, {});
      start = {std::max(start.clock, r->clock), std::max(start.version, r->version)};
    });
    each_server([&](server_id s) { order(s, membership_order::kind::start, self, start); });
    worker& w = workers.emplace_back(self, here, start);
    w.slots.resize(plan.servers());
    if (here) w.number = cache.enlist(w.asked, w.clock);
    return w;
  }

  void commit(worker& w) {
    commit(w, [] {});
  }
  /// With what happens meanwhile: before it leaves, and after.
  template <class F>
  void commit(worker& w, F meanwhile) {
    each_server([&](server_id s) {
      typename plan_type::message m{w.self, w.clock, w.version, {}};
      std::apply([](auto&... part) { (fill(part), ...); }, m.parts);
      std::get<0>(m.parts) = one_each(w, s);
      if (!w.is_here) return net.post_abroad(s, std::move(m));
      cache.posting(w.number, s, w.clock.next());
      meanwhile();
      net.post(s, std::move(m));
      meanwhile();
      cache.posted(w.number, s, w.clock.next());
    });
    w.clock = w.clock.next();
    w.version = version_index{w.version.value() + 1};
  }
  void ask(worker& w, selection what, std::vector<std::uint64_t> some_rows, staleness bound,
           server_id s) {
    slot_type& slot = w.slot(s);
    slot.asked = what;
    slot.rows = std::move(some_rows);
    slot.row_stamps.clear();
    cache.template request<0>(w.number, s, {w.self, w.clock, bound, {}}, slot);
  }
  /// A row that the worker has got.
  [[nodiscard]] counts row(worker const& w, std::size_t index = 0,
                           server_id s = first_server) const {
    slot_type const& slot = w.slot(s);
    counts found(width);
    if (slot.asked == selection::all)
      slot.snapshot.copy(index * width, width, found.data());
    else
      std::copy_n(slot.values.data() + index * width, width, found.data());
    return found;
  }

  template <class F>
  void each_server(F f) {
    for (std::uint32_t s = 0; s < plan.servers(); ++s) f(server_id{s});
  }

  std::size_t width;
  plan_type plan;
  network_type net;
  detail::process_cache<plan_type, network_type> cache;
  stage_id stage{};
  std::deque<worker> workers;

 private:
  std::optional<membership_report> order(server_id s, membership_order::kind what, sender const& w,
                                         membership_report const& start) {
    return net.order(s, {.what = what,
                         .worker = w.worker,
                         .incarnation = w.incarnation,
                         .clock = start.clock,
                         .epoch = epoch_id{++epoch_},
                         .stage = stage,
                         .version = start.version});
  }
  template <class Part>
  static void fill(std::shared_ptr<Part>& part) {
    part = std::make_shared<Part>();
  }
  [[nodiscard]] std::shared_ptr<update<std::int64_t> const> one_each(worker const& w,
                                                                     server_id s) const {
    auto u = std::make_shared<update<std::int64_t>>();
    u->whole = true;
    u->values.resize(static_cast<std::size_t>(plan.template locator<0>().rows_of(s)) * width);
    for (std::size_t i = w.self.worker.index(); i < u->values.size(); i += width) u->values[i] = 1;
    return u;
  }

  std::uint64_t epoch_ = 0;
};

}  // namespace rubato::test
