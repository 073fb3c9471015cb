// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The rules of Hop by hand: one peer, or three, message by message.
#include "rubato/peer/hop_core.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/hop_node.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;

namespace {

using lines = std::vector<std::string>;
using kind = hop_message<int>::kind;

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

constexpr worker_id id(std::uint32_t w) { return worker_id{w}; }

/// The parameters that worker w sends in iteration k; of some number also where k is none.
constexpr int value(std::uint32_t w, std::int64_t k) {
  return static_cast<int>(1000 * (w % 1000) + static_cast<std::uint64_t>(k) % 1000);
}

std::vector<worker_id> ids(std::vector<std::uint32_t> const& numbers) {
  std::vector<worker_id> all;
  for (std::uint32_t const w : numbers) all.push_back(id(w));
  return all;
}

/// A place in some graph, with uniform weights. Who only receives is two edges behind, unless told.
peer_site site(std::uint32_t self, std::vector<std::uint32_t> const& in,
               std::vector<std::uint32_t> const& out, std::int64_t behind = 2,
               std::int64_t lead_max = 1) {
  double const weight = 1.0 / static_cast<double>(in.size() + 1);
  peer_site s{.self = id(self), .in = ids(in), .out = ids(out), .self_weight = weight,
              .weights = std::vector<double>(in.size(), weight), .behind = {}, .lead_max = lead_max};
  for (std::uint32_t const j : out)
    s.behind.push_back(std::ranges::find(in, j) == in.end() ? behind : 1);
  return s;
}

/// Peer 0 among `others`, both ways.
peer_site among(std::vector<std::uint32_t> const& others) { return site(0, others, others); }

std::string name(kind what) {
  switch (what) {
    case kind::update: return "update";
    case kind::tokens: return "tokens";
    case kind::ack: return "ack";
    case kind::bye: return "bye";
  }
  return "?";
}

/// What took part in a reduce: sender, and what it sent; nothing for the peer's own.
struct part {
  std::uint32_t from;
  std::optional<int> sent;

  bool operator==(part const&) const = default;
  friend std::ostream& operator<<(std::ostream& s, part const& p) {
    s << p.from << ": ";
    return p.sent ? s << *p.sent : s << "own";
  }
};

struct reduced_parts {
  std::vector<part> parts;
  std::vector<double> weights;
};

/// A core, and what it has said.
template <class Protocol>
struct hand {
  using core_type = hop_core<int, Protocol>;
  using todo = typename core_type::todo;

  core_type core;
  typename core_type::outbox_type out{};

  hand(Protocol const& p, peer_site s) : core(p, std::move(s)) {}

  static std::string name_of(todo t) {
    switch (t) {
      case todo::wait: return "wait";
      case todo::compute: return "compute";
      case todo::send: return "send";
      case todo::reduce: return "reduce";
      case todo::end: return "end";
      case todo::stop: return "stop";
    }
    return "?";
  }

  std::uint32_t self() const { return core.site().self.value(); }
  std::int64_t iteration() const { return core.iteration().value(); }

  /// What it said since it was asked last.
  lines said() {
    lines all;
    for (auto const& [to, m] : std::exchange(out, {})) {
      if (m.what == kind::update) CHECK(m.parameters == value(self(), m.number));
      all.push_back(name(m.what) + ' ' + std::to_string(m.number) + " to " +
                    std::to_string(to.value()));
    }
    return all;
  }

  std::string poll() {
    bool const could = core.can_go_on();
    std::string const what = name_of(core.poll(out));
    CHECK((could || what == "wait"));  // or whoever waits for can_go_on() would sleep for ever
    return what;
  }

  void start(std::int64_t n) { core.start(n, out); }
  void send() {
    REQUIRE(poll() == "send");
    core.send(value(self(), iteration()), out);
  }
  void compute() {
    REQUIRE(poll() == "compute");
    core.computed();
  }
  reduced_parts gather() {
    reduced_parts all;
    double sum = 0;
    for (auto const& c : core.gather()) {
      CHECK(c.own == (c.from == core.site().self));
      all.parts.push_back({c.from.value(), c.own ? std::optional<int>{} : c.parameters});
      all.weights.push_back(c.weight);
      sum += c.weight;
    }
    CHECK(std::abs(sum - 1) < 1e-9);
    return all;
  }
  reduced_parts reduce() {
    REQUIRE(poll() == "reduce");
    reduced_parts const all = gather();
    core.reduced(out);
    return all;
  }
  /// Up to the reduce of this iteration, in parallel order.
  void send_and_compute() {
    send();
    compute();
  }
  /// A whole iteration that has all it needs.
  reduced_parts iterate() {
    send_and_compute();
    return reduce();
  }

  bool deliver(std::uint32_t from, kind what, std::int64_t number) {
    return core.deliver(id(from), {what, number, what == kind::update ? value(from, number) : 0});
  }
  bool update(std::uint32_t from, std::int64_t k) { return deliver(from, kind::update, k); }
  bool tokens(std::uint32_t from, std::int64_t n) { return deliver(from, kind::tokens, n); }
  bool ack(std::uint32_t from, std::int64_t k) { return deliver(from, kind::ack, k); }
  bool bye(std::uint32_t from, std::int64_t n) { return deliver(from, kind::bye, n); }
  void lose(std::uint32_t w) { core.lose(id(w)); }

  /// Takes part in iterations 0 … k − 1 with everybody else, and is in iteration k with all tokens
  /// that there can be: max_ig of each.
  void in_step_until(std::int64_t k) {
    auto const everybody_enters = [&] {
      if constexpr (decltype(std::declval<Protocol const&>().gap())::tokens)
        for (worker_id const j : core.site().out) REQUIRE(tokens(j.value(), 1));
    };
    everybody_enters();
    for (std::int64_t at = 0; at < k; ++at) {
      for (worker_id const j : core.site().in) REQUIRE(update(j.value(), at));
      iterate();
      everybody_enters();
      (void)poll();
    }
    REQUIRE(iteration() == k);
    said();
  }

  /// All that can be seen of it, now and by its next move.
  std::string state() const {
    std::ostringstream s;
    auto const describe = [&s](core_type const& c) {
      s << "iteration " << c.iteration().value() << " started " << c.started() << " ended "
        << c.ended() << " gathering " << c.gathering() << " jumping " << c.jumping() << " can go on "
        << c.can_go_on() << " lost " << (c.lost() ? static_cast<int>(c.lost()->value()) : -1);
      for (std::size_t i = 0; i < c.site().in.size(); ++i) {
        s << "\n in " << c.site().in[i].value() << " live " << c.is_live_in(i) << " has";
        if constexpr (decltype(std::declval<Protocol const&>().gather())::kept == keeping::newest) {
          s << ' ' << c.updates().newest(i).value() << " fresh " << c.updates().fresh(i);
        } else {
          std::int64_t const first = c.updates().first().value();
          for (std::int64_t k = first; k < first + 10; ++k)
            if (c.updates().contains(iteration_index{k}, c.site().in[i])) s << ' ' << k;
        }
      }
      for (std::size_t i = 0; i < c.site().out.size(); ++i)
        s << "\n out " << c.site().out[i].value() << " live " << c.is_live_out(i) << " tokens "
          << c.tokens(i);
      peer_counters const n = c.counters();
      s << "\n counts " << n.iterations << ' ' << n.jumps << ' ' << n.jumped_over << ' '
        << n.updates_sent << ' ' << n.updates_spared << ' ' << n.updates_reduced << ' '
        << n.updates_late << ' ' << n.queue_peak << " held " << c.updates().size() << '\n';
    };
    describe(core);
    hand next = *this;
    next.out.clear();
    todo const what = next.core.poll(next.out);
    s << "then: " << name_of(what);
    if (what == todo::send) next.core.send(value(self(), iteration()), next.out);
    if (what == todo::reduce) {
      for (auto const& c : next.core.gather())
        s << " [" << c.from.value() << ' ' << c.weight << ' ' << (c.own ? -1 : c.parameters) << ']';
    }
    for (auto const& [to, m] : next.out)
      s << ", " << name(m.what) << ' ' << m.number << " to " << to.value();
    s << '\n';
    describe(next.core);
    return s.str();
  }
};
template <class Protocol>
hand(Protocol, peer_site) -> hand<Protocol>;

/// Expects that this message is refused and changes nothing. Of a copy, so that what a wrong one has
/// done does not make the rest of a test fail.
template <class Protocol>
void refused(hand<Protocol> p, std::uint32_t from, kind what, std::int64_t number) {
  INFO(name(what) << ' ' << number << " from " << from << " in iteration " << p.iteration());
  std::string const before = p.state();
  CHECK_FALSE(p.deliver(from, what, number));
  CHECK(p.state() == before);
}

/// Expects that it is taken, and changes nothing.
template <class Protocol>
void ignored(hand<Protocol>& p, std::uint32_t from, kind what, std::int64_t number) {
  INFO(name(what) << ' ' << number << " from " << from << " in iteration " << p.iteration());
  std::string const before = p.state();
  CHECK(p.deliver(from, what, number));
  CHECK(p.state() == before);
}

}  // namespace

// ---- the order of an iteration

