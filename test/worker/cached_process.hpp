// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The workers of a process and what they share, before servers from which nothing comes but by
// hand.
#pragma once

#include <rubato/worker/process_cache.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/core/optional_mutex.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/server/shard.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/worker/server_fetch.hpp>

#include "at.hpp"

namespace rubato::test {

using counts = std::vector<std::int64_t>;

constexpr server_id first_server{0};

/// A request that a worker would have sent, had it been alone: its answer shows when it would have
/// been answered.
struct shadow {
  std::size_t of;
  std::uint64_t serial;
  clock_index need;
};

using detail::server_fetch;

/// Servers, and the links of a process to them: nothing moves but by hand, in order each way.
class hand_driven_network final : public detail::server_fetcher {
 public:
  explicit hand_driven_network(blueprint const& p) : lines_(p.servers()) {
    for (std::uint32_t s = 0; s < p.servers(); ++s)
      lines_[s].shard = std::make_unique<shard>(p, server_id{s}, threading::single);
  }

  void ask(server_fetch& f) override {
    if (on_ask) on_ask();
    send(f);
  }
  void ask_in_turn(server_fetch& f) override {
    if (on_ask_in_turn) on_ask_in_turn();
    send(f);
  }
  void withdraw_all() override {
    for (link& l : lines_) {
      std::erase_if(l.sent, [](auto const& m) { return std::holds_alternative<server_fetch*>(m); });
      l.waiting.clear();
      std::erase_if(l.replies, [](reply const& r) { return r.to != nullptr; });
    }
  }

  // ---- by hand

  std::size_t asked = 0;
  std::function<void()> on_ask, on_ask_in_turn;  ///< before it is asked; may throw
  std::function<void(shadow const&)> heard_shadow;
  std::function<void(server_fetch const&)> heard_answer;  ///< before the process hears it

  void begin_stage(stage_id stage) {
    for (link& l : lines_) l.shard->begin_stage(stage);
  }
  std::optional<membership_report> order(server_id s, membership_order const& o) {
    released_.clear();
    auto const report = line(s).shard->order(o, released_);
    release(s);
    return report;
  }
  void post(server_id s, commit_message m) { line(s).sent.push_back(std::move(m)); }
  void post_abroad(server_id s, commit_message m) { line(s).abroad.push_back(std::move(m)); }
  void send_shadow(server_id s, shadow const& one) { line(s).sent.push_back(one); }
  [[nodiscard]] clock_index published(server_id s) {
    return line(s).shard->inspect([](auto const& control) { return control.published(); });
  }

  /// The server takes the next that this process has sent to it; says whether there was any.
  bool serve(server_id s = first_server) {
    auto& sent = line(s).sent;
    if (sent.empty()) return false;
    auto next = std::move(sent.front());
    sent.pop_front();
    if (auto* const m = std::get_if<commit_message>(&next))
      commit(s, std::move(*m));
    else if (auto* const f = std::get_if<server_fetch*>(&next))
      take(s, **f);
    else
      line(s).shadows.push_back(std::get<shadow>(next));
    let_shadows_go(s);
    return true;
  }
  /// The same for what other processes have sent.
  bool serve_abroad(server_id s = first_server) {
    auto& sent = line(s).abroad;
    if (sent.empty()) return false;
    commit(s, std::move(sent.front()));
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
    line(s).replies.push_back({.to = std::get<server_fetch*>(line(s).sent.front()), .why = why});
    line(s).sent.pop_front();
  }

 private:
  struct reply {
    server_fetch* to = nullptr;
    refusal why = refusal::none;
    shadow instead{};
  };
  struct link {
    std::unique_ptr<rubato::shard> shard;
    std::deque<std::variant<commit_message, server_fetch*, shadow>> sent;
    std::deque<commit_message> abroad;
    std::map<worker_id, server_fetch*> waiting;
    std::vector<shadow> shadows;
    std::deque<reply> replies;
  };

  [[nodiscard]] link& line(server_id s) { return lines_[s.index()]; }

  void send(server_fetch& f) {
    line(f.server).sent.push_back(&f);
    ++asked;
  }

