// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "peer/numbered.hpp"
#include "rubato/peer/hop_core.hpp"

namespace rubato::test {

inline constexpr std::size_t peers_max = 4;

/// What both searches must have seen alike.
struct sights {
  std::unordered_set<std::uint32_t> iterations;  ///< of all peers, a byte each
  std::set<std::string> reduces;                 ///< who reduced what, when
  bool operator==(sights const&) const = default;
};

/// What a search found.
struct findings {
  std::size_t states = 0;
  std::size_t endings = 0;  ///< states in which all have ended
  std::vector<std::vector<std::int64_t>> gap;  ///< the greatest Iter(i) − Iter(j)
  std::string problem;                         ///< the first one; empty if there is none
  sights seen;

  void complain(std::string const& what) {
    if (problem.empty()) problem = what;
  }
};

/// A message in a byte.
using code = std::uint8_t;
inline constexpr code death = 255;  ///< the last that is heard of a peer

/// What a search goes by.
struct search_rules {
  hop_rules protocol;
  std::int64_t iterations;
  std::optional<std::uint32_t> mortal;  ///< who may die, at any time, instead of moving on
  bool reduced = false;

  [[nodiscard]] bool waits_for_all() const { return protocol.by_iteration() && protocol.bounds_gap; }
  [[nodiscard]] bool tokens() const { return protocol.gap_max.has_value(); }
};

/// All states that one peer was seen in, by number; and what a move or a message makes of each, which is
/// computed once and remembered.
class searched_peer {
 public:
  using id = std::uint32_t;
  static constexpr id none = ~id{0};

  /// Where a peer is between two of its moves.
  enum class moment : std::uint8_t { idle, polls, sends, reduces, reduced, ended, dead };

  struct local {
    hop_core core;
    moment at;
    std::uint8_t goodbyes = 0;  ///< of whom, by bit
    std::array<std::int8_t, peers_max> unacked{-1, -1, -1, -1};  ///< which update, by whom
    std::uint8_t deaths = 0;    ///< of whom
    std::uint8_t finished = 0;  ///< who has made all iterations, by its own words
  };
  struct saying {
    std::uint32_t to;
    code what;
    bool operator==(saying const&) const = default;
  };
  struct outcome {
    id then = none;  ///< none: it waits, or has ended
    std::vector<saying> says;
  };
  /// What the checks of a world need to know of a peer.
  struct facts {
    std::int64_t iteration = 0;
    bool started = false;
    bool dead = false;
    /// By out-neighbor, −1 where none count: of others, of those lost, and when one has lost them.
    std::array<std::int64_t, peers_max> tokens{-1, -1, -1, -1};
    std::array<bool, peers_max> gives_up{};  ///< on whom, as in-neighbor
  };

  searched_peer(search_rules const& rules, peer_site const& site, findings& found)
      : rules_(rules), self_(site.self.value()), found_(found) {
    (void)intern({hop_core(rules.protocol, site), moment::idle});
  }

  [[nodiscard]] local const& state(id s) const { return states_[s]; }
  [[nodiscard]] facts const& known(id s) const { return known_[s]; }

  id arrival(id s, std::uint32_t from, code what) {
    std::uint64_t const key = (static_cast<std::uint64_t>(s) * peers_max + from) * 256 + what;
    auto const [at, is_new] = arrivals_.try_emplace(key, none);
    if (!is_new) return at->second;
    local after = states_[s];
    if (after.at == moment::dead) return arrivals_[key] = s;
    if (what == death) {
      after.core.lose(worker_id{from});
      after.unacked[from] = -1;
      after.deaths |= static_cast<std::uint8_t>(1u << from);
    } else {
      take(after, from, decode(from, what));
    }
    id const then = intern(std::move(after));
    return arrivals_[key] = then;
  }

  outcome const& move(id s) {
    if (!moves_[s]) {
      outcome const o = make_move(s);  // may make room for more states
      moves_[s] = o;
    }
    return *moves_[s];
  }