TEST_CASE("hop_core: parallel order sends, computes, gathers and reduces", "[peer][hop_core]") {
  hand p(hop(), among({1, 2}));
  CHECK_FALSE(p.core.started());
  CHECK(p.poll() == "wait");
  CHECK_FALSE(p.core.can_go_on());
  p.start(2);
  CHECK(p.core.started());
  CHECK(p.said().empty());  // no tokens, nothing else to say
  for (std::int64_t k = 0; k < 2; ++k) {
    CHECK(p.poll() == "send");
    CHECK(p.poll() == "send");  // until it is done
    CHECK(p.iteration() == k);
    p.core.send(value(0, k), p.out);
    std::string const number = std::to_string(k);
    CHECK(p.said() == lines{"update " + number + " to 1", "update " + number + " to 2"});
    CHECK(p.poll() == "compute");
    p.core.computed();
    CHECK(p.poll() == "wait");
    CHECK(p.core.gathering());
    CHECK(p.update(2, k));
    CHECK_FALSE(p.core.can_go_on());
    CHECK(p.poll() == "wait");
    CHECK(p.update(1, k));
    CHECK(p.core.can_go_on());
    CHECK(p.poll() == "reduce");
    CHECK_FALSE(p.core.gathering());
    CHECK(p.poll() == "reduce");
    auto const all = p.gather();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, k)}, {2, value(2, k)}});
    CHECK(all.weights == std::vector<double>(3, 1.0 / 3));
    p.core.reduced(p.out);
    CHECK(p.said().empty());
  }
  CHECK_FALSE(p.core.ended());
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 2 to 1", "bye 2 to 2"});
  CHECK(p.core.ended());
  CHECK(p.poll() == "end");
  CHECK(p.said().empty());
  CHECK(p.iteration() == 1);  // the last one
  auto const n = p.core.counters();
  CHECK(n.iterations == 2);
  CHECK(n.updates_sent == 4);
  CHECK(n.updates_reduced == 4);
  CHECK(n.updates_spared + n.updates_late + n.jumps + n.jumped_over == 0);
  CHECK(n.queue_peak == 2);
}

TEST_CASE("hop_core: serial order computes before it sends", "[peer][hop_core]") {
  hand p(hop(iteration_order::serial), among({1}));
  p.start(2);
  for (std::int64_t k = 0; k < 2; ++k) {
    CHECK(p.update(1, k));  // is no reason to leave something out
    CHECK(p.poll() == "compute");
    p.core.computed();
    CHECK(p.poll() == "send");
    CHECK(p.said().empty());
    p.core.send(value(0, k), p.out);
    CHECK(p.said() == lines{"update " + std::to_string(k) + " to 1"});
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, k)}});
  }
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 2 to 1"});
}

TEST_CASE("hop_core: standard: updates of later iterations wait for theirs", "[peer][hop_core]") {
  hand p(hop(), site(0, {1, 2}, {1, 2}, 1, 2));  // 1 may be two iterations ahead
  CHECK(p.update(1, 0));                         // before it has begun
  p.start(3);
  CHECK(p.update(1, 1));
  CHECK(p.update(1, 2));
  p.send_and_compute();
  CHECK(p.poll() == "wait");
  CHECK(p.update(2, 0));
  CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 0)}, {2, value(2, 0)}});
  CHECK(p.update(2, 1));  // while it has not yet entered iteration 1
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}, {2, value(2, 1)}});
  p.send_and_compute();
  CHECK(p.update(2, 2));
  CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 2)}, {2, value(2, 2)}});
  CHECK(p.poll() == "end");
  CHECK(p.core.counters().queue_peak == 4);
}

TEST_CASE("hop_core: a directed edge is sent along in its direction only", "[peer][hop_core]") {
  hand p(hop(token_queues{2}), site(0, {2}, {1}));
  p.start(1);
  CHECK(p.said() == lines{"tokens 1 to 2"});  // tokens go to who sends, updates the other way
  p.send();
  CHECK(p.said() == lines{"update 0 to 1"});
  p.compute();
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 1 to 2", "bye 1 to 1"});
}

TEST_CASE("hop_core: no iteration, nothing but a goodbye", "[peer][hop_core]") {
  hand p(hop(token_queues{3}), site(0, {1, 2}, {1, 3}));
  p.start(0);
  CHECK(p.said() == lines{"bye 0 to 1", "bye 0 to 2", "bye 0 to 3"});
  CHECK(p.core.started());
  CHECK(p.core.ended());
  CHECK(p.poll() == "end");
  CHECK(p.said().empty());
}

TEST_CASE("hop_core: a peer without neighbors", "[peer][hop_core]") {
  auto const alone = [](auto protocol) {
    hand p(protocol, site_of(mixing_matrix::uniform(complete(1)), id(0)));
    p.start(3);
    for (int k = 0; k < 3; ++k) {
      bool sent = false;
      for (std::string what = p.poll(); what != "reduce"; what = p.poll()) {
        if (what == "send" && !sent) p.send(), sent = true;
        else p.compute();
      }
      auto const all = p.reduce();
      CHECK(all.parts == std::vector<part>{{0, {}}});
      CHECK(all.weights == std::vector<double>{1});
      CHECK(p.iteration() == k);
    }
    CHECK(p.poll() == "end");
    CHECK(p.said().empty());
    CHECK(p.core.counters().iterations == 3);
  };
  alone(hop());
  alone(hop(iteration_order::serial));
  alone(hop(notify_ack{}));
  alone(hop(token_queues{1}));
  alone(hop(gather_newest{.staleness = 0}));
  alone(hop(gather_newest{.staleness = 2}, token_queues{1}, bounded_jump{}));
}

TEST_CASE("hop_core: two peers on one edge", "[peer][hop_core]") {
  mixing_matrix const pair = mixing_matrix::uniform(ring(2));
  hand a(hop(token_queues{1}), site_of(pair, id(0)));
  hand b(hop(token_queues{1}), site_of(pair, id(1)));
  std::deque<hop_message<int>> to_a, to_b;
  auto const post = [&] {
    for (auto& [to, m] : std::exchange(a.out, {})) to_b.push_back(m);
    for (auto& [to, m] : std::exchange(b.out, {})) to_a.push_back(m);
  };
  auto const deliver = [](auto& to, std::uint32_t from, auto& channel) {
    CHECK(to.core.deliver(id(from), channel.front()));
    channel.pop_front();
  };
  a.start(2);
  b.start(2);
  post();
  a.send_and_compute();
  post();
  while (!to_b.empty()) deliver(b, 0, to_b);
  CHECK(b.iterate().weights == std::vector<double>{0.5, 0.5});
  CHECK(b.poll() == "send");  // a is in iteration 0, and there may be one iteration between them
  post();
  b.send_and_compute();
  post();
  CHECK(a.poll() == "wait");
  CHECK(a.core.tokens(0) == 0);
  while (!to_a.empty()) deliver(a, 1, to_a);
  CHECK(a.core.tokens(0) == 2);
  CHECK(a.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 0)}});
  CHECK(a.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}});
  CHECK(a.poll() == "end");
  post();
  while (!to_b.empty()) deliver(b, 0, to_b);
  b.reduce();
  CHECK(b.poll() == "end");
}

// ---- NOTIFY-ACK

TEST_CASE("hop_core: notify_ack: the next send waits for all acknowledgements", "[peer][hop_core]") {
  hand p(hop(notify_ack{}), among({1, 2}));
  p.start(3);
  p.send_and_compute();  // the first one needs none
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.said();
  p.reduce();
  CHECK(p.said() == lines{"ack 0 to 1", "ack 0 to 2"});
  CHECK(p.poll() == "wait");
  CHECK(p.iteration() == 1);  // it has entered the iteration, and cannot send
  CHECK_FALSE(p.core.gathering());
  CHECK(p.ack(2, 0));
  CHECK(p.poll() == "wait");
  CHECK_FALSE(p.core.can_go_on());
  CHECK(p.update(2, 1));  // is no acknowledgement
  CHECK(p.poll() == "wait");
  CHECK(p.ack(1, 0));
  CHECK(p.core.can_go_on());
  p.send();
  CHECK(p.said() == lines{"update 1 to 1", "update 1 to 2"});
  p.compute();
  CHECK(p.ack(1, 1));  // in the same iteration
  CHECK(p.update(1, 1));
  p.reduce();
  CHECK(p.said() == lines{"ack 1 to 1", "ack 1 to 2"});
  CHECK(p.poll() == "wait");
  CHECK(p.ack(2, 1));
  p.send_and_compute();
  CHECK(p.update(1, 2));
  CHECK(p.update(2, 2));
  p.said();
  p.reduce();
  CHECK(p.said() == lines{"ack 2 to 1", "ack 2 to 2"});
  CHECK(p.poll() == "end");  // the acknowledgements of the last update are not waited for
  CHECK(p.said() == lines{"bye 3 to 1", "bye 3 to 2"});
  CHECK(p.ack(1, 2));  // and may come late
  CHECK(p.core.counters().queue_peak == 2);
}

TEST_CASE("hop_core: notify_ack in serial order computes while it waits", "[peer][hop_core]") {
  hand p(hop(notify_ack{}, iteration_order::serial), among({1}));
  p.start(2);
  p.compute();
  p.send();
  CHECK(p.update(1, 0));
  p.reduce();
  p.compute();
  CHECK(p.poll() == "wait");
  CHECK(p.ack(1, 0));
  CHECK(p.poll() == "send");
}

TEST_CASE("hop_core: notify_ack along directed edges", "[peer][hop_core]") {
  hand p(hop(notify_ack{}), site(0, {2}, {1}));
  p.start(2);
  p.send_and_compute();
  CHECK(p.said() == lines{"update 0 to 1"});
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.said() == lines{"ack 0 to 2"});
  CHECK(p.poll() == "wait");
  CHECK_FALSE(p.ack(2, 0));  // it was not sent anything
  CHECK(p.poll() == "wait");
  CHECK(p.ack(1, 0));
  CHECK(p.poll() == "send");
}

// ---- tokens

TEST_CASE("hop_core: tokens of out-neighbors, one per iteration entered", "[peer][hop_core]") {
  hand p(hop(token_queues{2}), site(0, {1, 2}, {1, 3}));
  CHECK(p.core.tokens(0) == 1);  // max_ig − 1, until the neighbor enters iteration 0
  p.start(4);
  CHECK(p.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.tokens(1, 1));
  CHECK(p.core.tokens(0) == 2);
  CHECK(p.core.tokens(1) == 1);

  auto const make_iteration = [&](std::int64_t k) {
    CHECK(p.update(1, k));
    CHECK(p.update(2, k));
    p.iterate();
    p.said();
  };
  make_iteration(0);
  CHECK(p.poll() == "send");
  CHECK(p.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(p.iteration() == 1);
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.core.tokens(1) == 0);

  make_iteration(1);
  CHECK(p.poll() == "wait");  // none from 3, and none is taken from 1 meanwhile
  CHECK_FALSE(p.core.can_go_on());
  CHECK_FALSE(p.core.gathering());
  CHECK(p.iteration() == 1);
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.said().empty());
  CHECK(p.tokens(3, 2));  // it has entered iterations 0 and 1
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "send");
  CHECK(p.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.core.tokens(1) == 1);

  make_iteration(2);
  CHECK(p.poll() == "wait");
  CHECK(p.tokens(3, 1));
  CHECK(p.poll() == "wait");
  CHECK(p.tokens(1, 1));
  CHECK(p.poll() == "send");
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.core.tokens(1) == 1);
  p.said();

  make_iteration(3);
  CHECK(p.poll() == "end");  // the last iteration takes no token: 1 has none for it
  CHECK(p.core.tokens(1) == 1);
  CHECK(p.said() == lines{"bye 4 to 1", "bye 4 to 2", "bye 4 to 3"});
}