  void commit(server_id s, commit_message&& m) {
    released_.clear();
    REQUIRE(line(s).shard->commit(std::move(m), released_) == refusal::none);
    release(s);
  }
  void release(server_id s) {
    for (worker_id const w : released_) {
      auto const node = line(s).waiting.extract(w);
      if (node.empty()) continue;
      server_fetch& f = *node.mapped();
      reading(f, [&] { line(s).shard->read_released(0, f.read, f.slot); });
      line(s).replies.push_back({.to = &f});
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

  void take(server_id s, server_fetch& f) {
    std::pair<refusal, bool> taken;
    std::vector<worker_id> released;  // by admissions that go by value, which share no reads
    reading(f, [&] {
      auto const [refused, done] = line(s).shard->admit(0, f.read, f.slot, released);
      taken = {refused, done};
    });
    auto const [refused, done] = taken;
    if (done || refused != refusal::none) return line(s).replies.push_back({.to = &f, .why = refused});
    REQUIRE_FALSE(line(s).waiting.contains(f.read.from.worker));  // a server keeps one for each
    line(s).waiting[f.read.from.worker] = &f;
  }
  /// A server reads the whole table off its store while it sends it, where it may.
  [[nodiscard]] bool streams(server_fetch const& f) {
    return f.slot.asked == selection::all && line(f.server).shard->streams(0);
  }
  template <class F>
  void reading(server_fetch& f, F read) {
    bool const streamed = streams(f);
    if (streamed) f.slot.asked = selection::nothing;
    read();
    if (streamed) f.slot.asked = selection::all;
  }
  void deliver(server_id s, reply& r) {
    if (streams(*r.to)) line(s).shard->host(0).snapshot(r.to->slot.state, {});
    if (heard_answer) heard_answer(*r.to);
    r.to->done(refusal::none);
  }

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
class cached_process {
 public:
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
    std::vector<read_slot> slots{};

    [[nodiscard]] bool waits() const { return asked.missing.load() != 0; }
    [[nodiscard]] read_slot& slot(server_id s = first_server) { return slots[s.index()]; }
    [[nodiscard]] read_slot const& slot(server_id s = first_server) const {
      return slots[s.index()];
    }
  };

  static constexpr std::uint64_t rows = 8;

  /// `more`: tables beside the first one, which nobody reads.
  cached_process(rules const& p, shape const& is, std::vector<table_description> more = {})
      : width(is.here + is.abroad + 1),  // and one for a joiner
        plan(p, is.servers, tables(width, is, std::move(more))),
        net(plan),
        cache(plan, net) {
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
    if (here) w.number = cache.enlist(w.asked, self.worker, w.clock);
    return w;
  }

  void commit(worker& w) {
    commit(w, [] {});
  }
  /// With what happens meanwhile: before it leaves, and after.
  template <class F>
  void commit(worker& w, F meanwhile) {
    each_server([&](server_id s) {
      commit_message m{w.self, w.clock, w.version, {}};
      m.parts.resize(plan.tables().size());
      m.parts[0] = one_each(w, s);
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
           server_id s, bool renews = false) {
    read_slot& slot = w.slot(s);
    slot.asked = what;
    slot.rows = std::move(some_rows);
    slot.row_stamps.clear();
    cache.request(w.number, s, 0, {w.self, w.clock, bound, {}, renews}, slot);
  }
  /// A row that the worker has got.
  [[nodiscard]] counts row(worker const& w, std::size_t index = 0,
                           server_id s = first_server) const {
    read_slot const& slot = w.slot(s);
    counts found(width);
    std::span const to = std::as_writable_bytes(std::span(found));
    if (slot.asked == selection::all)
      slot.state.copy(index * to.size(), to.size(), to.data());
    else
      std::ranges::copy(slot.values.bytes().subspan(index * to.size(), to.size()), to.begin());
    return found;
  }

  template <class F>
  void each_server(F f) {
    for (std::uint32_t s = 0; s < plan.servers(); ++s) f(server_id{s});
  }

  std::size_t width;
  blueprint plan;
  hand_driven_network net;
  detail::process_cache cache;
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
  [[nodiscard]] static std::vector<table_description> tables(std::size_t columns, shape const& is,
                                                             std::vector<table_description> more) {
    using counts_table = dense<std::int64_t, sum>;
    counts_table const first{.rows = rows, .width = columns, .cached_rows = is.cached_rows};
    more.insert(more.begin(), describe(first));
    return more;
  }
  [[nodiscard]] shared_update one_each(worker const& w, server_id s) const {
    update u;
    u.whole = true;
    u.values.assign_zeros(static_cast<std::size_t>(plan.table(0).where().rows_of(s)) *
                          plan.table(0).row_bytes());
    std::span const values = u.values.as<std::int64_t>();
    for (std::size_t i = w.self.worker.index(); i < values.size(); i += width) values[i] = 1;
    return shared_update(std::move(u));
  }

  std::uint64_t epoch_ = 0;
};

}  // namespace rubato::test
