// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/tcp/process_cache.hpp>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <rubato/cluster/blueprint.hpp>
#include <rubato/core/null_mutex.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "seeds.hpp"

using namespace rubato;

namespace {

using detail::inquiry;
using detail::question;
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

  void ask(server_id s, question& q) { ask_in_turn(s, q); }
  void ask_in_turn(server_id s, question& q) {
    q.asker->missing.fetch_add(1);
    line(s).sent.push_back(&q);
    ++asked;
  }
  void withdraw(inquiry& by) {
    auto const is_his = [&](question const* q) { return q != nullptr && q->asker == &by; };
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
  [[nodiscard]] auto const& last_question(server_id s) {
    return *std::get<question*>(line(s).sent.back());
  }

  /// The server takes the next that this process has sent to it; says whether there was any.
  bool serve(server_id s) {
    auto& sent = line(s).sent;
    if (sent.empty()) return false;
    auto const next = std::move(sent.front());
    sent.pop_front();
    if (auto* const m = std::get_if<message>(&next)) commit(s, *m);
    else if (auto* const q = std::get_if<question*>(&next)) take(s, **q);
    else line(s).shadows.push_back(std::get<shadow>(next));
    let_shadows_go(s);
    return true;
  }
  /// The same for what other processes have sent.
  bool serve_abroad(server_id s) {
    auto& sent = line(s).abroad;
    if (sent.empty()) return false;
    commit(s, sent.front());
    sent.pop_front();
    return true;
  }
  /// The process hears the next answer.
  bool hear(server_id s) {
    auto& replies = line(s).replies;
    if (replies.empty()) return false;
    reply r = std::move(replies.front());
    replies.pop_front();
    if (r.to == nullptr) heard_shadow(r.instead);
    else if (r.why != refusal::none) r.to->done(r.why);
    else deliver(s, r);
    return true;
  }
  /// The server refuses the next that this process asked.
  void refuse(server_id s, refusal why) {
    auto& sent = line(s).sent;
    line(s).replies.push_back({.to = std::get<question*>(sent.front()), .why = why});
    sent.pop_front();
  }

 private:
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
        {worker_id{q.header.sender}, incarnation_id{q.header.incarnation}, m.stage}, m.clock, m.bound, {}};
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

struct shape {
  std::uint32_t here = 2;
  std::uint32_t abroad = 1;
  std::uint32_t servers = 1;
  std::uint64_t cached_rows = 0;
};

/// The workers of a process, one of others, and the cache. In a row's column m is how many commits
/// of worker m it reflects: each adds 1 in every row.
template <protocol P, table_spec... More>
class process {
 public:
  using counts_table = dense<std::int64_t, sum>;
  using plan_type = blueprint<null_mutex, P, counts_table, More...>;
  using network_type = hand_driven_network<plan_type>;
  using slot_type = typename network_type::slot_type;

  struct worker {
    worker(sender const& who, bool here, membership_report const& start)
        : self(who), is_here(here), joined(start.clock), clock(start.clock), version(start.version) {}

    sender self;
    bool is_here;
    clock_index joined;
    clock_index clock;
    version_index version;
    std::size_t number = 0;  ///< in the cache
    inquiry asked{};
    std::vector<slot_type> slots{};

    [[nodiscard]] bool waits() const { return asked.missing.load() != 0; }
  };

  static constexpr std::uint64_t rows = 8;

  process(P const& p, shape const& is, More... more)
      : width(is.here + is.abroad + 1),  // and one for a joiner
        plan(p, is.servers, counts_table{.rows = rows, .width = width, .cached_rows = is.cached_rows},
             more...),
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
    each_server([&](server_id s) {
      typename plan_type::message m{w.self, w.clock, w.version, {}};
      std::apply([](auto&... part) { (fill(part), ...); }, m.parts);
      std::get<0>(m.parts) = one_each(w, s);
      if (!w.is_here) return net.post_abroad(s, std::move(m));
      cache.posting(w.number, s, w.clock.next());
      net.post(s, std::move(m));
      cache.posted(w.number, s, w.clock.next());
    });
    w.clock = w.clock.next();
    w.version = version_index{w.version.value() + 1};
  }
  /// Until it is at this clock; and all servers have the commits.
  void advance(worker& w, std::int64_t to) {
    while (w.clock < at(to)) commit(w);
    settle();
  }