TEST_CASE("hop_core: max_ig = 1 begins without a token", "[peer][hop_core]") {
  hand p(hop(token_queues{1}), among({1}));
  CHECK(p.core.tokens(0) == 0);
  p.start(2);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.poll() == "wait");
  CHECK(p.tokens(1, 1));
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.poll() == "send");
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.iteration() == 1);
}

TEST_CASE("hop_core: HOP-1 after every event of two peers", "[peer][hop_core]") {
  // Each of the two orders in which channels are emptied, and moves preferred to deliveries or not.
  for (int const order : {0, 1, 2, 3}) {
    for (std::int64_t const max_ig : {1, 2, 3}) {
      INFO("order " << order << ", max_ig " << max_ig);
      auto const protocol = hop(gather_newest{.staleness = 2}, token_queues{max_ig});
      std::vector<hand<std::remove_const_t<decltype(protocol)>>> peers;
      for (std::uint32_t i = 0; i < 2; ++i)
        peers.emplace_back(protocol, site_of(mixing_matrix::uniform(complete(2)), id(i)));
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<hop_message<int>>> channels;
      int events = 0;
      auto const happened = [&](std::uint32_t who) {
        ++events;
        for (auto& [to, m] : std::exchange(peers[who].out, {}))
          channels[{who, to.value()}].push_back(m);
        for (std::uint32_t i = 0; i < 2; ++i) {
          std::uint32_t const j = 1 - i;
          std::int64_t tokens = peers[i].core.tokens(0);
          for (auto const& m : channels[{j, i}])
            if (m.what == kind::tokens) tokens += m.number;
          if (!peers[i].core.started() || !peers[j].core.started()) continue;
          REQUIRE(tokens == peers[j].iteration() - peers[i].iteration() + max_ig);
          REQUIRE(tokens >= 0);
        }
      };
      auto const move = [&](std::uint32_t i) {
        auto& p = peers[i];
        if (!p.core.started()) {
          p.start(6);
        } else if (std::string const what = p.poll(); what == "send") {
          p.core.send(value(i, p.iteration()), p.out);
        } else if (what == "compute") {
          p.core.computed();
        } else if (what == "reduce") {
          (void)p.gather();
          p.core.reduced(p.out);
        } else {
          return false;
        }
        happened(i);
        return true;
      };
      auto const deliver = [&](std::uint32_t j, std::uint32_t i) {
        auto& channel = channels[{j, i}];
        if (channel.empty()) return false;
        REQUIRE(peers[i].core.deliver(id(j), channel.front()));
        channel.pop_front();
        happened(i);
        return true;
      };
      std::uint32_t const first = order % 2 == 0 ? 0 : 1;
      for (bool goes_on = true; goes_on;) {
        if (order < 2)
          goes_on = move(first) || move(1 - first) || deliver(first, 1 - first) ||
                    deliver(1 - first, first);
        else
          goes_on = deliver(first, 1 - first) || move(first) || deliver(1 - first, first) ||
                    move(1 - first);
      }
      CHECK(peers[0].core.ended());
      CHECK(peers[1].core.ended());
      CHECK(events > 50);
    }
  }
}

// ---- backup workers

TEST_CASE("hop_core: backup workers: all but some, the own one counted", "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{4}), among({1, 2, 3}));
  p.start(3);
  p.send_and_compute();
  CHECK(p.poll() == "wait");
  CHECK(p.update(3, 0));
  CHECK(p.poll() == "wait");
  CHECK(p.update(3, 1));  // of another iteration: does not count
  CHECK(p.poll() == "wait");
  CHECK(p.update(1, 0));  // with the own one 3 of 4
  SECTION("just those") {
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 0)}, {3, value(3, 0)}});
    CHECK(all.weights == std::vector<double>(3, 1.0 / 3));
    SECTION("the late one is dropped") {
      std::size_t const held = p.core.updates().size();
      CHECK(p.update(2, 0));
      CHECK(p.core.updates().size() == held);
      CHECK(p.core.counters().updates_late == 1);
    }
  }
  SECTION("the one that is there before the reduce is used") {
    CHECK(p.update(2, 0));
    auto const all = p.reduce();
    CHECK(all.parts ==
          std::vector<part>{{0, {}}, {1, value(1, 0)}, {2, value(2, 0)}, {3, value(3, 0)}});
    CHECK(all.weights == std::vector<double>(4, 0.25));
  }
  SECTION("and the one that comes when the reduce is due") {
    CHECK(p.poll() == "reduce");
    CHECK(p.update(2, 0));
    CHECK(p.gather().parts.size() == 4);
  }
  SECTION("what comes during the reduce is not carried into the next") {
    CHECK(p.poll() == "reduce");
    CHECK(p.gather().parts.size() == 3);
    CHECK(p.update(2, 0));
    p.core.reduced(p.out);
    CHECK(p.core.updates().size() == 1);  // 3's of iteration 1
  }
}

TEST_CASE("hop_core: backup workers: several, and so many that no update is needed",
          "[peer][hop_core]") {
  hand two(hop(gather_all_but{.backups = 2}, token_queues{2}), among({1, 2, 3}));
  two.start(2);
  two.send_and_compute();
  CHECK(two.poll() == "wait");
  CHECK(two.update(2, 0));
  CHECK(two.reduce().weights == std::vector<double>{0.5, 0.5});

  hand three(hop(gather_all_but{.backups = 3}, token_queues{2}), among({1, 2, 3}));
  three.start(2);
  three.send_and_compute();
  CHECK(three.reduce().weights == std::vector<double>{1});
}

TEST_CASE("hop_core: weights that are not uniform are taken as they are, or divided by their sum",
          "[peer][hop_core]") {
  peer_site s = among({1, 2});
  s.self_weight = 0.5;
  s.weights = {0.375, 0.125};
  hand p(hop(gather_all_but{.backups = 1}, token_queues{4}), s);
  p.start(4);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  CHECK(p.iterate().weights == std::vector<double>{0.5, 0.375, 0.125});
  CHECK(p.update(2, 1));
  CHECK(p.iterate().weights == std::vector<double>{0.8, 0.2});

  hand plain(hop(gather_all_but{.backups = 1}, reduce_plainly{}, token_queues{4}), s);
  plain.start(4);
  CHECK(plain.update(1, 0));
  CHECK(plain.iterate().weights == std::vector<double>{0.5, 0.5});
}

TEST_CASE("hop_core: an update is spared once its receiver has left the iteration, and no earlier",
          "[peer][hop_core]") {
  // On entering iteration 0 the neighbor's tokens make max_ig; each one more is an iteration more.
  auto const sends = [](std::int64_t entered, std::int64_t k) {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), site(0, {1, 2}, {1, 3}));
    p.start(10);
    p.in_step_until(k);
    if (entered > k) CHECK(p.tokens(1, entered - k));
    p.send();
    lines const said = p.said();
    bool const spared = said == lines{"update " + std::to_string(k) + " to 3"};
    if (!spared)
      CHECK(said == lines{"update " + std::to_string(k) + " to 1",
                          "update " + std::to_string(k) + " to 3"});
    CHECK(p.core.counters().updates_spared == (spared ? 1 : 0));
    CHECK(p.core.counters().updates_sent == static_cast<std::uint64_t>(2 * k + (spared ? 1 : 2)));
    return !spared;
  };
  for (std::int64_t const k : {0, 1, 4}) {
    INFO("sender in iteration " << k);
    CHECK(sends(k, k));
    CHECK_FALSE(sends(k + 1, k));
    CHECK_FALSE(sends(k + 2, k));
  }
  // Before the neighbor has entered iteration 0.
  hand early(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1}));
  early.start(1);
  early.send();
  CHECK(early.core.counters().updates_sent == 1);
}

TEST_CASE("hop_core: under bounded staleness an update is spared when it is too old for its receiver",
          "[peer][hop_core]") {
  for (std::int64_t const s : {0, 1, 3}) {
    auto const sends = [s](std::int64_t ahead) {
      hand p(hop(gather_newest{.staleness = s}, token_queues{5}), among({1}));
      p.start(10);
      p.in_step_until(2);
      if (ahead > 0) CHECK(p.tokens(1, ahead));
      p.send();
      return p.core.counters().updates_spared == 0;
    };
    INFO("staleness " << s);
    CHECK(sends(0));
    CHECK(sends(s));             // in iteration k + s an update of k is just new enough
    CHECK_FALSE(sends(s + 1));
  }
}

// ---- bounded staleness

TEST_CASE("hop_core: bounded staleness waits exactly while the newest received is older than k - s",
          "[peer][hop_core]") {
  for (std::int64_t const s : {0, 1, 2, 4}) {
    INFO("staleness " << s);
    hand p(hop(gather_newest{.staleness = s}), among({1, 2}));
    p.start(20);
    CHECK(p.update(1, 0));
    CHECK(p.update(2, 0));
    for (std::int64_t k = 0; k <= s; ++k) {  // the update of iteration 0 will do until k = s
      INFO("iteration " << k);
      CHECK(p.update(1, k + 1));
      p.iterate();
      CHECK(p.iteration() == k);
    }
    p.send_and_compute();  // in iteration s + 1
    CHECK(p.iteration() == s + 1);
    CHECK(p.poll() == "wait");
    CHECK(p.core.gathering());
    CHECK(p.update(1, s + 5));  // is not the neighbor that is missing
    CHECK(p.poll() == "wait");
    CHECK(p.update(2, 1));
    CHECK(p.core.can_go_on());
    p.reduce();
    CHECK(p.core.counters().updates_late == 0);
  }
}