  /// The state after its death.
  id dead(id s) {
    if (dead_[s] == none) {
      local dead = states_[s];
      dead.at = moment::dead;
      id const then = intern(std::move(dead));
      dead_[s] = then;
    }
    return dead_[s];
  }

  static std::string text(code c) {
    if (c == death) return "death";
    char const* const names[] = {"update ", "tokens ", "ack ", "bye "};
    return names[c / 64] + std::to_string(c % 64);
  }

 private:
  using todo = hop_core::todo;

  static constexpr int value(std::size_t w, std::int64_t k) {
    return static_cast<int>(100 * w) + static_cast<int>(k);
  }
  [[nodiscard]] shared_update own(hop_core const& c) const {
    return numbered(value(self_, c.iteration().value()));
  }
  [[nodiscard]] std::string name() const { return "peer " + std::to_string(self_); }
  [[nodiscard]] std::string name_in(hop_core const& c) const {
    return name() + " in iteration " + std::to_string(c.iteration().value());
  }
  void complain(std::string const& what) { found_.complain(what); }

  static code encode(peer_message const& m) {
    return static_cast<code>(m.kind * 64u + static_cast<unsigned>(m.number));
  }
  static peer_message decode(std::uint32_t from, code c) {
    auto const what = static_cast<std::uint8_t>(c / 64);
    std::int64_t const number = c % 64;
    return {what, number, what == +hop_kind::update ? numbered(value(from, number)) : shared_update{}};
  }

  // ---- states

  static void append(std::string& key, std::int64_t n) {
    key.append(reinterpret_cast<char const*>(&n), sizeof n);
  }
  static void append(std::string& key, hop_core const& c) {
    append(key, c.iteration().value());
    append(key, 16 * c.started() + 8 * c.ended() + 4 * c.gathering() + 2 * c.jumping() +
                    c.can_go_on() + 32 * c.lost().has_value());
    for (std::size_t i = 0; i < c.site().in.size(); ++i) append(key, c.is_live_in(i));
    for (std::size_t i = 0; i < c.site().out.size(); ++i)
      append(key, 2 * c.tokens(i) + c.is_live_out(i));
    if (c.protocol().by_iteration()) {
      std::int64_t const first = c.queue().first().value();
      append(key, first);
      for (std::size_t i = 0; i < c.site().in.size(); ++i)
        for (std::int64_t k = first; k < first + static_cast<std::int64_t>(c.queue().slots()); ++k)
          key += c.queue().contains(iteration_index{k}, c.site().in[i]) ? '1' : '0';
    } else {
      for (std::size_t i = 0; i < c.site().in.size(); ++i) {
        append(key, c.boxes().newest(i).value());
        key += c.boxes().fresh(i) ? '1' : '0';
      }
    }
  }

  static std::string key_of(local const& s) {
    std::string key;
    if (s.at == moment::dead) return key;
    if (s.at == moment::ended) {
      append(key, s.core.iteration().value());
      for (std::size_t i = 0; i < s.core.site().out.size(); ++i)
        append(key, 2 * s.core.tokens(i) + s.core.is_live_out(i));
      for (std::size_t i = 0; i < s.core.site().in.size(); ++i) append(key, s.core.is_live_in(i));
      for (std::int8_t const k : s.unacked) key += static_cast<char>(k);
      return key;
    }
    append(key, s.core);
    key += static_cast<char>(s.at);
    key += static_cast<char>(s.goodbyes);
    for (std::int8_t const k : s.unacked) key += static_cast<char>(k);
    key += static_cast<char>(s.deaths);
    key += static_cast<char>(s.finished);
    hop_core next = s.core;
    outbox out;
    key += static_cast<char>(next.poll(out));
    for (auto const& [to, m] : out) key += static_cast<char>(encode(m));
    append(key, next);
    return key;
  }

