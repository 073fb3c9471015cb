// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/tcp/process_cache.hpp>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <rubato/cluster/blueprint.hpp>
#include <rubato/core/null_mutex.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <span>
#include <utility>
#include <variant>
#include <vector>

using namespace rubato;

namespace {

using detail::inquiry;
using detail::question;
using counts = std::vector<std::int64_t>;

constexpr clock_index at(std::int64_t value) { return clock_index{value}; }
constexpr server_id server{0};

/// One server, and a process's link to it: nothing moves but by hand, in order each way.
template <class Plan>
class lone_server {
 public:
  using message = typename Plan::message;
  using slot_type = read_slot<typename Plan::template store_type<0>>;
  /// It reads the whole table off its store while it sends it.
  static constexpr bool streams = !Plan::shard_type::control_type::serial;

  explicit lone_server(Plan const& p) : shard(p.make_shard(server)), plan_(p) {}

  std::unique_ptr<typename Plan::shard_type> shard;
  std::size_t asked = 0;

  // ---- as a worker_node

  void ask(server_id s, question& q) { ask_in_turn(s, q); }
  void ask_in_turn(server_id, question& q) {
    q.asker->missing.fetch_add(1);
    sent_.push_back(&q);
    ++asked;
  }
  void withdraw(inquiry& by) {
    std::erase_if(sent_, [&](auto const& m) {
      auto const* const q = std::get_if<question*>(&m);
      return q != nullptr && (*q)->asker == &by;
    });
    std::erase_if(waiting_, [&](auto const& w) { return w.second.first->asker == &by; });
    std::erase_if(replies_, [&](reply const& r) { return r.to->asker == &by; });
    by.missing = 0;
  }
  void post(message m) { sent_.push_back(std::move(m)); }

  // ---- by hand

  /// Takes the next that the process has sent, and says whether there was any.
  bool serve() {
    if (sent_.empty()) return false;
    auto const next = std::move(sent_.front());
    sent_.pop_front();
    if (auto* const m = std::get_if<message>(&next)) commit(*m);
    else take(*std::get<question*>(next));
    return true;
  }
  void commit(message const& m) {
    std::vector<worker_id> released;
    REQUIRE(shard->commit(m, released) == refusal::none);
    for (worker_id const w : released) {
      auto const node = waiting_.extract(w);
      if (node.empty()) continue;
      auto const& [q, read] = node.mapped();
      slot_type slot = slot_of(*q);
      shard->template read_released<0>(read, slot);
      answer(*q, slot);
    }
  }
  /// The process hears the next answer.
  bool hear() {
    if (replies_.empty()) return false;
    reply r = std::move(replies_.front());
    replies_.pop_front();
    if (r.why != refusal::none) r.to->done(r.why);
    else deliver(r);
    return true;
  }
  /// Refuses the next that the process has asked.
  void refuse(refusal why) {
    replies_.push_back({.to = std::get<question*>(sent_.front()), .why = why});
    sent_.pop_front();
  }

 private:
  struct reply {
    question* to;
    refusal why = refusal::none;
    wire::reply_meta meta{};
    counts values{};
  };