TEST_CASE("hop_core: bounded staleness: s iterations without a word of a neighbor", "[peer][hop_core]") {
  // 002 Fig. 9: iter_rcv, the newest ever received, is -1 before the first. So the first update is
  // missed in iteration s, where 0 is needed, and not before.
  for (std::int64_t const s : {0, 1, 3}) {
    INFO("staleness " << s);
    hand p(hop(gather_newest{.staleness = s}), among({1}));
    p.start(10);
    std::int64_t made = 0;
    for (; made < 10; ++made) {
      p.send_and_compute();
      if (p.poll() == "wait") break;
      CHECK(p.reduce().parts == std::vector<part>{{0, {}}});
    }
    CHECK(made == s);
    CHECK(p.update(1, 0));
    CHECK(p.poll() == "reduce");
  }
}

TEST_CASE("hop_core: bounded staleness reduces what is fresh, and nothing twice", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 2}), among({1, 2, 3}));
  p.start(20);
  for (std::uint32_t const j : {1u, 2u, 3u}) CHECK(p.update(j, 0));
  CHECK(p.update(2, 1));  // overwrites 0
  // k = 0: Iter(u) − (0 − 2) + 1
  auto const first = p.iterate();
  CHECK(first.parts ==
        std::vector<part>{{0, {}}, {1, value(1, 0)}, {2, value(2, 1)}, {3, value(3, 0)}});
  CHECK(first.weights == std::vector<double>{3.0 / 13, 3.0 / 13, 4.0 / 13, 3.0 / 13});
  // k = 1: nobody has sent anything since
  auto const second = p.iterate();
  CHECK(second.parts == std::vector<part>{{0, {}}});
  CHECK(second.weights == std::vector<double>{1});
  // k = 2: one is fresh
  CHECK(p.update(1, 1));
  CHECK(p.update(1, 2));
  auto const third = p.iterate();
  CHECK(third.parts == std::vector<part>{{0, {}}, {1, value(1, 2)}});
  CHECK(third.weights == std::vector<double>{0.5, 0.5});
  CHECK(p.core.counters().updates_reduced == 4);
}

TEST_CASE("hop_core: bounded staleness: an update too old for this iteration is not reduced",
          "[peer][hop_core]") {
  // A hybrid goes on without it; waiting for all, it could not be there.
  hand p(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{9}), among({1, 2}));
  p.start(20);
  p.in_step_until(3);
  CHECK(p.update(1, 3));
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 3)}});
  CHECK(p.update(1, 4));
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 4)}});
  CHECK(p.update(1, 5));
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 5);
  CHECK(p.core.counters().updates_late == 0);
  CHECK(p.update(2, 3));  // k − s = 4
  CHECK(p.core.counters().updates_late == 1);
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 5)}});
}

TEST_CASE("hop_core: bounded staleness weighs by age as in Eq. 2", "[peer][hop_core]") {
  // To iteration 5, with the newest of 1 from iteration 1; k − s = 2 from now on.
  auto const weights = [](auto const... reduce) {
    hand p(hop(gather_newest{.staleness = 3}, reduce...), among({1, 2, 3}));
    p.start(20);
    for (std::uint32_t const j : {1u, 2u, 3u}) CHECK(p.update(j, 1));
    for (int k = 0; k < 5; ++k) p.iterate();
    CHECK(p.update(1, 2));  // just new enough: 2 − 2 + 1
    CHECK(p.update(2, 5));  // as old as the peer: 4
    CHECK(p.update(3, 9));  // newer than the peer: 8
    auto const all = p.iterate();
    CHECK(p.iteration() == 5);
    CHECK(all.parts ==
          std::vector<part>{{0, {}}, {1, value(1, 2)}, {2, value(2, 5)}, {3, value(3, 9)}});
    return all.weights;
  };
  CHECK(weights() == std::vector<double>{4.0 / 17, 1.0 / 17, 4.0 / 17, 8.0 / 17});
  CHECK(weights(reduce_plainly{}) == std::vector<double>(4, 0.25));
  CHECK(weights(reduce_by_mixing{}) == std::vector<double>(4, 0.25));
}

TEST_CASE("hop_core: weights by age times those of the mixing matrix", "[peer][hop_core]") {
  peer_site s = among({1, 2});
  s.self_weight = 0.5;
  s.weights = {0.375, 0.125};
  hand p(hop(gather_newest{.staleness = 1}), s);
  p.start(20);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 1));
  // k = 0: own 0.5·2, 1's 0.375·2, 2's 0.125·3
  CHECK(p.iterate().weights == std::vector<double>{1 / 2.125, 0.75 / 2.125, 0.375 / 2.125});
}

TEST_CASE("hop_core: the hybrid waits for all but some, of those that will do", "[peer][hop_core]") {
  hand p(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{20}), among({1, 2, 3}));
  p.start(20);
  p.in_step_until(2);  // the newest of all is 1
  CHECK(p.iterate().parts.size() == 1);  // k − s = 1: all will do, and nothing is fresh
  p.send_and_compute();                  // k − s = 2
  CHECK(p.poll() == "wait");
  CHECK(p.update(3, 2));
  CHECK(p.poll() == "wait");  // two of the four are not enough
  CHECK(p.update(1, 7));
  auto const all = p.reduce();
  CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 7)}, {3, value(3, 2)}});
  CHECK(all.weights == std::vector<double>{2.0 / 9, 6.0 / 9, 1.0 / 9});
  p.send_and_compute();  // k = 4: 3's update is too old now, too
  CHECK(p.poll() == "wait");
  CHECK(p.update(2, 3));
  CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {2, value(2, 3)}});
}

// ---- jumps

namespace {

/// Three peers of a complete graph; what one says the others hear at once.
template <class Protocol>
struct trio {
  std::vector<hand<Protocol>> peers;

  trio(Protocol const& p, std::int64_t iterations) {
    mixing_matrix const mixing = mixing_matrix::uniform(complete(3));
    for (std::uint32_t i = 0; i < 3; ++i) peers.emplace_back(p, site_of(mixing, id(i)));
    for (std::uint32_t i = 0; i < 3; ++i) {
      peers[i].start(iterations);
      post(i);
    }
  }

  void post(std::uint32_t i) {
    for (auto& [to, m] : std::exchange(peers[i].out, {}))
      REQUIRE(peers[to.index()].core.deliver(id(i), m));
  }

  /// One thing that peer i does; false if it waits, has ended, or is to compute in iteration `until`.
  bool step(std::uint32_t i, std::int64_t until) {
    auto& p = peers[i];
    std::string const what = p.poll();
    bool done = true;
    if (what == "send") p.core.send(value(i, p.iteration()), p.out);
    else if (what == "compute" && p.iteration() < until) p.core.computed();
    else if (what == "reduce") (void)p.gather(), p.core.reduced(p.out);
    else done = false;
    post(i);
    return done;
  }

  /// These go on until they can no more; all in turn, so that nobody has a reason to jump.
  void run(std::vector<std::uint32_t> const& who, std::int64_t until) {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::uint32_t const i : who) goes_on = step(i, until) || goes_on;
    }
  }

  std::vector<std::int64_t> iterations() const {
    std::vector<std::int64_t> all;
    for (auto const& p : peers) all.push_back(p.iteration());
    return all;
  }
};

using list = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("hop_core: V3, Fig. 10 (a): a jump to iteration 9 with staleness 4", "[peer][hop_core]") {
  trio t(hop(gather_newest{.staleness = 4}, token_queues{8}, bounded_jump{}), 100);
  auto& a = t.peers[0];
  bool const slow_in_computing = GENERATE(true, false);
  INFO("A is slow in computing: " << slow_in_computing);
  t.run({0, 1, 2}, 4);
  CHECK(t.iterations() == list{4, 4, 4});
  if (!slow_in_computing) {  // but after its reduce
    a.compute();
    CHECK(a.reduce().parts.size() == 3);
  }
  t.run({1, 2}, 100);
  CHECK(t.iterations() == list{4, 9, 9});  // A's newest is of iteration 4
  for (std::size_t const i : {1u, 2u}) {
    CHECK(t.peers[i].core.gathering());
    CHECK_FALSE(t.peers[i].core.can_go_on());
    CHECK(t.peers[i].core.tokens(0) == 3);  // it is not the tokens that hold them
  }
  if (slow_in_computing) {
    a.compute();
    auto const all = a.reduce();  // k = 4: 4 − 0 + 1, and 9 − 0 + 1 for what is newer
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 9)}, {2, value(2, 9)}});
    CHECK(all.weights == std::vector<double>{5.0 / 25, 10.0 / 25, 10.0 / 25});
  }
  CHECK(a.core.tokens(0) == 13);  // 9 − 4 + 8
  CHECK(a.core.tokens(1) == 13);
  CHECK_FALSE(a.core.jumping());

  CHECK(a.poll() == "reduce");
  CHECK(a.core.jumping());
  CHECK(a.iteration() == 8);
  CHECK(a.core.tokens(0) == 9);  // J − 1 = 4 taken of each
  CHECK(a.core.tokens(1) == 9);
  CHECK(a.said() == lines{"tokens 4 to 1", "tokens 4 to 2"});
  auto const all = a.gather();
  if (slow_in_computing) {  // it has reduced their newest already
    CHECK(all.parts == std::vector<part>{{0, {}}});
    CHECK(all.weights == std::vector<double>{1});
  } else {  // the own counts as one of iteration k − 1 = 8: 8 − 4 + 1; theirs: 9 − 4 + 1
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 9)}, {2, value(2, 9)}});
    CHECK(all.weights == std::vector<double>{5.0 / 17, 6.0 / 17, 6.0 / 17});
  }
  a.core.reduced(a.out);
  CHECK(a.said().empty());

  CHECK(a.poll() == "send");
  CHECK_FALSE(a.core.jumping());
  CHECK(a.iteration() == 9);
  CHECK(a.core.tokens(0) == 8);
  CHECK(a.core.tokens(1) == 8);
  CHECK(a.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(a.core.counters().jumps == 1);
  CHECK(a.core.counters().jumped_over == 4);  // 5, 6, 7 and 8
  for (std::uint32_t const i : {1u, 2u}) {
    CHECK(t.peers[i].tokens(0, 4));
    CHECK(t.peers[i].tokens(0, 1));
  }
  CHECK(t.step(0, 9));  // sends the update of iteration 9
  t.run({1, 2}, 100);
  CHECK(t.iterations() == list{9, 14, 14});  // as far ahead of A as before
}