  void ask(worker& w, selection what, std::vector<std::uint64_t> some_rows, staleness bound,
           server_id s = first_server) {
    slot_type& slot = w.slots[s.index()];
    slot.asked = what;
    slot.rows = std::move(some_rows);
    slot.row_stamps.clear();
    cache.template request<0>(w.number, s, {w.self, w.clock, bound, {}}, slot);
  }
  void ask(worker& w, selection what = selection::all, std::vector<std::uint64_t> some_rows = {}) {
    ask(w, what, std::move(some_rows), plan.protocol_used().admission().bound());
  }
  void ask_rows(worker& w, std::vector<std::uint64_t> some) { ask(w, selection::rows, std::move(some)); }
  /// Whether it asked a server.
  bool asks(worker& w, selection what = selection::all, std::vector<std::uint64_t> some = {}) {
    std::size_t const before = net.asked;
    ask(w, what, std::move(some));
    return net.asked != before;
  }

  void serve() {
    each_server([&](server_id s) {
      while (net.serve_abroad(s) || net.serve(s)) {}
    });
  }
  void hear() {
    each_server([&](server_id s) {
      while (net.hear(s)) {}
    });
  }
  /// Everything under way arrives, and what comes of it.
  void settle() {
    bool moved = true;
    while (std::exchange(moved, false))
      each_server([&](server_id s) {
        while (net.serve_abroad(s) || net.serve(s) || net.hear(s)) moved = true;
      });
  }

  /// A row that the worker has got.
  [[nodiscard]] counts row(worker const& w, std::size_t index = 0, server_id s = first_server) const {
    slot_type const& slot = w.slots[s.index()];
    counts found(width);
    if (slot.asked == selection::all) slot.snapshot.copy(index * width, width, found.data());
    else std::copy_n(slot.values.data() + index * width, width, found.data());
    return found;
  }
  [[nodiscard]] read_stamp const& stamp(worker const& w) const { return w.slots.front().stamp; }

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
  [[nodiscard]] std::shared_ptr<update<std::int64_t> const> one_each(worker const& w, server_id s) const {
    auto u = std::make_shared<update<std::int64_t>>();
    u->whole = true;
    u->values.resize(static_cast<std::size_t>(plan.template locator<0>().rows_of(s)) * width);
    for (std::size_t i = w.self.worker.index(); i < u->values.size(); i += width) u->values[i] = 1;
    return u;
  }

  std::uint64_t epoch_ = 0;
};

using ssp_process = process<ssp>;
constexpr selection all = selection::all;
constexpr selection nothing = selection::nothing;
constexpr selection some_rows = selection::rows;

}  // namespace

// ---- requests under way

TEST_CASE("process cache: many that miss the same issue one request") {
  ssp_process p(ssp{.staleness = 2}, {.here = 3});
  auto &a = p.workers[0], &b = p.workers[1], &c = p.workers[2];
  p.advance(p.workers[3], 2);
  SECTION("rows") {
    p.ask_rows(a, {1, 2});
    p.ask_rows(b, {2, 1, 2});
    p.ask_rows(c, {2});
  }
  SECTION("the whole table") {
    for (auto* w : {&a, &b, &c}) p.ask(*w);
  }
  CHECK(p.net.asked == 1);
  CHECK((a.waits() && b.waits() && c.waits()));
  p.settle();
  CHECK_FALSE((a.waits() || b.waits() || c.waits()));
  CHECK(p.row(a, 1) == counts{0, 0, 0, 2, 0});
  CHECK(p.row(b) == p.row(a));
  CHECK(p.row(c) == p.row(a));
}

TEST_CASE("process cache: who needs more or less than a request does not wait for its answer") {
  ssp_process p(ssp{.staleness = 2}, {});
  auto &near = p.workers[0], &far = p.workers[1];
  p.advance(far, 3);
  bool const far_first = GENERATE(false, true);
  p.ask_rows(far_first ? far : near, {0});
  p.ask_rows(far_first ? near : far, {0});
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK_FALSE(near.waits());
  CHECK(far.waits());
  p.advance(near, 1);
  CHECK(far.waits());
  p.advance(p.workers[2], 1);
  CHECK_FALSE(far.waits());
  CHECK(p.stamp(far).server_clock == at(1));
}

TEST_CASE("process cache: who would be let in at once joins a request of another need") {
  ssp_process p(ssp{.staleness = 2}, {});
  auto &a = p.workers[0], &b = p.workers[1];
  for (auto& w : p.workers) p.advance(w, 4);
  p.ask_rows(a, {1});
  p.settle();  // now it is known that all are at clock 4
  p.advance(a, 5);
  p.advance(b, 6);
  p.ask_rows(a, {0});
  p.ask_rows(b, {0});
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK(p.stamp(a).included == at(5));
  CHECK(p.stamp(b).included == at(6));
  CHECK(p.row(b) == counts{5, 6, 4, 0});
}