  void take(question& q) {
    auto const m = wire::from_bytes<wire::request_meta>(q.meta);
    read_header const read{
        {worker_id{q.header.sender}, incarnation_id{q.header.incarnation}, m.stage}, m.clock, m.bound, {}};
    slot_type slot = slot_of(q);
    auto const [refused, done] = shard->template admit<0>(read, slot);
    REQUIRE(refused == refusal::none);
    if (done) return answer(q, slot);
    REQUIRE_FALSE(waiting_.contains(read.from.worker));  // a server keeps one for each
    waiting_[read.from.worker] = {&q, read};
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
  void answer(question& q, slot_type const& slot) {
    reply r{.to = &q};
    r.meta = {.server_clock = slot.stamp.server_clock,
              .included = slot.stamp.included,
              .version = slot.stamp.version,
              .folded_below = slot.stamp.folded_below,
              .asked = wire::from_bytes<wire::request_meta>(q.meta).asked};
    if (slot.asked == selection::rows) r.values = slot.values;
    if (slot.asked == selection::all) r.values = listed(slot.snapshot);
    replies_.push_back(std::move(r));
  }
  void deliver(reply& r) {
    if (streams && r.meta.asked == selection::all) {
      slot_type now;
      shard->template store<0>().snapshot(now.snapshot);
      r.values = listed(now.snapshot);
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
  [[nodiscard]] counts listed(typename Plan::template snapshot_type<0> const& state) const {
    auto const& t = plan_.template spec<0>();
    counts all(static_cast<std::size_t>(t.rows) * t.width);
    state.copy(0, all.size(), all.data());
    return all;
  }

  Plan const& plan_;
  std::deque<std::variant<message, question*>> sent_;
  std::map<worker_id, std::pair<question*, read_header>> waiting_;
  std::deque<reply> replies_;
};

/// The workers of a process, one of another, and the cache. In a row's column m is how many commits
/// of worker m it reflects: each adds 1 in every row.
template <protocol P>
class process {
 public:
  using counts_table = dense<std::int64_t, sum>;
  using plan_type = blueprint<null_mutex, P, counts_table>;
  using slot_type = typename lone_server<plan_type>::slot_type;

  struct worker {
    worker(sender const& who, bool here, clock_index c) : self(who), is_here(here), clock(c) {}
    [[nodiscard]] bool waits() const { return asked.missing.load() != 0; }

    sender self;
    bool is_here;
    clock_index clock;
    std::size_t number = 0;  ///< in the cache
    inquiry asked{};
    slot_type slot{};
  };

  explicit process(P const& p, std::uint32_t here = 2, std::uint64_t cached_rows = 0)
      : width(here + 2),  // one elsewhere, and one for a joiner
        plan(p, 1, counts_table{.rows = 8, .width = width, .cached_rows = cached_rows}),
        net(plan),
        cache(plan, net, 0) {
    begin_stage();
    for (std::uint32_t i = 0; i < here; ++i) add(true);
    add(false);
  }

  void begin_stage() {
    stage = stage_id{stage.value() + 1};
    workers.clear();
    net.shard->begin_stage(stage);
    cache.begin_stage();
  }
  worker& add(bool here) {
    sender const self{worker_id{static_cast<std::uint32_t>(workers.size())}, {}, stage};
    std::vector<worker_id> nobody;
    auto const report = net.shard->order({.what = membership_order::kind::enlist,
                                          .worker = self.worker,
                                          .incarnation = {},
                                          .epoch = epoch_id{++epoch_},
                                          .stage = stage},
                                         nobody);
    worker& w = workers.emplace_back(self, here, report->clock);
    if (here) w.number = cache.enlist(w.asked, w.clock);
    return w;
  }

  void commit(worker& w) {
    commit(w, [] {});
  }
  /// With what happens meanwhile: before it leaves, and after.
  template <class F>
  void commit(worker& w, F meanwhile) {
    auto one_each = std::make_shared<update<std::int64_t>>();
    one_each->whole = true;
    one_each->values.resize(static_cast<std::size_t>(plan.template spec<0>().rows) * width);
    for (std::size_t i = w.self.worker.index(); i < one_each->values.size(); i += width)
      one_each->values[i] = 1;
    typename plan_type::message m{w.self, w.clock, {}, {std::move(one_each)}};
    w.clock = w.clock.next();
    if (!w.is_here) return net.commit(m);
    cache.posting(w.number, server, w.clock);
    meanwhile();
    net.post(std::move(m));
    meanwhile();
    cache.posted(w.number, server, w.clock);
  }
  /// Until it is at this clock; and the server has the commits.
  void advance(worker& w, std::int64_t to) {
    while (w.clock < at(to)) commit(w);
    settle();
  }

  void ask(worker& w, selection what = selection::all, std::vector<std::uint64_t> some = {}) {
    w.slot.asked = what;
    w.slot.rows = std::move(some);
    w.slot.row_stamps.clear();
    staleness const most = plan.protocol_used().admission().bound();
    cache.template request<0>(w.number, server, {w.self, w.clock, most, {}}, w.slot);
  }
  void ask_rows(worker& w, std::vector<std::uint64_t> some) { ask(w, selection::rows, std::move(some)); }
  /// Whether it asked the server.
  bool asks(worker& w, selection what = selection::all, std::vector<std::uint64_t> some = {}) {
    std::size_t const before = net.asked;
    ask(w, what, std::move(some));
    return net.asked != before;
  }

  void serve() {
    while (net.serve()) {}
  }
  /// Everything under way arrives, and what comes of it.
  void settle() {
    while (net.serve() || net.hear()) {}
  }

  /// A row that the worker has got.
  [[nodiscard]] counts row(worker const& w, std::size_t index = 0) const {
    counts found(width);
    if (w.slot.asked == selection::all) w.slot.snapshot.copy(index * width, width, found.data());
    else std::copy_n(w.slot.values.data() + index * width, width, found.data());
    return found;
  }

  std::size_t width;
  plan_type plan;
  lone_server<plan_type> net;
  detail::process_cache<plan_type, lone_server<plan_type>> cache;
  stage_id stage{};
  std::deque<worker> workers;

 private:
  std::uint64_t epoch_ = 0;
};

using ssp_process = process<ssp>;
constexpr selection all = selection::all;
constexpr selection nothing = selection::nothing;
constexpr selection some_rows = selection::rows;

}  // namespace

// ---- requests under way

TEST_CASE("process cache: many that miss the same issue one request") {
  ssp_process p(ssp{.staleness = 2}, 3);
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
  p.settle();
  CHECK_FALSE((a.waits() || b.waits() || c.waits()));
  CHECK(p.row(a, 1) == counts{0, 0, 0, 2, 0});
  CHECK(p.row(b) == p.row(a));
  CHECK(p.row(c) == p.row(a));
}

TEST_CASE("process cache: who needs more or less than a request does not wait for its answer") {
  ssp_process p(ssp{.staleness = 2});
  auto &near = p.workers[0], &far = p.workers[1];
  p.advance(far, 3);
  bool const far_first = GENERATE(false, true);
  p.ask_rows(far_first ? far : near, {0});
  p.ask_rows(far_first ? near : far, {0});
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK_FALSE(near.waits());
  p.advance(near, 1);
  CHECK(far.waits());
  p.advance(p.workers[2], 1);
  CHECK_FALSE(far.waits());
  CHECK(far.slot.stamp.server_clock == at(1));
}

TEST_CASE("process cache: who would be let in at once joins a request of another need") {
  ssp_process p(ssp{.staleness = 2});
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
  CHECK(a.slot.stamp.included == at(5));
  CHECK(b.slot.stamp.included == at(6));
  CHECK(p.row(b) == counts{5, 6, 4, 0});
}

TEST_CASE("process cache: under eager visibility own commits that left since want a request anew") {
  ssp_process p(ssp{.staleness = 2});
  auto &a = p.workers[0], &b = p.workers[1];
  auto const what = GENERATE(all, some_rows);
  std::vector<std::uint64_t> const rows(what == all ? 0 : 1);
  p.ask(a, what, rows);
  p.commit(b);
  p.ask(b, what, rows);
  CHECK(p.net.asked == 2);
  p.settle();
  CHECK(b.slot.stamp.included == at(1));
  CHECK(p.row(b)[1] == 1);
}

TEST_CASE("process cache: under the barrier own commits that left since are in the answer") {
  process p(with(bsp{}, sum{}));
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
  CHECK(b.slot.stamp.included == at(1));
  CHECK(p.row(b) == counts{1, 1, 1, 0});
}

TEST_CASE("process cache: strict visibility with staleness, own commits left since") {
  process p(with(ssp{.staleness = 1}, strict{}));
  auto &a = p.workers[0], &b = p.workers[1];
  p.ask_rows(a, {1});
  p.settle();  // now it is known that both would be let in
  p.ask_rows(a, {0});
  p.commit(b);
  p.ask_rows(b, {0});
  SECTION("the answer says which are in") {
    p.settle();
    CHECK_FALSE(b.waits());
    CHECK(p.row(b)[1] == b.slot.stamp.included.value());
  }
  SECTION("nobody waits for another's answer that cannot be of use") {
    p.serve();
    while (p.net.hear()) {}
    CHECK_FALSE(b.waits());
  }
}

TEST_CASE("process cache: rows partly here, partly under way, partly missing") {
  ssp_process p(ssp{.staleness = 5});
  auto &a = p.workers[0], &b = p.workers[1], &other = p.workers[2];
  p.ask_rows(a, {0});
  p.settle();
  p.commit(other);
  p.ask_rows(b, {1, 5});
  p.serve();
  p.commit(other);
  CHECK(p.asks(a, some_rows, {2, 1, 0, 3}));
  p.net.hear();
  CHECK_FALSE(b.waits());
  CHECK(a.waits());
  p.settle();
  CHECK_FALSE(a.waits());
  for (std::size_t const i : {0u, 1u, 2u, 3u}) CHECK(p.row(a, i)[2] == counts{2, 1, 0, 2}[i]);
  CHECK(p.net.asked == 3);
  CHECK_FALSE(p.asks(b, some_rows, {3, 2}));  // the third question was for these
  CHECK(p.asks(b, some_rows, {4}));
}

// ---- what is here

namespace {

/// The clocks, from that of the first fetch on, at which another worker asks a server.
template <protocol P>
std::vector<std::int64_t> clocks_that_ask(P const& used, selection what) {
  process p(used);
  auto &a = p.workers[0], &b = p.workers[1];
  std::vector<std::int64_t> asking;
  p.ask(a, what, {3});
  p.settle();
  for (std::int64_t c = 0; c < 6; ++c) {
    if (p.asks(b, what, {3})) asking.push_back(c);
    p.settle();
    REQUIRE_FALSE(b.waits());
    CHECK(p.row(b)[1] == b.slot.stamp.included.value());
    for (auto& w : p.workers) p.advance(w, c + 1);
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
  ssp_process p(ssp{.staleness = 9});
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
    CHECK(b.slot.stamp.included == at(3));
  }
  SECTION("all left before the question or after the answer") {
    p.settle();
    p.advance(b, 4);
    CHECK_FALSE(p.asks(b, what, {0}));
    CHECK(b.slot.stamp.included == at(2));
  }
  CHECK(p.row(b)[1] == b.slot.stamp.included.value());
}

TEST_CASE("process cache: a commit that is just leaving may be in an answer or not") {
  ssp_process p(ssp{.staleness = 9});
  auto &a = p.workers[0], &b = p.workers[1];
  bool const was_asked = GENERATE(false, true);
  if (was_asked) p.ask(a);
  int calls = GENERATE(0, 1);
  p.commit(b, [&] {
    if (++calls != 2) return;
    if (!was_asked) p.ask(a);
    p.settle();
  });
  CHECK(p.asks(b));
  p.settle();
  CHECK(b.slot.stamp.included == at(1));
  CHECK(p.row(b)[1] == 1);
}

TEST_CASE("process cache: the server's clock says that what left later is in, too") {
  process p(with(bsp{}, sum{}));
  auto &a = p.workers[0], &b = p.workers[1];
  p.advance(a, 1);
  p.ask(a);
  p.commit(b);
  p.advance(p.workers[2], 1);
  CHECK_FALSE(a.waits());
  CHECK_FALSE(p.asks(b));
  CHECK(b.slot.stamp.included == at(1));
  CHECK(p.row(b) == counts{1, 1, 1, 0});
}

TEST_CASE("process cache: a state without commits that the reader has given up is not used") {
  ssp_process p(ssp{.staleness = 9});
  auto& a = p.workers[0];
  p.ask_rows(a, {0});
  p.settle();
  p.advance(a, 1);
  p.ask_rows(a, {1});
  p.settle();
  REQUIRE(a.slot.stamp.included == at(1));
  CHECK(p.asks(a, some_rows, {0}));
  p.settle();
  CHECK(a.slot.stamp.included == at(1));
}

TEST_CASE("process cache: rows are not older than the whole table that the reader has read") {
  ssp_process p(ssp{.staleness = 9});
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
    p.net.hear();
    REQUIRE(p.row(a)[2] == 1);
    REQUIRE(b.waits());
    if (GENERATE(false, true)) p.settle();  // it is kept; else it can be joined
    p.ask_rows(a, {0});
    p.settle();
  }
  CHECK_FALSE(a.waits());
  CHECK(p.row(a)[2] == 1);
}

TEST_CASE("process cache: the least recently used rows go first") {
  ssp_process p(ssp{.staleness = 9}, 2, 2);
  auto& a = p.workers[0];
  p.ask_rows(a, {0});
  p.ask_rows(a, {1});  // a worker would wait for the other first
  p.settle();
  CHECK_FALSE(p.asks(a, some_rows, {0}));
  CHECK(p.asks(a, some_rows, {2}));
  p.settle();
  CHECK_FALSE(p.asks(a, some_rows, {0, 2}));
  CHECK(p.asks(a, some_rows, {1}));
}

TEST_CASE("process cache: who has fallen far behind its own commits fetches anew") {
  ssp_process p(ssp{.staleness = 1000});
  auto& a = p.workers[0];
  p.ask(a);
  p.settle();
  p.advance(a, 64);
  CHECK_FALSE(p.asks(a));
  p.commit(a);
  CHECK(p.asks(a));
}

// ---- only to be let in

TEST_CASE("process cache: nobody asks to be let in where the known clock suffices") {
  ssp_process p(ssp{.staleness = 2});
  auto &a = p.workers[0], &b = p.workers[1];
  CHECK(p.asks(a, nothing));
  p.settle();
  SECTION("after a read") {
    p.advance(a, 2);
    CHECK_FALSE(p.asks(a, nothing));
    CHECK(a.slot.stamp.server_clock == at(0));
    CHECK(a.slot.stamp.included == at(0));
    p.advance(a, 3);
    CHECK(p.asks(a, nothing));
  }
  SECTION("as the first thing") {
    p.advance(b, 2);
    CHECK_FALSE(p.asks(b, nothing));
    CHECK(b.slot.stamp.included == at(0));
  }
}

TEST_CASE("process cache: who only pushes is told now and then which commits are in") {
  process p(asp{});
  auto& a = p.workers[0];
  p.advance(a, 33);
  CHECK(p.asks(a, nothing));
  p.settle();
  CHECK_FALSE(a.waits());
  CHECK(a.slot.stamp.included == at(33));
  p.advance(a, 65);
  CHECK_FALSE(p.asks(a, nothing));
  p.advance(a, 66);
  CHECK(p.asks(a, nothing));
}

// ---- who comes and goes

TEST_CASE("process cache: a refusal reaches all who wait") {
  ssp_process p(ssp{.staleness = 2}, 3);
  auto &a = p.workers[0], &b = p.workers[1], &c = p.workers[2];
  p.ask_rows(a, {0});
  p.ask_rows(b, {0, 1});
  p.net.refuse(refusal::stranger);
  p.settle();
  CHECK_FALSE((a.waits() || b.waits()));
  CHECK(a.asked.refused == refusal::stranger);
  CHECK(b.asked.refused == refusal::stranger);
  CHECK(p.asks(c, some_rows, {0}));
  p.settle();
  CHECK_FALSE(c.waits());
}

TEST_CASE("process cache: nothing is written for who has been forgotten") {
  ssp_process p(ssp{.staleness = 2});
  auto const gone = static_cast<std::size_t>(GENERATE(0, 1));
  auto const what = GENERATE(all, some_rows);
  auto &a = p.workers[gone], &b = p.workers[1 - gone];
  p.ask(p.workers[0], what, {0});
  p.ask(p.workers[1], what, {0});
  p.serve();
  p.cache.forget(a.number);
  a.slot.values = {-1};
  a.slot.stamp.version = version_index{-1};
  p.settle();
  CHECK(a.slot.values == counts{-1});
  CHECK(a.slot.stamp.version == version_index{-1});
  CHECK(a.slot.snapshot.empty());
  CHECK_FALSE(b.waits());
  CHECK(p.row(b) == counts{0, 0, 0, 0});
}

TEST_CASE("process cache: states from before a worker came are not for it") {
  SECTION("eager") {
    ssp_process p(ssp{.staleness = 2});
    p.ask(p.workers[0]);
    p.settle();
    p.ask_rows(p.workers[0], {0});
    auto& late = p.add(true);
    CHECK(p.asks(late));
    p.settle();
    CHECK(p.asks(late, some_rows, {1}));
  }
  SECTION("a request under way, under the barrier") {
    process p(with(bsp{}, sum{}));
    p.advance(p.workers[0], 1);
    p.ask(p.workers[0]);
    auto& late = p.add(true);
    p.commit(late);
    p.ask(late);
    p.advance(p.workers[1], 1);
    p.advance(p.workers[2], 1);
    CHECK_FALSE(late.waits());
    CHECK(late.slot.stamp.included == at(1));
    CHECK(p.row(late) == counts{1, 1, 1, 1});
  }
}

TEST_CASE("process cache: a stage begins with nothing") {
  ssp_process p(ssp{.staleness = 2});
  for (auto& w : p.workers) p.advance(w, 5);
  p.ask(p.workers[0]);
  p.ask_rows(p.workers[1], {0});
  p.settle();
  p.ask_rows(p.workers[0], {1});
  p.begin_stage();
  CHECK_FALSE(p.net.serve());
  for (bool const here : {true, true, false}) p.add(here);
  CHECK(p.asks(p.workers[0]));
  CHECK(p.asks(p.workers[1], some_rows, {0, 1}));
  p.settle();
  CHECK(p.row(p.workers[0]) == counts{5, 5, 5, 0});  // the parameters stay
  CHECK(p.workers[0].slot.stamp.included == at(0));
}