TEST_CASE("hop_core: V3, Fig. 10 (b): a jump to iteration 10 with tokens 5", "[peer][hop_core]") {
  trio t(hop(gather_all_but{.backups = 1}, token_queues{5}, bounded_jump{}), 100);
  auto& a = t.peers[0];
  t.run({0, 1, 2}, 5);
  CHECK(t.iterations() == list{5, 5, 5});
  t.run({1, 2}, 100);
  CHECK(t.iterations() == list{5, 10, 10});
  for (std::size_t const i : {1u, 2u}) {
    CHECK_FALSE(t.peers[i].core.can_go_on());
    CHECK_FALSE(t.peers[i].core.gathering());
    CHECK(t.peers[i].core.tokens(0) == 0);
  }
  CHECK(a.core.tokens(0) == 10);
  CHECK(a.core.tokens(1) == 10);
  CHECK(a.core.updates().size() == 12);  // (1 + max_ig) iterations of two neighbors
  CHECK(a.core.counters().queue_peak == 12);
  a.compute();
  CHECK(a.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 5)}, {2, value(2, 5)}});

  CHECK(a.poll() == "reduce");
  CHECK(a.core.jumping());
  CHECK(a.iteration() == 9);
  CHECK(a.core.tokens(0) == 6);
  CHECK(a.core.tokens(1) == 6);
  CHECK(a.core.updates().size() == 4);  // of iterations 9 and 10
  CHECK(a.said() == lines{"tokens 4 to 1", "tokens 4 to 2"});
  auto const all = a.gather();
  CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 9)}, {2, value(2, 9)}});
  CHECK(all.weights == std::vector<double>(3, 1.0 / 3));
  a.core.reduced(a.out);

  CHECK(a.poll() == "send");
  CHECK(a.iteration() == 10);
  CHECK(a.core.tokens(0) == 5);
  CHECK(a.core.tokens(1) == 5);
  CHECK(a.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(a.core.counters().iterations == 6);  // 0 … 5
  for (std::uint32_t const i : {1u, 2u}) {
    CHECK(t.peers[i].tokens(0, 4));
    CHECK(t.peers[i].tokens(0, 1));
    CHECK(t.peers[i].core.tokens(0) == 5);
  }
  t.run({1, 2}, 100);
  CHECK(t.iterations() == list{10, 15, 15});
}

namespace {

/// Where a peer of `iterations` goes from iteration k0, when its two out-neighbors are that far ahead.
template <class Jump>
std::int64_t jumps_to(Jump const& jump, std::int64_t k0, std::int64_t ahead, std::int64_t other_ahead,
                      std::int64_t iterations = 1000) {
  hand p(hop(gather_newest{.staleness = 90}, token_queues{50}, jump), among({1, 2}));
  p.start(iterations);
  p.in_step_until(k0);
  CHECK(p.update(1, k0));
  CHECK(p.update(2, k0));
  p.iterate();
  if (ahead > 0) CHECK(p.tokens(1, ahead));
  if (other_ahead > 0) CHECK(p.tokens(2, other_ahead));
  std::string const what = p.poll();
  if (what == "end") return -1;
  bool const jumped = what == "reduce";
  if (jumped) {
    CHECK(p.core.jumping());
    p.reduce();
    CHECK(p.poll() == "send");
  }
  CHECK(p.core.counters().jumps == (jumped ? 1 : 0));
  CHECK(p.core.counters().jumped_over ==
        static_cast<std::uint64_t>(jumped ? p.iteration() - k0 - 1 : 0));
  CHECK(p.core.tokens(0) == 50 + ahead - (p.iteration() - k0));
  CHECK(p.core.tokens(1) == 50 + other_ahead - (p.iteration() - k0));
  return p.iteration();
}

/// A policy of the user's own that wants too much.
struct as_far_as_it_goes {
  static constexpr bool jumps = true;
  [[nodiscard]] std::int64_t jump(std::int64_t) const noexcept { return most; }
};
struct backwards {
  static constexpr bool jumps = true;
  [[nodiscard]] std::int64_t jump(std::int64_t) const noexcept { return least; }
};

}  // namespace

TEST_CASE("hop_core: a jump goes as far as the lag, and no further than iterations_max",
          "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{}, 3, 0, 0) == 4);
  CHECK(jumps_to(bounded_jump{}, 3, 1, 1) == 4);   // by 1 everybody goes anyway
  CHECK(jumps_to(bounded_jump{}, 3, 2, 2) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 10, 10) == 13);
  CHECK(jumps_to(bounded_jump{}, 3, 11, 11) == 13);
  CHECK(jumps_to(bounded_jump{2, 3}, 3, 11, 11) == 6);
  CHECK(jumps_to(bounded_jump{2, 100}, 0, 50, 50) == 50);
}

TEST_CASE("hop_core: a jump needs a lag as great as the trigger", "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{5, 10}, 3, 4, 4) == 4);
  CHECK(jumps_to(bounded_jump{5, 10}, 3, 5, 5) == 8);
  CHECK(jumps_to(bounded_jump{5, 2}, 3, 5, 5) == 5);
}

TEST_CASE("hop_core: a jump never passes the slowest out-neighbor", "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{}, 3, 9, 2) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 2, 9) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 1) == 4);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 0) == 4);
  CHECK(jumps_to(as_far_as_it_goes{}, 3, 9, 4) == 7);
  CHECK(jumps_to(as_far_as_it_goes{}, 3, 1, 4) == 4);
  CHECK(jumps_to(backwards{}, 3, 9, 4) == 4);
}

TEST_CASE("hop_core: a jump never passes the last iteration", "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 10) == 9);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 7) == 6);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 6) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 5) == 4);   // the last one is the next one
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 4) == -1);  // in the last one already
  CHECK(jumps_to(as_far_as_it_goes{}, 3, 9, 9, 7) == 6);
}

TEST_CASE("hop_core: the steps of a jump are taken in the order of the rules", "[peer][hop_core]") {
  // 0 sends to 1 and 2, and hears of 3, 4 and 5: so it may lag behind those and wait for these.
  peer_site const place = site(0, {3, 4, 5}, {1, 2}, 3);

  SECTION("backup workers") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{6}, bounded_jump{}), place);
    p.start(100);
    p.in_step_until(2);
    for (std::int64_t k = 2; k <= 5; ++k) CHECK(p.update(3, k));
    CHECK(p.update(4, 2));
    CHECK(p.update(4, 6));
    CHECK(p.tokens(1, 4));
    CHECK(p.tokens(2, 5));
    p.iterate();
    p.said();
    CHECK(p.core.tokens(0) == 10);
    CHECK(p.poll() == "wait");
    // (1) J − 1 = 3 tokens of each, (2) what is older than k − 1 = 5 dropped, (3) iteration 5, and 3
    // tokens put in: all that before it (4) receives.
    CHECK(p.core.jumping());
    CHECK(p.core.gathering());
    CHECK(p.core.tokens(0) == 7);
    CHECK(p.core.tokens(1) == 8);
    CHECK(p.iteration() == 5);
    CHECK(p.core.updates().first() == iteration_index{5});
    CHECK(p.core.updates().size() == 2);
    CHECK(p.said() == lines{"tokens 3 to 3", "tokens 3 to 4", "tokens 3 to 5"});
    // Its in-neighbors may be max_ig ahead of iteration 5 now, and no further.
    CHECK(p.update(3, 6));
    CHECK(p.update(3, 11));
    CHECK_FALSE(p.update(3, 12));
    CHECK(p.update(4, 4));  // too late
    CHECK(p.core.counters().updates_late == 1);
    CHECK(p.poll() == "wait");
    CHECK_FALSE(p.core.can_go_on());
    CHECK(p.tokens(1, 3));  // no reason for another jump, or a longer one
    CHECK(p.poll() == "wait");
    CHECK(p.iteration() == 5);
    CHECK(p.update(5, 5));
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {3, value(3, 5)}, {5, value(5, 5)}});
    CHECK(p.said().empty());
    // (5) one token of each, iteration 6, one put in.
    CHECK(p.poll() == "send");
    CHECK(p.iteration() == 6);
    CHECK(p.core.tokens(0) == 9);
    CHECK(p.core.tokens(1) == 7);
    CHECK(p.said() == lines{"tokens 1 to 3", "tokens 1 to 4", "tokens 1 to 5"});
    p.send_and_compute();
    CHECK(p.said().empty());  // both have left iteration 6: 1 is in 9, 2 in 7
    CHECK(p.update(5, 6));
    CHECK(p.reduce().parts ==
          std::vector<part>{{0, {}}, {3, value(3, 6)}, {4, value(4, 6)}, {5, value(5, 6)}});
  }

  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 1}, token_queues{6}, bounded_jump{}), place);
    p.start(100);
    p.in_step_until(2);
    p.iterate();
    CHECK(p.update(3, 3));  // k − 1 − s = 4 is needed: dropped
    CHECK(p.update(4, 4));  // just kept
    CHECK(p.tokens(1, 4));
    CHECK(p.tokens(2, 5));
    p.said();
    CHECK(p.poll() == "wait");
    CHECK(p.core.jumping());
    CHECK(p.iteration() == 5);
    CHECK(p.core.tokens(0) == 7);
    CHECK(p.said() == lines{"tokens 3 to 3", "tokens 3 to 4", "tokens 3 to 5"});
    CHECK_FALSE(p.core.updates().fresh(0));
    CHECK(p.core.updates().fresh(1));
    CHECK(p.update(3, 4));
    CHECK(p.poll() == "wait");
    CHECK(p.update(5, 6));
    auto const all = p.reduce();
    CHECK(all.parts ==
          std::vector<part>{{0, {}}, {3, value(3, 4)}, {4, value(4, 4)}, {5, value(5, 6)}});
    CHECK(all.weights == std::vector<double>{2.0 / 7, 1.0 / 7, 1.0 / 7, 3.0 / 7});
    CHECK(p.poll() == "send");
    CHECK(p.iteration() == 6);
    CHECK(p.core.tokens(0) == 6);
    CHECK(p.said() == lines{"tokens 1 to 3", "tokens 1 to 4", "tokens 1 to 5"});
  }
}