  id intern(local s) {
    auto const [at, is_new] = ids_.try_emplace(key_of(s), static_cast<id>(states_.size()));
    if (is_new) {
      check(s);
      facts f;
      f.iteration = s.core.iteration().value();
      f.started = s.core.started();
      for (std::size_t o = 0; o < s.core.site().out.size(); ++o)
        if (s.core.is_live_out(o)) f.tokens[s.core.site().out[o].index()] = s.core.tokens(o);
      for (std::size_t n = 0; n < s.core.site().in.size(); ++n)
        f.gives_up[s.core.site().in[n].index()] = !s.core.is_live_in(n);
      f.dead = s.at == moment::dead;
      known_.push_back(f);
      states_.push_back(std::move(s));
      moves_.emplace_back();
      dead_.push_back(none);
    }
    return at->second;
  }

  /// What holds of a peer whatever the others do.
  void check(local const& s) {
    hop_core const& c = s.core;
    std::string const who = name_in(c) + ": ";
    std::size_t const senders = c.site().in.size();
    if (!rules_.protocol.by_iteration()) {
      if (c.boxes().size() > senders) complain(who + "more updates than mailboxes");
    } else if (rules_.tokens()) {
      if (c.queue().size() > static_cast<std::size_t>(1 + *rules_.protocol.gap_max) * senders)
        complain(who + "more than (1 + max_ig)·|N_in| updates are queued");
    }
    for (std::size_t o = 0; o < c.site().out.size(); ++o)
      if (c.tokens(o) < 0) complain(who + "fewer tokens than none");
    if (!rules_.mortal && c.lost()) complain(who + "takes a neighbor for lost");
    for (std::size_t n = 0; n < senders && s.at < moment::ended; ++n)
      if (!c.is_live_in(n) && (s.finished >> c.site().in[n].index() & 1) != 0)
        complain(who + "does without the updates of one that has finished");
    if (rules_.protocol.outlives_loss && c.lost()) complain(who + "cannot go on after a loss");
    if (c.iteration().value() >= rules_.iterations) complain(who + "there is no such iteration");
    if (rules_.waits_for_all() && c.counters().updates_spared + c.counters().updates_late > 0)
      complain(who + "an update was spared, or came late, that is waited for");
  }

  // ---- arrivals

  void take(local& s, std::uint32_t from, peer_message const& m) {
    auto const what = static_cast<hop_kind>(m.kind);
    std::int64_t tokens = 0;
    auto const place = rubato::detail::place_among(s.core.site().out, worker_id{from});
    if (place) tokens = s.core.tokens(*place);
    if (!s.core.deliver(worker_id{from}, m))
      complain(name_in(s.core) + " refuses " + text(encode(m)) + " of " + std::to_string(from));
    if (rules_.tokens() && place &&
        s.core.tokens(*place) != tokens + (what == hop_kind::tokens ? m.number : 0))
      complain(name() + " miscounts the tokens of " + std::to_string(from));
    if (what == hop_kind::bye) s.goodbyes |= static_cast<std::uint8_t>(1u << from);
    if (what == hop_kind::bye && m.number == rules_.iterations)
      s.finished |= static_cast<std::uint8_t>(1u << from);
    if (what == hop_kind::ack) s.unacked[from] = -1;
  }

  // ---- moves

  outcome make_move(id s) {
    local next = states_[s];
    outbox out;
    switch (next.at) {
      case moment::idle:
        next.core.start(rules_.iterations, out);
        next.at = moment::polls;
        break;
      case moment::polls:
        if (!poll(s, next, out)) return {};
        break;
      case moment::sends: send(next, out); break;
      case moment::reduces: reduce(next, out); break;
      case moment::reduced:
        next.core.reduced(out);
        next.at = moment::polls;
        break;
      case moment::ended:
      case moment::dead: return {};
    }
    outcome o;
    for (auto const& [to, m] : out) {
      if (m.number < 0 || m.number > 62) complain("a number that this test cannot encode");
      if (m.kind == +hop_kind::update && number_of(m.parameters) != value(self_, m.number))
        complain(name() + " sends other parameters than its own");
      o.says.push_back({to.value(), encode(m)});
    }
    o.then = intern(std::move(next));
    return o;
  }