TEST_CASE("process cache: under eager visibility own commits that left since want a request anew") {
  ssp_process p(ssp{.staleness = 2}, {});
  auto &a = p.workers[0], &b = p.workers[1];
  auto const what = GENERATE(all, some_rows);
  std::vector<std::uint64_t> const rows(what == all ? 0 : 1);
  p.ask(a, what, rows);
  p.commit(b);
  p.ask(b, what, rows, staleness{2});
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK(p.stamp(b).included == at(1));
  CHECK(p.row(b)[1] == 1);
}

TEST_CASE("process cache: under the barrier own commits that left since are in the answer") {
  process p(with(bsp{}, sum{}), {});
  auto &a = p.workers[0], &b = p.workers[1];
  auto const what = GENERATE(all, some_rows);
  p.advance(a, 1);
  p.ask(a, what, {0});
  p.serve();
  p.commit(b);
  p.ask(b, what, {0});
  CHECK(p.net.asked == 1);
  p.settle();
  CHECK((a.waits() && b.waits()));
  p.advance(p.workers[2], 1);
  CHECK_FALSE((a.waits() || b.waits()));
  CHECK(p.net.asked == 1);
  CHECK(p.stamp(b).included == at(1));
  CHECK(p.row(b) == counts{1, 1, 1, 0});
}

TEST_CASE("process cache: strict visibility with staleness, own commits left since") {
  process p(with(ssp{.staleness = 1}, strict{}), {});
  auto &a = p.workers[0], &b = p.workers[1];
  p.ask_rows(a, {0});
  p.ask_rows(b, {1});
  p.serve();
  p.hear();
  p.ask_rows(a, {2}), p.commit(b);
  p.ask_rows(b, {2});
  SECTION("the answer says which are in") {
    p.settle();
    CHECK_FALSE(b.waits());
    CHECK(p.row(b)[1] == p.stamp(b).included.value());
  }
  SECTION("nobody waits for another's answer that cannot be of use") {
    p.serve();
    p.hear();
    CHECK_FALSE(b.waits());
  }
}

TEST_CASE("process cache: rows partly here, partly under way, partly missing") {
  ssp_process p(ssp{.staleness = 5}, {});
  auto &a = p.workers[0], &b = p.workers[1];
  p.ask_rows(a, {0});
  p.settle();
  p.advance(p.workers[2], 1);
  p.ask_rows(b, {1});
  p.serve();
  p.advance(p.workers[2], 2);
  auto const before = p.net.asked;
  p.net.serve_abroad(first_server);
  p.ask_rows(a, {2, 1, 0});
  CHECK(p.net.asked == before + 1);
  p.settle();
  CHECK_FALSE((a.waits() || b.waits()));
  CHECK(p.row(a, 0)[2] == 2);
  CHECK(p.row(a, 2)[2] == 0);
  CHECK(a.slots.front().row_stamps.size() == 3);
}

// ---- what is here

namespace {

/// The clocks, from that of the first fetch on, at which another worker asks a server.
template <protocol P>
std::vector<std::int64_t> clocks_that_ask(P const& used, selection what) {
  process p(used, {});
  auto &a = p.workers[0], &b = p.workers[1];
  std::vector<std::int64_t> asking;
  p.ask(a, what, {3});
  p.settle();
  for (std::int64_t c = 0; c < 6; ++c) {
    if (p.asks(b, what, {3})) asking.push_back(c);
    p.settle();
    if (b.waits()) p.advance(a, c), p.advance(p.workers[2], c);  // a BSP reader
    REQUIRE_FALSE(b.waits());
    CHECK(p.row(b)[1] == p.stamp(b).included.value());
    p.advance(b, c + 1);
    if (c % 3 == 2) p.advance(a, c), p.advance(p.workers[2], c);
  }
  return asking;
}

}  // namespace

TEST_CASE("process cache: what another has fetched is used while the cache column allows it") {
  using clocks = std::vector<std::int64_t>;
  auto const what = GENERATE(all, some_rows);
  CHECK(clocks_that_ask(with(bsp{}, sum{}), what) == clocks{1, 2, 3, 4, 5});
  CHECK(clocks_that_ask(ssp{.staleness = 0}, what) == clocks{1, 2, 3, 4, 5});
  CHECK(clocks_that_ask(ssp{.staleness = 2}, what) == clocks{3});
  CHECK(clocks_that_ask(ssp{.staleness = 9}, what).empty());
  CHECK(clocks_that_ask(asp{}, what) == clocks{0, 1, 2, 3, 4, 5});
}