TEST_CASE("hop_core: no jump without out-neighbors that are ahead", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 9}, token_queues{3}, bounded_jump{}), among({1, 2}));
  p.start(10);
  p.in_step_until(1);
  p.iterate();
  CHECK(p.tokens(2, 3));
  p.lose(1);
  CHECK(p.poll() == "reduce");  // 1 was the slowest, and bounds nothing any more
  CHECK(p.core.jumping());
  p.reduce();
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 4);
  p.send_and_compute();
  p.reduce();
  p.lose(2);
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 5);
  CHECK(p.core.counters().jumps == 1);
}

TEST_CASE("hop_core: who waits for a token may jump once it comes", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 9}, token_queues{2}, bounded_jump{}), among({1}));
  p.start(10);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.poll() == "send");
  p.iterate();
  CHECK(p.poll() == "wait");
  CHECK(p.iteration() == 1);
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.tokens(1, 4));  // 1 is in iteration 3
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "reduce");
  CHECK(p.iteration() == 2);
  p.reduce();
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 3);
}

// ---- losses

TEST_CASE("hop_core: standard: a lost in-neighbor stops it, wherever it is", "[peer][hop_core]") {
  // Each of the phases of an iteration, and before the first.
  std::string const where = GENERATE("idle", "sending", "computing", "gathering", "reducing",
                                     "reduced");
  INFO(where);
  hand p(hop(), among({1, 2}));
  if (where != "idle") p.start(2);
  if (where != "idle" && where != "sending") p.send();
  if (where != "idle" && where != "sending" && where != "computing") p.compute();
  if (where == "reducing" || where == "reduced") {
    CHECK(p.update(1, 0));
    CHECK(p.update(2, 0));
    CHECK(p.poll() == "reduce");
    if (where == "reduced") p.reduce();
  }
  CHECK_FALSE(p.core.lost());
  p.lose(2);
  CHECK(p.core.lost() == id(2));
  CHECK_FALSE(p.core.is_live_in(1));
  CHECK_FALSE(p.core.is_live_out(1));
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "stop");
  p.lose(1);
  CHECK(p.core.lost() == id(2));  // the first one
  if (where == "idle") {
    p.start(2);
    CHECK(p.poll() == "stop");
  }
  p.said();
  p.core.leave(p.out);
  CHECK(p.core.ended());
  CHECK(p.poll() == "end");
}

TEST_CASE("hop_core: standard: a loss that comes after the last reduce is none", "[peer][hop_core]") {
  // `stop` says that it cannot go on, and it has nothing to do any more.
  hand p(hop(), among({1, 2}));
  p.start(1);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.iterate();
  p.said();
  p.lose(1);
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 1 to 2"});  // a goodbye that is no loss to who needs it still
}

TEST_CASE("hop_core: standard: no reduce without a neighbor that is lost just before it",
          "[peer][hop_core]") {
  // Between the decision to reduce and the reduce, in the last iteration too: HOP-3 knows no average
  // of some only. To use the update, which is there, or to stop are both right.
  std::int64_t const iterations = GENERATE(1, 2);
  INFO(iterations << " iterations");
  hand p(hop(), among({1, 2}));
  p.start(iterations);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.send_and_compute();
  CHECK(p.poll() == "reduce");
  p.lose(1);
  std::size_t const reduced = p.gather().parts.size();
  p.core.reduced(p.out);
  std::string const then = p.poll();
  CHECK((reduced == 3 || then == "stop"));
  if (iterations > 1) CHECK(then == "stop");
}

TEST_CASE("hop_core: standard: who only receives is no loss", "[peer][hop_core]") {
  hand p(hop(token_queues{2}), site(0, {1}, {2, 3}));
  p.start(9);
  CHECK(p.update(1, 0));
  CHECK(p.tokens(2, 1));
  p.iterate();
  CHECK(p.poll() == "send");
  p.lose(3);
  CHECK_FALSE(p.core.lost());
  CHECK(p.core.is_live_out(0));
  CHECK_FALSE(p.core.is_live_out(1));
  p.said();
  CHECK(p.update(1, 1));
  p.iterate();
  CHECK(p.said() == lines{"update 1 to 2"});
  CHECK(p.poll() == "send");  // without a token of 3
  CHECK(p.said() == lines{"tokens 1 to 1"});
  CHECK(p.iteration() == 2);
}

TEST_CASE("hop_core: a loss while it waits for that neighbor's token wakes it", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 5}, token_queues{1}), among({1, 2}));
  p.start(9);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.iterate();
  CHECK(p.tokens(1, 2));
  CHECK(p.poll() == "wait");
  p.lose(1);  // not the one that it waits for
  CHECK_FALSE(p.core.can_go_on());
  CHECK(p.poll() == "wait");
  p.lose(2);
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 1);
}

TEST_CASE("hop_core: a loss while it waits for that neighbor's update wakes it", "[peer][hop_core]") {
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 0}), among({1, 2}));
    p.start(9);
    p.send_and_compute();
    CHECK(p.update(1, 0));
    CHECK(p.poll() == "wait");
    p.lose(2);
    CHECK(p.core.can_go_on());
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 0)}});
    CHECK(all.weights == std::vector<double>{0.5, 0.5});
  }
  SECTION("bounded staleness, in the middle of a jump") {
    hand p(hop(gather_newest{.staleness = 1}, token_queues{6}, bounded_jump{}),
           site(0, {3, 4}, {1, 2}, 3));
    p.start(100);
    p.in_step_until(2);
    p.iterate();
    CHECK(p.tokens(1, 4));
    CHECK(p.tokens(2, 4));
    CHECK(p.update(3, 5));
    CHECK(p.poll() == "wait");
    CHECK(p.core.jumping());
    p.lose(4);
    CHECK(p.core.can_go_on());
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {3, value(3, 5)}});
    CHECK(p.poll() == "send");
    CHECK(p.iteration() == 6);
  }
  SECTION("backup workers: of those that are left") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2, 3}));
    p.start(9);
    p.send_and_compute();
    CHECK(p.update(1, 0));
    CHECK(p.poll() == "wait");  // 2 of 4
    p.lose(2);
    CHECK(p.core.can_go_on());  // 2 of 3
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 0)}});
    CHECK(all.weights == std::vector<double>{0.5, 0.5});
  }
  SECTION("backup workers: its own update was among those there") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2, 3}));
    p.start(9);
    p.send_and_compute();
    CHECK(p.update(1, 0));
    p.lose(1);  // now 1 of 3
    CHECK_FALSE(p.core.can_go_on());
    CHECK(p.update(3, 0));
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {3, value(3, 0)}});
  }
}

TEST_CASE("hop_core: a loss while it waits for that neighbor's acknowledgement wakes it",
          "[peer][hop_core]") {
  hand p(hop(notify_ack{}), site(0, {3}, {1, 2}));
  p.start(9);
  CHECK(p.update(3, 0));
  p.iterate();
  CHECK(p.ack(1, 0));
  CHECK(p.poll() == "wait");
  p.lose(1);  // has acknowledged
  CHECK_FALSE(p.core.can_go_on());
  p.lose(2);
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "send");
  p.said();
  p.send();
  CHECK(p.said().empty());  // nobody is left to send to
  p.compute();
  CHECK(p.update(3, 1));
  p.reduce();
  CHECK(p.poll() == "send");
}

TEST_CASE("hop_core: what a lost neighbor has sent counts no more", "[peer][hop_core]") {
  SECTION("backup workers") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2, 3}));
    p.start(9);
    CHECK(p.update(1, 0));
    CHECK(p.update(1, 1));
    CHECK(p.update(2, 0));
    p.send_and_compute();
    CHECK(p.poll() == "reduce");
    p.lose(1);  // between the decision and the reduce
    CHECK(p.core.updates().size() == 1);
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
  }
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 1}), among({1, 2}));
    p.start(9);
    CHECK(p.update(1, 0));
    CHECK(p.update(2, 0));
    p.lose(1);
    CHECK(p.core.updates().size() == 1);
    auto const all = p.iterate();
    CHECK(all.parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
    CHECK(all.weights == std::vector<double>{0.5, 0.5});
  }
}

TEST_CASE("hop_core: weights are computed anew without a lost neighbor", "[peer][hop_core]") {
  peer_site s = among({1, 2, 3});
  s.self_weight = 0.5;
  s.weights = {0.25, 0.125, 0.125};
  hand p(hop(gather_newest{.staleness = 0}, reduce_by_mixing{}), s);
  p.start(9);
  p.lose(2);
  CHECK(p.update(1, 0));
  CHECK(p.update(3, 0));
  CHECK(p.iterate().weights == std::vector<double>{0.5 / 0.875, 0.25 / 0.875, 0.125 / 0.875});
  p.lose(1);
  CHECK(p.update(3, 1));
  CHECK(p.iterate().weights == std::vector<double>{0.8, 0.2});
  p.lose(3);
  CHECK(p.iterate().weights == std::vector<double>{1});
}