  /// False if it only waits.
  bool poll(id before, local& s, outbox& out) {
    bool const could = s.core.can_go_on();
    bool const gathered = s.core.gathering();
    todo const what = s.core.poll(out);
    if (what != todo::wait && !could) complain(name() + " would not have been woken");
    switch (what) {
      case todo::wait: break;
      case todo::compute: s.core.computed(); break;
      case todo::send: s.at = moment::sends; break;
      case todo::reduce: s.at = moment::reduces; break;
      case todo::end: s.at = moment::ended; break;
      case todo::stop:
        if (!s.core.lost()) complain(name() + " stops");
        s.core.leave(out);
        s.at = moment::ended;
        break;
    }
    if (what == todo::wait && intern(s) == before) {
      if (could) complain(name() + " is woken for nothing");
      if (!out.empty()) complain(name() + " talks while it waits");
      return false;
    }
    if (rules_.reduced && what == todo::reduce && gathered) reduce(s, out);
    if (rules_.reduced && what == todo::send && !rules_.tokens()) send(s, out);
    return true;
  }

  void send(local& s, outbox& out) {
    std::size_t const before = out.size();
    s.core.send(own(s.core), out);
    if (rules_.protocol.acks)
      for (std::size_t n = before; n < out.size(); ++n)
        s.unacked[out[n].first.index()] = static_cast<std::int8_t>(out[n].second.number);
    if (rules_.reduced && rules_.protocol.order == iteration_order::parallel) s.core.computed();
    s.at = moment::polls;
  }

  void reduce(local& s, outbox& out) {
    check_reduce(s.core);
    s.at = moment::reduced;
    if (!rules_.reduced) return;
    s.core.reduced(out);
    s.at = moment::polls;
  }

  /// HOP-3, and what stands for it where not all updates are waited for.
  void check_reduce(hop_core& c) {
    hop_rules const& p = rules_.protocol;
    std::int64_t const k = c.iteration().value();
    std::string what = std::to_string(self_) + (c.jumping() ? " jumping" : "") + " in " +
                       std::to_string(k) + " reduces";
    std::size_t own = 0;
    std::size_t others = 0;
    double sum = 0;
    for (auto const& part : c.gather()) {
      sum += part.weight;
      if (!(part.weight > 0)) complain(what + " with no weight");
      if (part.own) {
        ++own;
        if (part.from != c.site().self) complain(what + " as its own another's update");
        continue;
      }
      ++others;
      int const number = number_of(part.parameters);
      what += ' ' + std::to_string(number);
      std::int64_t const made = number - value(part.from.index(), 0);
      if (p.by_iteration() ? made != k : made < p.oldest(c.iteration()).value())
        complain(what + ", which is of another iteration");
      if (!rubato::detail::place_among(c.site().in, part.from)) complain(what + ", of no in-neighbor");
    }
    if (own != 1) complain(what + " without its own");
    std::size_t live = 0;
    for (std::size_t n = 0; n < c.site().in.size(); ++n) live += c.is_live_in(n);
    std::size_t const needed = std::max<std::size_t>(p.needed(live + 1), 1);
    if (p.by_iteration()) {
      if (others + 1 < needed) complain(what + " and no more");
    } else {
      std::size_t good = 1;
      for (std::size_t b = 0; b < c.site().in.size(); ++b)
        good += c.is_live_in(b) && c.boxes().newest(b) >= p.oldest(c.iteration());
      if (good < needed) complain(what + ", though others are too old");
    }
    if (sum < 1 - 1e-9 || sum > 1 + 1e-9) complain(what + " with weights that are not 1 together");
    found_.seen.reduces.insert(what);
  }

  search_rules const& rules_;
  std::uint32_t self_;
  findings& found_;
  std::vector<local> states_;
  std::vector<facts> known_;  ///< of each state
  std::unordered_map<std::string, id> ids_;
  std::vector<std::optional<outcome>> moves_;
  std::vector<id> dead_;  ///< each state, after death
  std::unordered_map<std::uint64_t, id> arrivals_;
};

}  // namespace rubato::test