TEST_CASE("process cache: a state is of no use to whose commits may be in or not") {
  ssp_process p(ssp{.staleness = 9}, {});
  auto &a = p.workers[0], &b = p.workers[1];
  auto const what = GENERATE(all, some_rows);
  p.advance(b, 2);
  p.ask(a, what, {0});
  SECTION("one left before the answer came") {
    p.serve();
    p.commit(b);
    p.settle();
    CHECK(p.asks(b, what, {0}));
    p.settle();
    CHECK(p.stamp(b).included == at(3));
  }
  SECTION("all left before the question or after the answer") {
    p.settle();
    p.advance(b, 4);
    CHECK_FALSE(p.asks(b, what, {0}));
    CHECK(p.stamp(b).included == at(2));
  }
  CHECK(p.row(b)[1] == p.stamp(b).included.value());
}

TEST_CASE("process cache: the server's clock says that what left later is in, too") {
  process p(with(bsp{}, sum{}), {});
  auto &a = p.workers[0], &b = p.workers[1];
  p.advance(a, 1);
  p.ask(a);
  p.commit(b);
  p.advance(p.workers[2], 1);
  CHECK_FALSE(a.waits());
  CHECK_FALSE(p.asks(b));
  CHECK(p.stamp(b).included == at(1));
  CHECK(p.row(b) == counts{1, 1, 1, 0});
}

TEST_CASE("process cache: a state without commits that the reader has given up is not used") {
  ssp_process p(ssp{.staleness = 9}, {});
  auto& a = p.workers[0];
  p.ask_rows(a, {0});
  p.settle();
  p.advance(a, 1);
  p.ask_rows(a, {1});
  p.settle();
  REQUIRE(p.stamp(a).included == at(1));
  CHECK(p.asks(a, some_rows, {0}));
  p.settle();
  CHECK(p.stamp(a).included == at(1));
}

TEST_CASE("process cache: rows are not older than the whole table that the reader has read") {
  ssp_process p(ssp{.staleness = 9}, {});
  auto &a = p.workers[0], &b = p.workers[1], &other = p.workers[2];
  SECTION("fetched before it") {
    p.ask_rows(b, {0});
    p.settle();
    p.advance(other, 1);
    p.ask(a);
    p.settle();
    p.ask_rows(a, {0});
    p.settle();
  }
  SECTION("answered behind it, before it was read off the store") {
    p.ask(a);
    p.ask_rows(b, {0});
    p.serve();
    p.commit(other);
    p.serve();
    p.net.hear(first_server);
    REQUIRE(p.row(a)[2] == 1);
    REQUIRE(b.waits());
    SECTION("and joined") { p.ask_rows(a, {0}), p.settle(); }
    SECTION("and kept") { p.settle(), p.ask_rows(a, {0}), p.settle(); }
  }
  CHECK_FALSE(a.waits());
  CHECK(p.row(a)[2] == 1);
}

TEST_CASE("process cache: the least recently used rows go first") {
  ssp_process p(ssp{.staleness = 9}, {.cached_rows = 2});
  auto& a = p.workers[0];
  for (std::uint64_t const row : {0, 1}) p.ask_rows(a, {row}), p.settle();
  CHECK_FALSE(p.asks(a, some_rows, {0}));
  CHECK(p.asks(a, some_rows, {2}));
  p.settle();
  CHECK_FALSE(p.asks(a, some_rows, {0, 2}));
  CHECK(p.asks(a, some_rows, {1}));
}

TEST_CASE("process cache: who has fallen far behind its own commits fetches anew") {
  ssp_process p(ssp{.staleness = 1000}, {});
  auto& a = p.workers[0];
  p.ask(a);
  p.settle();
  p.advance(a, 64);
  CHECK_FALSE(p.asks(a));
  p.advance(a, 65);
  CHECK(p.asks(a));
}

// ---- only to be let in