TEST_CASE("hop_core: parameters that weigh nothing are never averaged alone", "[peer][hop_core]") {
  // A mixing matrix may give a peer's own parameters no weight; but those of the others may be missing.
  Eigen::MatrixXd weights(3, 3);
  weights << 0, 0.5, 0.5, 0.5, 0, 0.5, 0.5, 0.5, 0;
  mixing_matrix const mixing = mixing_matrix::given(complete(3), weights);
  auto const makes_sense = [&](auto protocol) {
    std::vector<float> const initial(1);
    try {
      hop_node<float, decltype(protocol), sgd> const node(protocol, mixing, id(0), sgd{}, initial);
    } catch (option_error const& e) {
      CHECK(std::string(e.what()).find("node 0") != std::string::npos);
      return;  // refused
    }
    hand p(protocol, site_of(mixing, id(0)));
    p.start(9);
    p.send_and_compute();
    p.lose(1);
    p.lose(2);
    CHECK(p.reduce().weights == std::vector<double>{1});
  };
  makes_sense(hop(gather_newest{.staleness = 1}));
  makes_sense(hop(gather_newest{.staleness = 1}, reduce_by_mixing{}));
  makes_sense(hop(gather_all_but{.backups = 1}, token_queues{2}));
  makes_sense(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}));

  hand standard(hop(), site_of(mixing, id(0)));  // where nobody may be missing all is well
  standard.start(1);
  CHECK(standard.update(1, 0));
  CHECK(standard.update(2, 0));
  CHECK(standard.iterate().weights == std::vector<double>{0, 0.5, 0.5});
}

TEST_CASE("hop_core: a lost neighbor is told nothing, and what it said meanwhile changes nothing",
          "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2}));
  p.start(2);
  p.send();
  p.said();
  p.lose(1);
  p.lose(1);  // a second time
  ignored(p, 1, kind::update, 0);
  ignored(p, 1, kind::tokens, 1);
  ignored(p, 1, kind::bye, 0);
  ignored(p, 1, kind::bye, 2);
  p.compute();
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.poll() == "send");
  CHECK(p.said() == lines{"tokens 1 to 2"});
  p.send();
  CHECK(p.said() == lines{"update 1 to 2"});
  p.compute();
  CHECK(p.update(2, 1));
  p.reduce();
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 2 to 2"});
}

TEST_CASE("hop_core: who is no neighbor is no loss", "[peer][hop_core]") {
  hand p(hop(), among({1, 3}));
  p.start(2);
  std::string const before = p.state();
  for (std::uint32_t const w : {0u, 2u, 9u}) {
    p.lose(w);
    CHECK(p.state() == before);
  }
}

TEST_CASE("hop_core: losses before the start", "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{2}), among({1, 2, 3}));
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.lose(1);
  CHECK(p.poll() == "wait");  // until it is started
  p.start(9);
  CHECK(p.said() == lines{"tokens 1 to 2", "tokens 1 to 3"});
  CHECK(p.core.iteration() == iteration_index{0});
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
}

TEST_CASE("hop_core: all neighbors lost, it goes on alone", "[peer][hop_core]") {
  auto const alone = [](auto protocol) {
    hand p(protocol, among({1, 2}));
    p.start(30);
    p.lose(1);
    p.lose(2);
    for (int k = 0; k < 30; ++k) {
      CHECK(p.iteration() == k);
      auto const all = p.iterate();
      CHECK(all.parts == std::vector<part>{{0, {}}});
      CHECK(all.weights == std::vector<double>{1});
      CHECK(p.poll() == (k < 29 ? "send" : "end"));
    }
    p.said();
  };
  alone(hop(gather_all_but{.backups = 1}, token_queues{1}));
  alone(hop(gather_all_but{.backups = 2}, token_queues{3}, bounded_jump{}));
  alone(hop(gather_newest{.staleness = 1}));
  alone(hop(gather_newest{.staleness = 1}, token_queues{1}, bounded_jump{}));
  alone(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{1}, bounded_jump{}));
}

// ---- ends

TEST_CASE("hop_core: a neighbor that has finished blocks nobody, and is no loss when it dies",
          "[peer][hop_core]") {
  SECTION("standard, with tokens") {
    hand p(hop(token_queues{2}), among({1}));
    p.start(3);
    CHECK(p.tokens(1, 1));
    for (std::int64_t k = 0; k < 2; ++k) {
      CHECK(p.update(1, k));
      CHECK(p.tokens(1, 1));
    }
    p.iterate();
    CHECK(p.poll() == "send");
    CHECK(p.update(1, 2));
    CHECK(p.bye(1, 3));
    p.lose(1);
    CHECK_FALSE(p.core.lost());
    CHECK(p.core.is_live_in(0));
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}});
    CHECK(p.poll() == "send");
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 2)}});
    CHECK(p.poll() == "end");
  }
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 3}), among({1}));
    p.start(6);
    CHECK(p.update(1, 5));
    CHECK(p.bye(1, 6));
    p.lose(1);
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 5)}});
    for (int k = 1; k < 6; ++k) CHECK(p.iterate().parts == std::vector<part>{{0, {}}});
    CHECK(p.poll() == "end");
  }
  SECTION("notify_ack") {
    hand p(hop(notify_ack{}), among({1}));
    p.start(2);
    CHECK(p.update(1, 0));
    p.iterate();
    CHECK(p.ack(1, 0));
    CHECK(p.update(1, 1));
    p.send();
    CHECK(p.ack(1, 1));
    CHECK(p.bye(1, 2));
    p.lose(1);
    p.compute();
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}});
    CHECK(p.poll() == "end");
  }
  SECTION("one that makes more iterations") {
    hand p(hop(), among({1}));
    p.start(1);
    CHECK(p.update(1, 0));
    CHECK(p.bye(1, 5));
    p.lose(1);
    p.iterate();
    CHECK(p.poll() == "end");
  }
}

TEST_CASE("hop_core: a neighbor that leaves early is a loss to who needs it still", "[peer][hop_core]") {
  hand p(hop(), among({1, 2}));
  p.start(3);
  CHECK(p.bye(1, 3));
  CHECK_FALSE(p.core.lost());
  CHECK(p.bye(2, 2));
  CHECK(p.core.lost() == id(2));
  CHECK(p.poll() == "stop");

  hand backed(hop(gather_all_but{.backups = 1}, token_queues{2}), among({1, 2}));
  backed.start(3);
  CHECK(backed.update(1, 0));
  CHECK(backed.bye(2, 2));
  CHECK_FALSE(backed.core.lost());
  CHECK_FALSE(backed.core.is_live_in(1));
  CHECK_FALSE(backed.core.is_live_out(1));
  CHECK(backed.core.is_live_in(0));
  CHECK(backed.iterate().weights == std::vector<double>{0.5, 0.5});
}

TEST_CASE("hop_core: a goodbye before the start is judged when the iterations are known",
          "[peer][hop_core]") {
  auto const after_start = [](std::int64_t goodbye, std::int64_t iterations) {
    hand p(hop(), among({1}));
    CHECK(p.update(1, 0));
    CHECK(p.bye(1, goodbye));
    CHECK_FALSE(p.core.lost());
    CHECK(p.poll() == "wait");
    p.start(iterations);
    return p.poll();
  };
  CHECK(after_start(1, 1) == "send");
  CHECK(after_start(2, 1) == "send");
  CHECK(after_start(1, 2) == "stop");
  CHECK(after_start(0, 1) == "stop");
  CHECK(after_start(0, 0) == "end");
}

TEST_CASE("hop_core: a neighbor that has finished and died before the start is no loss",
          "[peer][hop_core]") {
  // As on a directed ring, where the one before it needs nothing of it to end the first iteration.
  SECTION("standard") {
    hand p(hop(), site(0, {2}, {1}, 2, 2));
    CHECK(p.update(2, 0));
    CHECK(p.bye(2, 1));
    p.lose(2);
    p.start(1);
    CHECK_FALSE(p.core.lost());
    CHECK(p.poll() == "send");
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
    CHECK(p.poll() == "end");
  }
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 0}), site(0, {2}, {1}, 2, 2));
    CHECK(p.update(2, 0));
    CHECK(p.bye(2, 1));
    p.lose(2);
    p.start(1);
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
    CHECK(p.poll() == "end");
  }
  SECTION("but one that had not finished is") {
    hand p(hop(), site(0, {2}, {1}, 2, 2));
    CHECK(p.update(2, 0));
    CHECK(p.bye(2, 1));
    p.lose(2);
    p.start(2);
    CHECK(p.core.lost() == id(2));
    CHECK(p.poll() == "stop");
  }
}

TEST_CASE("hop_core: who leaves says after how many iterations", "[peer][hop_core]") {
  SECTION("before it has begun") {
    hand p(hop(), among({1, 2}));
    p.core.leave(p.out);
    CHECK(p.said() == lines{"bye 0 to 1", "bye 0 to 2"});
    CHECK(p.core.ended());
    CHECK(p.poll() == "end");
  }
  SECTION("in the middle") {
    hand p(hop(token_queues{3}), site(0, {1}, {2}));
    p.start(9);
    p.in_step_until(2);
    p.send();
    p.said();
    p.core.leave(p.out);
    CHECK(p.said() == lines{"bye 2 to 1", "bye 2 to 2"});
    CHECK(p.core.ended());
    p.core.leave(p.out);  // once is enough
    CHECK(p.said().empty());
    CHECK(p.poll() == "end");
  }
  SECTION("after the end") {
    hand p(hop(), among({1}));
    p.start(1);
    CHECK(p.update(1, 0));
    p.iterate();
    CHECK(p.poll() == "end");
    CHECK(p.said() == lines{"update 0 to 1", "bye 1 to 1"});
    p.core.leave(p.out);
    CHECK(p.said().empty());
  }
}

TEST_CASE("hop_core: after its end it takes what slower neighbors say, and nothing happens",
          "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2}));
  p.start(1);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.poll() == "end");
  p.said();
  ignored(p, 2, kind::update, 0);
  ignored(p, 1, kind::update, 1);
  CHECK(p.tokens(2, 1));
  CHECK(p.tokens(1, 2));
  CHECK(p.bye(2, 0));
  CHECK(p.bye(1, 7));
  p.lose(1);
  CHECK(p.poll() == "end");
  CHECK(p.core.ended());
  CHECK(p.said().empty());
}

// ---- messages that cannot be

