// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "peer/numbered.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/hop_core.hpp"

/// The rules of Hop by hand: one peer, message by message.
namespace rubato::test {

using lines = std::vector<std::string>;
using kind = hop_kind;

inline constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();

constexpr worker_id id(std::uint32_t w) { return worker_id{w}; }

/// The parameters that worker w sends in iteration k; of some number also where k is none.
constexpr int value(std::uint32_t w, std::int64_t k) {
  return static_cast<int>(1000 * (w % 1000) + static_cast<std::uint64_t>(k) % 1000);
}

inline std::vector<worker_id> ids(std::vector<std::uint32_t> const& numbers) {
  std::vector<worker_id> all;
  for (std::uint32_t const w : numbers) all.push_back(id(w));
  return all;
}

/// A place in some graph, with uniform weights. Who only receives is two edges behind, unless told.
inline peer_site site(std::uint32_t self, std::vector<std::uint32_t> const& in,
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
inline peer_site among(std::vector<std::uint32_t> const& others) { return site(0, others, others); }

inline std::string name(kind what) {
  switch (what) {
    case kind::update: return "update";
    case kind::tokens: return "tokens";
    case kind::ack: return "ack";
    case kind::bye: return "bye";
  }
  return "?";
}
inline std::string name(peer_message const& m) { return name(static_cast<kind>(m.kind)); }

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
struct hand {
  using todo = hop_core::todo;

  hop_core core;
  outbox out{};

  hand(hop_rules const& p, peer_site s) : core(p, std::move(s)) {}

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
  shared_update own() const { return numbered(value(self(), iteration())); }

  /// What it said since it was asked last.
  lines said() {
    lines all;
    for (auto const& [to, m] : std::exchange(out, {})) {
      if (m.kind == +kind::update) CHECK(number_of(m.parameters) == value(self(), m.number));
      all.push_back(name(m) + ' ' + std::to_string(m.number) + " to " + std::to_string(to.value()));
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
    core.send(own(), out);
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
      all.parts.push_back({c.from.value(), c.own ? std::optional<int>{} : number_of(c.parameters)});
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
    return core.deliver(id(from), {+what, number,
                                   what == kind::update ? numbered(value(from, number)) : shared_update{}});
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
      if (core.protocol().gap_max)
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
    describe(s, core);
    hand next = *this;
    next.out.clear();
    todo const what = next.core.poll(next.out);
    s << "then: " << name_of(what);
    if (what == todo::send) next.core.send(own(), next.out);
    if (what == todo::reduce) {
      for (auto const& c : next.core.gather())
        s << " [" << c.from.value() << ' ' << c.weight << ' ' << (c.own ? -1 : number_of(c.parameters))
          << ']';
    }
    for (auto const& [to, m] : next.out) s << ", " << name(m) << ' ' << m.number << " to " << to.value();
    s << '\n';
    describe(s, next.core);
    return s.str();
  }

 private:
  static void describe(std::ostream& s, hop_core const& c) {
    s << "iteration " << c.iteration().value() << " started " << c.started() << " ended " << c.ended()
      << " gathering " << c.gathering() << " jumping " << c.jumping() << " can go on " << c.can_go_on()
      << " lost " << (c.lost() ? static_cast<int>(c.lost()->value()) : -1);
    for (std::size_t i = 0; i < c.site().in.size(); ++i) {
      s << "\n in " << c.site().in[i].value() << " live " << c.is_live_in(i) << " has";
      if (c.protocol().by_iteration()) {
        std::int64_t const first = c.queue().first().value();
        for (std::int64_t k = first; k < first + 10; ++k)
          if (c.queue().contains(iteration_index{k}, c.site().in[i])) s << ' ' << k;
      } else {
        s << ' ' << c.boxes().newest(i).value() << " fresh " << c.boxes().fresh(i);
      }
    }
    for (std::size_t i = 0; i < c.site().out.size(); ++i)
      s << "\n out " << c.site().out[i].value() << " live " << c.is_live_out(i) << " tokens "
        << c.tokens(i);
    peer_counters const n = c.counters();
    s << "\n counts " << n.iterations << ' ' << n.jumps << ' ' << n.jumped_over << ' ' << n.updates_sent
      << ' ' << n.updates_spared << ' ' << n.updates_reduced << ' ' << n.updates_late << ' '
      << n.queue_peak << " held " << c.held() << '\n';
  }
};

/// Expects that this message is refused and changes nothing. Of a copy, so that what a wrong one has
/// done does not make the rest of a test fail.
inline void refused(hand p, std::uint32_t from, kind what, std::int64_t number) {
  INFO(name(what) << ' ' << number << " from " << from << " in iteration " << p.iteration());
  std::string const before = p.state();
  CHECK_FALSE(p.deliver(from, what, number));
  CHECK(p.state() == before);
}

/// Expects that it is taken, and changes nothing.
inline void ignored(hand& p, std::uint32_t from, kind what, std::int64_t number) {
  INFO(name(what) << ' ' << number << " from " << from << " in iteration " << p.iteration());
  std::string const before = p.state();
  CHECK(p.deliver(from, what, number));
  CHECK(p.state() == before);
}

}  // namespace rubato::test