TEST_CASE("process cache: nobody asks to be let in where the known clock suffices") {
  ssp_process p(ssp{.staleness = 2}, {});
  auto &a = p.workers[0], &b = p.workers[1];
  CHECK(p.asks(a, nothing));
  p.settle();
  SECTION("after a read") {
    p.advance(a, 2);
    CHECK_FALSE(p.asks(a, nothing));
    CHECK_FALSE(a.waits());
    CHECK(p.stamp(a).server_clock == at(0));
    CHECK(p.stamp(a).included == at(0));
    p.advance(a, 3);
    CHECK(p.asks(a, nothing));
    p.settle();
    CHECK(a.waits());
  }
  SECTION("as the first thing") {
    p.advance(b, 2);
    CHECK_FALSE(p.asks(b, nothing));
    CHECK(p.stamp(b).included <= at(2));
  }
}

TEST_CASE("process cache: who only pushes is told now and then which commits are in") {
  process p(asp{}, {});
  auto& a = p.workers[0];
  p.advance(a, 33);
  CHECK(p.asks(a, nothing));
  p.settle();
  CHECK_FALSE(a.waits());
  CHECK(p.stamp(a).included == at(33));
  p.advance(a, 65);
  CHECK_FALSE(p.asks(a, nothing));
  p.advance(a, 66);
  CHECK(p.asks(a, nothing));
}

// ---- who comes and goes

TEST_CASE("process cache: a refusal reaches all who wait") {
  ssp_process p(ssp{.staleness = 2}, {.here = 3});
  auto &a = p.workers[0], &b = p.workers[1], &c = p.workers[2];
  p.ask_rows(a, {0});
  p.ask_rows(b, {0, 1});
  p.net.refuse(first_server, refusal::stranger);
  p.settle();
  CHECK_FALSE((a.waits() || b.waits()));
  CHECK(a.asked.refused == refusal::stranger);
  CHECK(b.asked.refused == refusal::stranger);
  CHECK(c.asked.refused == refusal::none);
  CHECK(p.asks(c, some_rows, {0}));
  CHECK_FALSE(p.asks(a, some_rows, {1}));
  p.settle();
  CHECK_FALSE((a.waits() || c.waits()));
}

TEST_CASE("process cache: nothing is written for who has been forgotten") {
  ssp_process p(ssp{.staleness = 2}, {});
  auto const gone = static_cast<std::size_t>(GENERATE(0, 1));
  auto const what = GENERATE(all, some_rows);
  auto &a = p.workers[gone], &b = p.workers[1 - gone];
  p.ask(p.workers[0], what, {0});
  p.ask(p.workers[1], what, {0});
  p.serve();
  p.cache.forget(a.number);
  a.slots.front().values = {-1};
  a.slots.front().stamp.version = version_index{-1};
  p.settle();
  CHECK(a.slots.front().values == counts{-1});
  CHECK(a.slots.front().stamp.version == version_index{-1});
  CHECK(a.slots.front().snapshot.empty());
  CHECK_FALSE(b.waits());
  CHECK(p.row(b) == counts{0, 0, 0, 0});
}

TEST_CASE("process cache: states from before a worker came are not for it") {
  SECTION("eager") {
    ssp_process p(ssp{.staleness = 2}, {});
    p.ask(p.workers[0]);
    p.settle();
    p.ask_rows(p.workers[0], {0});
    auto& late = p.add(true);
    CHECK(p.asks(late));
    p.settle();
    CHECK(p.asks(late, some_rows, {1}));
    p.settle();
    CHECK_FALSE(late.waits());
  }
  SECTION("a request under way, under the barrier") {
    process p(with(bsp{}, sum{}), {});
    p.advance(p.workers[0], 1);
    p.ask(p.workers[0]);
    auto& late = p.add(true);
    p.commit(late);
    p.ask(late);
    p.advance(p.workers[1], 1);
    p.advance(p.workers[2], 1);
    CHECK_FALSE(late.waits());
    CHECK(p.stamp(late).included == at(1));
    CHECK(p.row(late) == counts{1, 1, 1, 1});
  }
}

TEST_CASE("process cache: a stage begins with nothing") {
  ssp_process p(ssp{.staleness = 2}, {});
  for (auto& w : p.workers) p.advance(w, 5);
  p.ask(p.workers[0]);
  p.ask_rows(p.workers[1], {0});
  p.settle();
  p.ask_rows(p.workers[0], {1});
  p.begin_stage();
  CHECK_FALSE(p.net.serve(first_server));
  for (bool const here : {true, true, false}) p.add(here);
  CHECK(p.asks(p.workers[0]));
  CHECK(p.asks(p.workers[1], some_rows, {0, 1}));
  p.settle();
  CHECK(p.row(p.workers[0]) == counts{5, 5, 5, 0});  // the parameters stay
  CHECK(p.stamp(p.workers[0]).included == at(0));
}