namespace {

/// What nobody can say at any time, under any protocol, to peer 0 with `in` and `out`.
template <class Protocol>
void refuses_strangers(hand<Protocol>& p, std::uint32_t only_in, std::uint32_t only_out) {
  for (std::uint32_t const stranger : {0u, 9u, 4'000'000'000u})
    for (kind const what : {kind::update, kind::tokens, kind::ack, kind::bye})
      for (std::int64_t const number : {0, 1}) refused(p, stranger, what, number);
  refused(p, only_out, kind::update, p.iteration());
  refused(p, only_out, kind::update, p.iteration() + 1);
  refused(p, only_in, kind::tokens, 1);
  refused(p, only_in, kind::ack, p.iteration());
  for (std::uint32_t const neighbor : {1u, only_in, only_out}) {
    for (std::int64_t const number : {std::int64_t{-1}, least})
      for (kind const what : {kind::update, kind::tokens, kind::ack, kind::bye})
        refused(p, neighbor, what, number);
    refused(p, neighbor, kind::tokens, 0);
    refused(p, neighbor, kind::tokens, most);
    refused(p, neighbor, kind::update, most);
    for (int const what : {4, 17, 255}) refused(p, neighbor, static_cast<kind>(what), 1);
    if constexpr (!decltype(std::declval<Protocol const&>().gap())::tokens)
      refused(p, neighbor, kind::tokens, 1);
    if constexpr (!decltype(std::declval<Protocol const&>().gap())::acks)
      for (std::int64_t const k : {std::int64_t{0}, p.iteration(), p.iteration() + 1})
        refused(p, neighbor, kind::ack, k);
  }
}

/// Calls `check` at every point of two iterations: before the start, before each of its moves, and
/// while it waits for updates.
template <class Protocol, class Check>
void at_each_point(Protocol const& protocol, peer_site const& place, Check check) {
  hand p(protocol, place);
  using gap = decltype(protocol.gap());
  check(p);
  p.start(3);
  for (std::int64_t k = 0; k < 2; ++k) {
    if constexpr (gap::tokens)
      for (worker_id const j : place.out) REQUIRE(p.tokens(j.value(), 1));
    (void)p.poll();
    check(p);
    if (protocol.order() == iteration_order::serial) p.compute(), check(p);
    p.send();
    check(p);
    if (protocol.order() == iteration_order::parallel) p.compute(), check(p);
    for (worker_id const j : place.in) {
      REQUIRE(p.update(j.value(), k));
      check(p);
    }
    REQUIRE(p.poll() == "reduce");
    check(p);
    (void)p.gather();
    p.core.reduced(p.out);
    check(p);
    if constexpr (gap::acks)
      for (worker_id const j : place.out) {
        REQUIRE(p.ack(j.value(), k));
        check(p);
      }
  }
  CHECK(p.iteration() == 1);
}

}  // namespace

TEST_CASE("hop_core: messages that no neighbor sends are refused at every point", "[peer][hop_core]") {
  peer_site const place = site(0, {1, 2}, {1, 3});
  auto const refuses = [&](auto protocol) {
    at_each_point(protocol, place, [](auto& p) { refuses_strangers(p, 2, 3); });
  };
  SECTION("standard") { refuses(hop()); }
  SECTION("serial") { refuses(hop(iteration_order::serial)); }
  SECTION("notify_ack") { refuses(hop(notify_ack{})); }
  SECTION("tokens") { refuses(hop(token_queues{2})); }
  SECTION("backup workers") { refuses(hop(gather_all_but{.backups = 1}, token_queues{2})); }
  SECTION("bounded staleness") { refuses(hop(gather_newest{.staleness = 1})); }
  SECTION("bounded staleness with tokens") {
    refuses(hop(gather_newest{.staleness = 1}, token_queues{2}));
  }
  SECTION("hybrid") {
    refuses(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, bounded_jump{}));
  }
}

TEST_CASE("hop_core: an update twice, or beyond the gap, is refused at every point",
          "[peer][hop_core]") {
  peer_site place = site(0, {1, 2}, {1, 3});
  place.lead_max = 2;
  // `lead`: by how much an in-neighbor can be ahead of who has started, and of who has not.
  auto const refuses = [&](auto protocol, std::int64_t lead) {
    at_each_point(protocol, place, [&](auto& p) {
      for (std::uint32_t const j : {1u, 2u}) {
        // One that has reduced iteration k may be sent those of k + 1 + lead, but only from k + 1 on.
        for (std::int64_t const beyond : {2, 3, 10, 1000})
          refused(p, j, kind::update, p.iteration() + lead + beyond);
        for (std::int64_t k = 0; k < 10; ++k) {
          auto copy = p;
          if (!copy.update(j, k) || copy.state() == p.state()) continue;
          auto const late = copy.core.counters().updates_late;
          if (late != p.core.counters().updates_late) continue;  // dropped: it may come again
          INFO("after the first one");
          refused(copy, j, kind::update, k);
        }
      }
    });
  };
  SECTION("standard") { refuses(hop(), 2); }
  SECTION("serial") { refuses(hop(iteration_order::serial), 2); }
  SECTION("notify_ack") { refuses(hop(notify_ack{}), 0); }
  SECTION("tokens") { refuses(hop(token_queues{3}), 3); }
  SECTION("backup workers") { refuses(hop(gather_all_but{.backups = 1}, token_queues{3}), 3); }
  SECTION("bounded staleness with tokens") {
    refuses(hop(gather_newest{.staleness = 1}, token_queues{3}), 3);
  }
  SECTION("hybrid") {
    refuses(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{3}, bounded_jump{}), 3);
  }
}

TEST_CASE("hop_core: the last update that fits is taken, and the first that does not is refused",
          "[peer][hop_core]") {
  SECTION("the graph's distances") {
    hand p(hop(), site(0, {1}, {2}, 3, 3));
    CHECK(p.update(1, 3));
    refused(p, 1, kind::update, 4);
  }
  SECTION("max_ig") {
    hand p(hop(token_queues{2}), site(0, {1}, {2}, 3, 3));
    CHECK(p.update(1, 2));
    refused(p, 1, kind::update, 3);
  }
  SECTION("one at a time") {
    hand p(hop(notify_ack{}), site(0, {1}, {2}, 3, 3));
    refused(p, 1, kind::update, 1);
    CHECK(p.update(1, 0));
  }
}

TEST_CASE("hop_core: bounded staleness: updates of one sender come in order", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 3}), among({1, 2}));
  p.start(9);
  CHECK(p.update(1, 4));
  for (std::int64_t const k : {4, 3, 0}) refused(p, 1, kind::update, k);
  CHECK(p.update(2, 3));  // of another sender
  p.iterate();
  for (std::int64_t const k : {4, 3, 0}) refused(p, 1, kind::update, k);  // taken, not forgotten
  CHECK(p.update(1, 5));
}

TEST_CASE("hop_core: bounded staleness: a number that is none is no update", "[peer][hop_core]") {
  // k − s and Iter(u) − (k − s) + 1 must not overflow, whatever a message says.
  hand p(hop(gather_newest{.staleness = 3}), among({1, 2}));
  p.start(9);
  refused(p, 1, kind::update, most);
  refused(p, 1, kind::update, most - 1);
}

TEST_CASE("hop_core: more tokens than the gap allows are refused", "[peer][hop_core]") {
  hand p(hop(token_queues{3}), site(0, {1}, {1, 2}, 2));
  // max_ig·(d(j→i) + 1): 6 of 1, 9 of 2; two are there.
  refused(p, 1, kind::tokens, 5);
  CHECK(p.tokens(1, 4));
  refused(p, 1, kind::tokens, 1);
  refused(p, 2, kind::tokens, 8);
  CHECK(p.tokens(2, 7));
  refused(p, 2, kind::tokens, 1);
  CHECK(p.core.tokens(0) == 6);
  CHECK(p.core.tokens(1) == 9);
}

TEST_CASE("hop_core: no number of tokens overflows", "[peer][hop_core]") {
  // Where the way back may lose a peer, no length of a path bounds the tokens.
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}, bounded_jump{}), site(0, {1}, {2}));
  p.start(9);
  CHECK(p.update(1, 0));
  CHECK(p.tokens(2, 1'000'000));  // who lives may be far ahead
  p.iterate();
  CHECK(p.poll() == "reduce");
  CHECK(p.core.jumping());
  CHECK(p.iteration() == 7);
  refused(p, 2, kind::tokens, most);
  refused(p, 2, kind::tokens, most - p.core.tokens(0));  // iteration() + tokens overflow
  refused(p, 2, kind::tokens, most - p.core.tokens(0) + 1);
}

TEST_CASE("hop_core: an acknowledgement that was not asked for is refused", "[peer][hop_core]") {
  hand p(hop(notify_ack{}), among({1, 2}));
  refused(p, 1, kind::ack, 0);
  p.start(4);
  refused(p, 1, kind::ack, 0);  // nothing was sent
  p.send();
  refused(p, 1, kind::ack, 1);  // not yet
  CHECK(p.ack(1, 0));
  refused(p, 1, kind::ack, 0);  // a second time
  p.compute();
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.ack(2, 0));
  p.send();
  CHECK(p.iteration() == 1);
  refused(p, 1, kind::ack, 0);  // of the update before
  refused(p, 1, kind::ack, -1);
  refused(p, 1, kind::ack, 2);
  CHECK(p.ack(1, 1));
  refused(p, 1, kind::ack, 1);
  p.compute();
  CHECK(p.update(1, 1));
  CHECK(p.update(2, 1));
  p.reduce();
  CHECK(p.poll() == "wait");  // in iteration 2, where the update that counts is still that of 1
  refused(p, 2, kind::ack, 2);
  refused(p, 2, kind::ack, 0);
  CHECK(p.ack(2, 1));
  CHECK(p.poll() == "send");
}

TEST_CASE("hop_core: an old update under backup workers is late, and dropped", "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2}));
  p.start(9);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.core.counters().updates_late == 0);
  std::size_t const held = p.core.updates().size();
  CHECK(p.update(2, 0));
  CHECK(p.core.updates().size() == held);
  CHECK(p.core.counters().updates_late == 1);
  CHECK(p.poll() == "send");
  CHECK(p.update(2, 1));
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 1)}});
}
