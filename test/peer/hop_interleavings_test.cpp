// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Every order in which a few peers can move and their messages arrive, for every protocol of the
// Hop family.
//
// A state of the world is what each peer is in, and what is under way in each channel. Peers are
// deterministic, so what a move or a message makes of a peer is computed once and remembered; then a
// state is a few numbers, and there may be many of them. Two peers are in the same state if all that
// can be seen of them is the same: their accessors, what they would do next, which goodbyes they have
// got and which acknowledgements they miss. One that has ended does nothing more, so of it only the
// iteration and what it is owed count.
//
// Not every order is another one. The full search takes them all, a message or a move at a time. The
// reduced search leaves out those that come to the same:
//  1. Moves and arrivals at different peers commute: they share nothing but channels, and one end of
//     a channel does not see the other while there is a message between. So arrivals at a peer can be
//     put off until just before its own next move: a step is some arrivals, then a move.
//  2. Arrivals from different senders commute. This is checked, for all that can arrive at a time.
//  3. An arrival that commutes with the move behind it can be put off until after that. This is
//     checked by doing both: only if the peer is in the same state, and has said the same, is the
//     order with the arrival first left out.
//  4. Some moves follow another one at once, for nothing can come between them that matters:
//     `computed` (no message depends on it, nor it on any); the reduce on a `poll` that has waited for
//     it (the poll says nothing and only looks, so what arrives in between may as well arrive before
//     it; what arrives between `gather` and `reduced` is kept or too late either way); without tokens,
//     the sending on the `poll` before it (nothing that arrives changes what is sent).
//     Only where a loss stops a peer is a loss just before the reduce another order: that one is tried
//     by hand.
//  5. To who has ended all arrives at once.
// Moves that enter an iteration keep their order throughout. So the reduced search passes through the
// same vectors of iterations; it sees each peer in every state that it can be in, since it tries all
// arrivals at each of them, also those that it puts off; and it ends in the same deadlocks, if any.
// That both searches see the same is a test of its own, where the full one can be afforded.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "rubato/peer/hop.hpp"
#include "rubato/peer/hop_core.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;

namespace {

constexpr std::size_t peers_max = 4;
constexpr std::size_t channels_max = peers_max * (peers_max - 1);

constexpr int value(std::size_t w, std::int64_t k) {
  return static_cast<int>(100 * w) + static_cast<int>(k);
}

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
};

template <class Protocol>
class search {
  using core_type = hop_core<int, Protocol>;
  using message = typename core_type::message;
  using kind = typename message::kind;
  using todo = typename core_type::todo;
  using gather_type = decltype(std::declval<Protocol const&>().gather());
  using gap_type = decltype(std::declval<Protocol const&>().gap());
  using jump_type = decltype(std::declval<Protocol const&>().jump());
  static constexpr bool by_iteration = gather_type::kept == keeping::by_iteration;

 public:
  /// @param mortal  who may die, at any time, instead of moving on
  search(Protocol const& p, graph const& g, std::int64_t iterations,
         std::optional<std::uint32_t> mortal = {})
      : protocol_(p), graph_(g), iterations_(iterations), mortal_(mortal), peers_(g.size()) {
    mixing_matrix const mixing = mixing_matrix::automatic(g);
    for (std::uint32_t i = 0; i < size(); ++i) {
      for (std::uint32_t j = 0; j < size(); ++j)
        if (g.has_edge(worker_id{i}, worker_id{j}) || g.has_edge(worker_id{j}, worker_id{i}))
          channels_.push_back({i, j});
      (void)intern(i, {core_type(p, site_of(mixing, worker_id{i})), moment::idle});
      for (std::uint32_t j = 0; j < size(); ++j)
        found_.gap.resize(size(), std::vector<std::int64_t>(size()));
    }
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      peers_[channels_[c].from].out[channels_[c].to] = c;
      peers_[channels_[c].to].in.push_back(c);
    }
    (void)intern_sequence({});
  }

  search(search const&) = delete;
  search& operator=(search const&) = delete;

  findings reduced() {
    reduced_ = true;
    explore([this](std::uint32_t at) { steps(at); });
    return found_;
  }
  findings full() {
    explore([this](std::uint32_t at) { single_moves(at); });
    return found_;
  }

 private:
  using id = std::uint32_t;
  using code = std::uint8_t;
  static constexpr id none = ~id{0};
  static constexpr code death = 255;  ///< the last that is heard of a peer

  /// Where a peer is between two of its moves.
  enum class moment : std::uint8_t { idle, polls, sends, reduces, reduced, ended, dead };

  struct local {
    core_type core;
    moment at;
    std::uint8_t goodbyes = 0;  ///< of whom, by bit
    std::array<std::int8_t, peers_max> unacked{-1, -1, -1, -1};  ///< which update, by whom
    std::uint8_t deaths = 0;    ///< of whom
    std::uint8_t finished = 0;  ///< who has made all iterations, by its own words
  };
  struct saying {
    std::uint32_t to;
    code what;
  };
  struct outcome {
    id then = none;  ///< none: it waits, or has ended
    std::vector<saying> says;
  };
  /// Some arrivals and a move.
  struct step {
    id then;
    std::vector<id> under_way;  ///< in the channels to this peer
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
  struct peer_states {
    std::vector<local> states;
    std::vector<facts> known;  ///< of each state
    std::unordered_map<std::string, id> ids;
    std::vector<std::optional<outcome>> moves;
    std::vector<id> dead;  ///< each state, after death
    std::array<std::size_t, peers_max> out{};  ///< channel by receiver
    std::vector<std::size_t> in;               ///< channels
    std::unordered_map<std::uint64_t, id> arrivals;
    /// What it may do next, by its state and what is under way to it.
    std::unordered_map<std::uint64_t, std::vector<step>> steps;
  };
  struct link {
    std::uint32_t from, to;
  };
  struct sequence {
    std::string messages;
    std::int64_t tokens = 0;
    id without_first = none;
  };
  /// One number per peer, then one per channel.
  using world = std::array<std::uint16_t, peers_max + channels_max>;

  [[nodiscard]] std::uint32_t size() const { return graph_.size(); }
  [[nodiscard]] core_type const& core(std::uint32_t i, id s) const { return peers_[i].states[s].core; }

  void complain(std::string const& what) {
    if (found_.problem.empty()) found_.problem = what;
  }

  // ---- one peer

  static code encode(message const& m) {
    return static_cast<code>(static_cast<unsigned>(m.what) * 64 + static_cast<unsigned>(m.number));
  }
  static message decode(std::uint32_t from, code c) {
    auto const what = static_cast<kind>(c / 64);
    std::int64_t const number = c % 64;
    return {what, number, what == kind::update ? value(from, number) : 0};
  }

  static void append(std::string& key, std::int64_t n) {
    key.append(reinterpret_cast<char const*>(&n), sizeof n);
  }
  void append(std::string& key, core_type const& c) const {
    append(key, c.iteration().value());
    append(key, 16 * c.started() + 8 * c.ended() + 4 * c.gathering() + 2 * c.jumping() +
                    c.can_go_on() + 32 * c.lost().has_value());
    for (std::size_t i = 0; i < c.site().in.size(); ++i) append(key, c.is_live_in(i));
    for (std::size_t i = 0; i < c.site().out.size(); ++i)
      append(key, 2 * c.tokens(i) + c.is_live_out(i));
    if constexpr (by_iteration) {
      std::int64_t const first = c.updates().first().value();
      append(key, first);
      for (std::size_t i = 0; i < c.site().in.size(); ++i)
        for (std::int64_t k = first; k < first + static_cast<std::int64_t>(c.updates().slots()); ++k)
          key += c.updates().contains(iteration_index{k}, c.site().in[i]) ? '1' : '0';
    } else {
      for (std::size_t i = 0; i < c.site().in.size(); ++i) {
        append(key, c.updates().newest(i).value());
        key += c.updates().fresh(i) ? '1' : '0';
      }
    }
  }

  std::string key_of(local const& s) const {
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
    core_type next = s.core;
    typename core_type::outbox_type out;
    key += static_cast<char>(next.poll(out));
    for (auto const& [to, m] : out) key += static_cast<char>(encode(m));
    append(key, next);
    return key;
  }

  id intern(std::uint32_t i, local s) {
    auto const [at, is_new] = 
        peers_[i].ids.try_emplace(key_of(s), static_cast<id>(peers_[i].states.size()));
    if (is_new) {
      check(i, s);
      facts f;
      f.iteration = s.core.iteration().value();
      f.started = s.core.started();
      for (std::size_t o = 0; o < s.core.site().out.size(); ++o)
        if (s.core.is_live_out(o)) f.tokens[s.core.site().out[o].index()] = s.core.tokens(o);
      for (std::size_t n = 0; n < s.core.site().in.size(); ++n)
        f.gives_up[s.core.site().in[n].index()] = !s.core.is_live_in(n);
      f.dead = s.at == moment::dead;
      peers_[i].known.push_back(f);
      peers_[i].states.push_back(std::move(s));
      peers_[i].moves.emplace_back();
      peers_[i].dead.push_back(none);
    }
    return at->second;
  }

  /// What holds of a peer whatever the others do.
  void check(std::uint32_t i, local const& s) {
    core_type const& c = s.core;
    std::string const who = "peer " + std::to_string(i) + " in iteration " +
                            std::to_string(c.iteration().value()) + ": ";
    std::size_t const senders = c.site().in.size();
    if constexpr (!by_iteration) {
      if (c.updates().size() > senders) complain(who + "more updates than mailboxes");
    } else if constexpr (gap_type::tokens) {
      if (c.updates().size() > static_cast<std::size_t>(1 + protocol_.gap().gap_max()) * senders)
        complain(who + "more than (1 + max_ig)·|N_in| updates are queued");
    }
    for (std::size_t o = 0; o < c.site().out.size(); ++o)
      if (c.tokens(o) < 0) complain(who + "fewer tokens than none");
    if (!mortal_ && c.lost()) complain(who + "takes a neighbor for lost");
    for (std::size_t n = 0; n < senders && s.at < moment::ended; ++n)
      if (!c.is_live_in(n) && (s.finished >> c.site().in[n].index() & 1) != 0)
        complain(who + "does without the updates of one that has finished");
    if (gather_type::outlives_loss && c.lost()) complain(who + "cannot go on after a loss");
    if (c.iteration().value() >= iterations_) complain(who + "there is no such iteration");
    if constexpr (std::is_same_v<gather_type, gather_all>)
      if (c.counters().updates_spared + c.counters().updates_late > 0)
        complain(who + "an update was spared, or came late, that is waited for");
  }

  id arrival(std::uint32_t i, id s, std::uint32_t from, code what) {
    std::uint64_t const key = (static_cast<std::uint64_t>(s) * peers_max + from) * 256 + what;
    auto const [at, is_new] = peers_[i].arrivals.try_emplace(key, none);
    if (!is_new) return at->second;
    local after = peers_[i].states[s];
    if (after.at == moment::dead) return peers_[i].arrivals[key] = s;
    if (what == death) {
      after.core.lose(worker_id{from});
      after.unacked[from] = -1;
      after.deaths |= static_cast<std::uint8_t>(1u << from);
      id const then = intern(i, std::move(after));
      return peers_[i].arrivals[key] = then;
    }
    message const m = decode(from, what);
    std::int64_t tokens = 0;
    auto const place = detail::place_among(after.core.site().out, worker_id{from});
    if (place) tokens = after.core.tokens(*place);
    if (!after.core.deliver(worker_id{from}, m))
      complain("peer " + std::to_string(i) + " in iteration " +
               std::to_string(after.core.iteration().value()) + " refuses " + text(what) + " of " +
               std::to_string(from));
    if (gap_type::tokens && place &&
        after.core.tokens(*place) != tokens + (m.what == kind::tokens ? m.number : 0))
      complain("peer " + std::to_string(i) + " miscounts the tokens of " + std::to_string(from));
    if (m.what == kind::bye) after.goodbyes |= static_cast<std::uint8_t>(1u << from);
    if (m.what == kind::bye && m.number == iterations_)
      after.finished |= static_cast<std::uint8_t>(1u << from);
    if (m.what == kind::ack) after.unacked[from] = -1;
    id const then = intern(i, std::move(after));
    return peers_[i].arrivals[key] = then;
  }

  outcome const& move(std::uint32_t i, id s) {
    if (!peers_[i].moves[s]) {
      outcome const o = make_move(i, s);  // may make room for more states
      peers_[i].moves[s] = o;
    }
    return *peers_[i].moves[s];
  }

  outcome make_move(std::uint32_t i, id s) {
    local next = peers_[i].states[s];
    typename core_type::outbox_type out;
    switch (next.at) {
      case moment::idle:
        next.core.start(iterations_, out);
        next.at = moment::polls;
        break;
      case moment::polls: {
        bool const could = next.core.can_go_on();
        bool const gathered = next.core.gathering();
        todo const what = next.core.poll(out);
        if (what != todo::wait && !could)
          complain("peer " + std::to_string(i) + " would not have been woken");
        switch (what) {
          case todo::wait: break;
          case todo::compute: next.core.computed(); break;
          case todo::send: next.at = moment::sends; break;
          case todo::reduce: next.at = moment::reduces; break;
          case todo::end: next.at = moment::ended; break;
          case todo::stop:
            if (!next.core.lost()) complain("peer " + std::to_string(i) + " stops");
            next.core.leave(out);
            next.at = moment::ended;
            break;
        }
        if (what == todo::wait && intern(i, next) == s) {
          if (could) complain("peer " + std::to_string(i) + " is woken for nothing");
          if (!out.empty()) complain("peer " + std::to_string(i) + " talks while it waits");
          return {};
        }
        if (reduced_ && what == todo::reduce && gathered) reduce(i, next, out);
        if (reduced_ && what == todo::send && !gap_type::tokens) send(i, next, out);
        break;
      }
      case moment::sends: send(i, next, out); break;
      case moment::reduces: reduce(i, next, out); break;
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
      if (m.what == kind::update && m.parameters != value(i, m.number))
        complain("peer " + std::to_string(i) + " sends other parameters than its own");
      o.says.push_back({to.value(), encode(m)});
    }
    o.then = intern(i, std::move(next));
    return o;
  }

  void send(std::uint32_t i, local& s, typename core_type::outbox_type& out) {
    std::size_t const before = out.size();
    s.core.send(value(i, s.core.iteration().value()), out);
    if (gap_type::acks)
      for (std::size_t n = before; n < out.size(); ++n)
        s.unacked[out[n].first.index()] = static_cast<std::int8_t>(out[n].second.number);
    if (reduced_ && protocol_.order() == iteration_order::parallel) s.core.computed();
    s.at = moment::polls;
  }

  void reduce(std::uint32_t i, local& s, typename core_type::outbox_type& out) {
    check_reduce(i, s.core);
    s.at = moment::reduced;
    if (!reduced_) return;
    s.core.reduced(out);
    s.at = moment::polls;
  }

  /// HOP-3, and what stands for it where not all updates are waited for.
  void check_reduce(std::uint32_t i, core_type& c) {
    std::int64_t const k = c.iteration().value();
    std::string what = std::to_string(i) + (c.jumping() ? " jumping" : "") + " in " +
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
      what += ' ' + std::to_string(part.parameters);
      std::int64_t const made = part.parameters - value(part.from.index(), 0);
      if (by_iteration ? made != k : made < protocol_.gather().oldest(c.iteration()).value())
        complain(what + ", which is of another iteration");
      if (!detail::place_among(c.site().in, part.from)) complain(what + ", of no in-neighbor");
    }
    if (own != 1) complain(what + " without its own");
    std::size_t live = 0;
    for (std::size_t n = 0; n < c.site().in.size(); ++n) live += c.is_live_in(n);
    std::size_t const needed = std::max<std::size_t>(protocol_.gather().needed(live + 1), 1);
    if (by_iteration && others + 1 < needed) complain(what + " and no more");
    if constexpr (!by_iteration) {
      std::size_t good = 1;
      for (std::size_t b = 0; b < c.site().in.size(); ++b)
        good += c.is_live_in(b) && c.updates().newest(b) >= protocol_.gather().oldest(c.iteration());
      if (good < needed) complain(what + ", though others are too old");
    }
    if (sum < 1 - 1e-9 || sum > 1 + 1e-9) complain(what + " with weights that are not 1 together");
    found_.seen.reduces.insert(what);
  }

  // ---- channels

  id intern_sequence(std::string const& messages) {
    auto const [at, is_new] = sequence_ids_.try_emplace(messages, static_cast<id>(sequences_.size()));
    if (is_new) {
      sequence s{messages, 0, none};
      for (char const m : messages)
        if (static_cast<code>(m) / 64 == static_cast<code>(kind::tokens))
          s.tokens += static_cast<code>(m) % 64;
      sequences_.push_back(std::move(s));
    }
    return at->second;
  }
  id without_first(id s) {
    if (sequences_[s].without_first == none) {
      id const rest = intern_sequence(sequences_[s].messages.substr(1));
      sequences_[s].without_first = rest;
    }
    return sequences_[s].without_first;
  }
  id with(id s, code c) {
    auto const [at, is_new] = longer_.try_emplace(static_cast<std::uint64_t>(s) * 256 + c, none);
    if (is_new) at->second = intern_sequence(sequences_[s].messages + static_cast<char>(c));
    return at->second;
  }
  [[nodiscard]] code at(id s, std::size_t n) const {
    return static_cast<code>(sequences_[s].messages[n]);
  }

  // ---- the world

  template <class Expand>
  void explore(Expand expand) {
    places_.assign(1 << 10, 0);
    reach({}, 0);  // everybody idle, nothing under way
    // By breadth, so that a problem is told with one of the shortest ways to it.
    for (std::uint32_t at = 0; at < worlds_.size() && found_.problem.empty(); ++at) {
      moved_ = false;
      expand(at);
      if (mortal_) die(*mortal_, at);
      bool all_ended = true;
      for (std::uint32_t i = 0; i < size(); ++i) {
        local const& peer = peers_[i].states[worlds_[at][i]];
        all_ended = all_ended && peer.at >= moment::ended;
        if (peer.at == moment::ended && !peer.core.lost() &&
            peer.core.iteration().value() != iterations_ - 1)
          complain("peer " + std::to_string(i) + " ends too early");
      }
      if (all_ended) ++found_.endings;
      else if (!moved_) complain("a deadlock");
      if (!found_.problem.empty()) found_.problem += way_to(at);
    }
    found_.states = worlds_.size();
  }

  void reach(world w, std::uint32_t from) {
    moved_ = true;
    if (reduced_) deliver_to_ended(w);
    if (2 * worlds_.size() >= places_.size()) {
      places_.assign(4 * places_.size(), 0);
      for (std::uint32_t at = 0; at < worlds_.size(); ++at) place_of(worlds_[at]) = at + 1;
    }
    std::uint32_t& place = place_of(w);
    if (place != 0) return;
    worlds_.push_back(w);
    came_from_.push_back(from);
    place = static_cast<std::uint32_t>(worlds_.size());
    check_world(w);
  }

  /// Where the number of `w`, plus 1, stands or is to stand.
  std::uint32_t& place_of(world const& w) {
    std::uint64_t h = 0;
    for (std::uint16_t const n : w) h = (h ^ n) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    for (std::size_t at = h;; ++at) {
      std::uint32_t& place = places_[at & (places_.size() - 1)];
      if (place == 0 || worlds_[place - 1] == w) return place;
    }
  }

  void deliver_to_ended(world& w) {
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      auto const [sender, receiver] = channels_[c];
      if (peers_[receiver].states[w[receiver]].at < moment::ended) continue;
      for (auto& under_way = w[peers_max + c]; under_way != 0;
           under_way = narrow(without_first(under_way)))
        w[receiver] = narrow(arrival(receiver, w[receiver], sender, at(under_way, 0)));
    }
  }

  void say(world& w, std::uint32_t i, std::vector<saying> const& says) {
    for (saying const& s : says) {
      auto& channel = w[peers_max + peers_[i].out[s.to]];
      channel = narrow(with(channel, s.what));
    }
  }

  std::uint16_t narrow(id n) {
    if (n > 0xffff) complain("more states of one peer or channel than this test can number");
    return static_cast<std::uint16_t>(n);
  }

  void single_moves(std::uint32_t from) {
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      world w = worlds_[from];
      auto& channel = w[peers_max + c];
      if (channel == 0) continue;
      auto const [sender, receiver] = channels_[c];
      w[receiver] = narrow(arrival(receiver, w[receiver], sender, at(channel, 0)));
      channel = narrow(without_first(channel));
      reach(w, from);
    }
    for (std::uint32_t i = 0; i < size(); ++i) {
      world w = worlds_[from];
      outcome const o = move(i, w[i]);
      if (o.then == none) continue;
      w[i] = narrow(o.then);
      say(w, i, o.says);
      reach(w, from);
    }
  }

  void steps(std::uint32_t from) {
    for (std::uint32_t i = 0; i < size(); ++i) {
      for (step const& s : steps_of(i, worlds_[from])) {
        world w = worlds_[from];
        w[i] = narrow(s.then);
        for (std::size_t c = 0; c < peers_[i].in.size(); ++c)
          w[peers_max + peers_[i].in[c]] = narrow(s.under_way[c]);
        say(w, i, s.says);
        reach(w, from);
      }
    }
  }

  /// Those that it has to do with hear of it after all that it has said.
  void die(std::uint32_t i, std::uint32_t from) {
    world w = worlds_[from];
    local dead = peers_[i].states[w[i]];
    if (dead.at == moment::dead) return;
    dead.at = moment::dead;
    if (peers_[i].dead[w[i]] == none) {
      id const known = intern(i, std::move(dead));
      peers_[i].dead[w[i]] = known;
    }
    w[i] = narrow(peers_[i].dead[w[i]]);
    for (std::size_t c = 0; c < channels_.size(); ++c)
      if (channels_[c].from == i) w[peers_max + c] = narrow(with(w[peers_max + c], death));
    reach(w, from);
  }

  std::vector<step> const& steps_of(std::uint32_t i, world const& w) {
    std::uint64_t key = w[i];
    for (std::size_t const c : peers_[i].in) key = key << 16 | w[peers_max + c];
    auto const [at, is_new] = peers_[i].steps.try_emplace(key);
    if (is_new) at->second = make_steps(i, w);
    return at->second;
  }

  std::vector<step> make_steps(std::uint32_t i, world const& w) {
    std::vector<std::size_t> const& in = peers_[i].in;
    std::vector<id> under_way;
    for (std::size_t const c : in) under_way.push_back(w[peers_max + c]);
    // after[x]: its state after x's choice of arrivals, where x counts how many of each channel have
    // arrived, in mixed radix.
    std::size_t choices = 1;
    std::vector<std::size_t> radix;
    for (std::size_t c = 0; c < in.size(); ++c) {
      radix.push_back(choices);
      choices *= sequences_[under_way[c]].messages.size() + 1;
    }
    std::vector<id> after(choices, none);
    after[0] = w[i];
    std::vector<step> all;
    for (std::size_t x = 0; x < choices; ++x) {
      std::vector<std::size_t> arrived;
      for (std::size_t c = 0; c < in.size(); ++c)
        arrived.push_back(x / radix[c] % (sequences_[under_way[c]].messages.size() + 1));
      for (std::size_t c = 0; c < in.size(); ++c) {
        if (arrived[c] == 0) continue;
        id const now = arrival(i, after[x - radix[c]], channels_[in[c]].from,
                               at(under_way[c], arrived[c] - 1));
        if (after[x] != none && after[x] != now)
          complain("it matters to peer " + std::to_string(i) + " which of its neighbors is faster");
        after[x] = now;
      }
      outcome const o = move(i, after[x]);
      if (o.then == none) continue;
      bool put_off = false;
      for (std::size_t c = 0; c < in.size() && !put_off; ++c) {
        if (arrived[c] == 0) continue;
        outcome const before = move(i, after[x - radix[c]]);
        if (before.then == none || !same_says(before.says, o.says)) continue;
        put_off = arrival(i, before.then, channels_[in[c]].from, at(under_way[c], arrived[c] - 1)) ==
                  o.then;
      }
      if (put_off) continue;
      step s{o.then, {}, o.says};
      for (std::size_t c = 0; c < in.size(); ++c) {
        id rest = under_way[c];
        for (std::size_t n = 0; n < arrived[c]; ++n) rest = without_first(rest);
        s.under_way.push_back(rest);
      }
      all.push_back(std::move(s));
    }
    return all;
  }

  static bool same_says(std::vector<saying> const& a, std::vector<saying> const& b) {
    return std::ranges::equal(a, b, [](saying const& x, saying const& y) {
      return x.to == y.to && x.what == y.what;
    });
  }

  /// HOP-1, and what HOP-2 is about.
  void check_world(world const& w) {
    std::array<facts const*, peers_max> known{};
    std::uint32_t iterations = 0;
    for (std::uint32_t i = 0; i < size(); ++i) {
      known[i] = &peers_[i].known[w[i]];
      iterations = iterations << 8 | static_cast<std::uint32_t>(known[i]->iteration);
    }
    for (std::uint32_t i = 0; i < size(); ++i)
      for (std::uint32_t j = 0; j < size(); ++j)
        found_.gap[i][j] = std::max(found_.gap[i][j], known[i]->iteration - known[j]->iteration);
    if constexpr (gap_type::tokens) {
      for (std::size_t c = 0; c < channels_.size(); ++c) {
        auto const [j, i] = channels_[c];  // tokens of j on their way to i
        if (!known[i]->started || !known[j]->started || known[i]->dead || known[j]->dead) continue;
        if (known[i]->tokens[j] < 0 || known[j]->gives_up[i]) continue;
        std::int64_t const tokens = known[i]->tokens[j] + sequences_[w[peers_max + c]].tokens;
        std::int64_t const expected =
            known[j]->iteration - known[i]->iteration + protocol_.gap().gap_max();
        if (tokens != expected || expected < 0)
          complain("HOP-1: " + std::to_string(tokens) + " tokens of " + std::to_string(j) + " for " +
                   std::to_string(i) + ", expected " + std::to_string(expected));
      }
    }
    found_.seen.iterations.insert(iterations);
  }

  // ---- words

  static std::string text(code c) {
    if (c == death) return "death";
    char const* const names[] = {"update ", "tokens ", "ack ", "bye "};
    return names[c / 64] + std::to_string(c % 64);
  }

  std::string describe(std::uint32_t n) const {
    world const& w = worlds_[n];
    std::string all;
    for (std::uint32_t i = 0; i < size(); ++i) {
      char const* const moments[] = {" idle", " polls", " sends", " reduces", " reduced", " ended", " dead"};
      core_type const& c = core(i, w[i]);
      all += std::to_string(i) + ':' + std::to_string(c.iteration().value()) +
             moments[static_cast<int>(peers_[i].states[w[i]].at)] + (c.jumping() ? " jumping" : "") +
             "; ";
    }
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      if (w[peers_max + c] == 0) continue;
      all += std::to_string(channels_[c].from) + "->" + std::to_string(channels_[c].to) + " [";
      for (char const m : sequences_[w[peers_max + c]].messages) all += text(static_cast<code>(m)) + ',';
      all.back() = ']';
      all += ' ';
    }
    return all;
  }

  std::string way_to(std::uint32_t n) const {
    std::string all = "\nat " + describe(n);
    while (n != 0) all = "\n   " + describe(n = came_from_[n]) + all;
    return all;
  }

  Protocol protocol_;
  graph graph_;
  std::int64_t iterations_;
  std::optional<std::uint32_t> mortal_;
  std::vector<peer_states> peers_;
  std::vector<link> channels_;
  std::vector<sequence> sequences_;
  std::unordered_map<std::string, id> sequence_ids_;
  std::unordered_map<std::uint64_t, id> longer_;  ///< by sequence and message
  std::vector<world> worlds_;
  std::vector<std::uint32_t> came_from_;
  std::vector<std::uint32_t> places_;  ///< a hash table of the worlds' numbers
  bool reduced_ = false;
  bool moved_ = false;
  findings found_;
};

/// Iter(i) − Iter(j) at most, as 002 Table 1 has it.
template <class Protocol>
std::int64_t bound_of(Protocol const& p, graph const& g, worker_id i, worker_id j) {
  using gather = decltype(p.gather());
  using gap = decltype(p.gap());
  constexpr std::int64_t unbounded = 1'000'000;
  std::int64_t const there = g.distance(j, i);
  std::int64_t const back = g.distance(i, j);
  std::int64_t bound = unbounded;
  // On a directed graph a jump may go beyond this until the peer has been caught up.
  bool const caught_up = !decltype(p.jump())::jumps || g.undirected();
  if (gather::bounds_gap && caught_up)
    bound = (distance(p.gather().oldest(iteration_index{0}), iteration_index{0}) + 1) * there;
  if (gap::acks) bound = std::min(bound, 2 * back);
  if constexpr (gap::tokens) bound = std::min(bound, p.gap().gap_max() * back);
  return bound;
}

/// Every order; and the gaps between peers become as great as the rules allow, and no greater.
template <class Protocol>
void examine(Protocol const& p, std::vector<graph> const& graphs, std::int64_t iterations,
             std::size_t states_at_least) {
  for (graph const& g : graphs) {
    findings const found = search<Protocol>(p, g, iterations).reduced();
    INFO(g.name() << " of " << g.size() << ", " << iterations << " iterations, " << found.states
                  << " states");
    CHECK(found.problem == "");
    CHECK(found.states >= states_at_least);
    CHECK(found.endings == 1);
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      for (std::uint32_t j = 0; j < g.size(); ++j) {
        INFO("Iter(" << i << ") - Iter(" << j << ")");
        std::int64_t const bound =
            std::min(bound_of(p, g, worker_id{i}, worker_id{j}), iterations - 1);
        CHECK(found.gap[i][j] <= bound);
        // Acknowledgements and jumps need not let a gap become as great as that.
        if (!decltype(p.gap())::acks && !decltype(p.jump())::jumps) CHECK(found.gap[i][j] == bound);
      }
    }
    // HOP-3: each has reduced the same in iteration k, whatever the order.
    if (std::is_same_v<decltype(p.gather()), gather_all>)
      CHECK(found.seen.reduces.size() == g.size() * static_cast<std::size_t>(iterations));
  }
}

std::vector<graph> small_graphs() { return {directed_ring(3), complete(3), star(3)}; }
std::vector<graph> greater_graphs() {
  return {directed_ring(4), ring(4), complete(4), star(4), grid(1, 4), exponential(4)};
}
std::vector<graph> all_graphs() {
  std::vector<graph> all = greater_graphs();
  for (graph const& g : small_graphs()) all.push_back(g);
  all.push_back(ring(2));
  return all;
}

// A gather that waits for one more than there are.
struct gather_too_many : gather_all {
  [[nodiscard]] static std::size_t needed(std::size_t n) noexcept { return n + 1; }
};

}  // namespace

TEST_CASE("hop interleavings: where every update is waited for", "[peer][interleavings]") {
  SECTION("standard") { examine(hop(), all_graphs(), 4, 30); }
  SECTION("serial") { examine(hop(iteration_order::serial), all_graphs(), 4, 50); }
  SECTION("notify_ack") { examine(hop(notify_ack{}), all_graphs(), 4, 40); }
  SECTION("notify_ack, serial") {
    examine(hop(notify_ack{}, iteration_order::serial), all_graphs(), 4, 40);
  }
  SECTION("tokens") {
    for (std::int64_t const max_ig : {1, 2, 3}) examine(hop(token_queues{max_ig}), all_graphs(), 4, 50);
  }
  SECTION("tokens, serial") {
    for (std::int64_t const max_ig : {1, 2})
      examine(hop(token_queues{max_ig}, iteration_order::serial), all_graphs(), 4, 50);
  }
  SECTION("more iterations") {
    examine(hop(), greater_graphs(), 9, 300);
    examine(hop(token_queues{2}), greater_graphs(), 9, 1000);
    examine(hop(notify_ack{}), greater_graphs(), 9, 500);
  }
}

TEST_CASE("hop interleavings: one peer alone", "[peer][interleavings]") {
  examine(hop(), {complete(1)}, 4, 5);
  examine(hop(notify_ack{}), {complete(1)}, 4, 5);
  examine(hop(token_queues{1}), {complete(1)}, 4, 5);
  examine(hop(gather_newest{.staleness = 1}, token_queues{2}, bounded_jump{2, 3}), {complete(1)}, 4, 5);
}

TEST_CASE("hop interleavings: backup workers", "[peer][interleavings]") {
  auto const backup = [](std::int64_t max_ig, auto... more) {
    return hop(gather_all_but{.backups = 1}, token_queues{max_ig}, more...);
  };
  SECTION("small") {
    examine(backup(1), small_graphs(), 4, 5000);
    examine(backup(2), small_graphs(), 4, 20'000);
    examine(backup(1, iteration_order::serial), small_graphs(), 4, 1000);
    examine(backup(3), {ring(2)}, 5, 500);
  }
  SECTION("greater") {
    examine(backup(1), {directed_ring(4), ring(4)}, 3, 50'000);
    examine(backup(2), greater_graphs(), 2, 10'000);
  }
}

TEST_CASE("hop interleavings: bounded staleness", "[peer][interleavings]") {
  auto const stale = [](std::int64_t s, auto... more) {
    return hop(gather_newest{.staleness = s}, more...);
  };
  SECTION("small") {
    examine(stale(0), small_graphs(), 4, 300);
    examine(stale(1), small_graphs(), 4, 2000);
    examine(stale(2), {directed_ring(3), star(3)}, 4, 5000);
    examine(stale(1, iteration_order::serial), small_graphs(), 4, 1000);
    examine(stale(2), {ring(2)}, 5, 200);
  }
  SECTION("small, with tokens") {
    examine(stale(0, token_queues{1}), small_graphs(), 4, 500);
    examine(stale(1, token_queues{1}), small_graphs(), 4, 5000);
    examine(stale(2, token_queues{2}), {directed_ring(3), star(3)}, 4, 10'000);
    examine(stale(2, token_queues{2}), {complete(3)}, 3, 10'000);
    examine(stale(1, token_queues{3}), {star(3)}, 4, 5000);
  }
  SECTION("greater") {
    examine(stale(0), greater_graphs(), 3, 1000);
    examine(stale(1), {directed_ring(4)}, 3, 10'000);
    examine(stale(1), {ring(4), star(4), grid(1, 4)}, 2, 10'000);
    examine(stale(1, token_queues{1}), {directed_ring(4), star(4), grid(1, 4)}, 2, 10'000);
  }
}

TEST_CASE("hop interleavings: the hybrid", "[peer][interleavings]") {
  auto const hybrid = hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2});
  examine(hybrid, {directed_ring(3)}, 4, 50'000);
  examine(hybrid, {star(3)}, 3, 20'000);
  examine(hybrid, {complete(3), directed_ring(4), star(4), grid(1, 4)}, 2, 5000);
}

TEST_CASE("hop interleavings: jumps", "[peer][interleavings]") {
  bounded_jump const jump{2, 3};
  SECTION("backup workers") {
    auto const p = hop(gather_all_but{.backups = 1}, token_queues{2}, jump);
    examine(p, small_graphs(), 4, 20'000);
    examine(p, {directed_ring(4), grid(1, 4)}, 3, 50'000);
  }
  SECTION("bounded staleness") {
    auto const p = hop(gather_newest{.staleness = 2}, token_queues{2}, jump);
    examine(p, {directed_ring(3), star(3)}, 4, 20'000);
    examine(p, {complete(3), directed_ring(4)}, 3, 20'000);
  }
  SECTION("bounded staleness, longer") {
    auto const p = hop(gather_newest{.staleness = 1}, token_queues{3}, jump);
    examine(p, {directed_ring(3)}, 5, 20'000);
    examine(p, {ring(2)}, 7, 1000);
    examine(hop(gather_newest{.staleness = 1}, token_queues{2}, jump), {grid(1, 4)}, 3, 50'000);
  }
  SECTION("hybrid") {
    auto const p = hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, jump);
    examine(p, {directed_ring(3)}, 4, 50'000);
    examine(p, {star(3)}, 3, 20'000);
  }
  SECTION("serial") {
    auto const p =
        hop(gather_newest{.staleness = 2}, token_queues{2}, jump, iteration_order::serial);
    examine(p, {directed_ring(3), star(3)}, 4, 5000);
  }
}

TEST_CASE("hop interleavings: one may die at any time", "[peer][interleavings]") {
  // Its neighbors hear of it in the end, after all that it has said. Nobody waits for it for ever, and
  // who has finished before it dies is missed by nobody.
  auto const examine_loss = [](auto p, std::vector<graph> const& graphs, std::int64_t iterations,
                               std::size_t states_at_least) {
    for (graph const& g : graphs) {
      std::size_t states = 0;
      for (std::uint32_t mortal = 0; mortal < g.size(); ++mortal) {
        findings const found = search<decltype(p)>(p, g, iterations, mortal).reduced();
        INFO(g.name() << " of " << g.size() << ", peer " << mortal << " dies, " << found.states
                      << " states");
        CHECK(found.problem == "");
        CHECK(found.endings > 1);
        states += found.states;
      }
      INFO(g.name() << " of " << g.size());
      CHECK(states >= states_at_least);
    }
  };
  examine_loss(hop(), all_graphs(), 3, 100);
  examine_loss(hop(iteration_order::serial), all_graphs(), 3, 100);
  examine_loss(hop(notify_ack{}), all_graphs(), 3, 100);
  examine_loss(hop(token_queues{1}), all_graphs(), 3, 100);
  examine_loss(hop(gather_all_but{.backups = 1}, token_queues{1}), small_graphs(), 2, 1000);
  examine_loss(hop(gather_newest{.staleness = 1}), small_graphs(), 3, 1000);
  examine_loss(hop(gather_newest{.staleness = 1}, token_queues{1}), small_graphs(), 2, 1000);
  examine_loss(hop(gather_newest{.staleness = 1}, token_queues{2}, bounded_jump{2, 3}),
               {directed_ring(3), star(3), ring(2)}, 3, 1000);
  examine_loss(hop(gather_all_but{.backups = 1}, token_queues{2}, bounded_jump{2, 3}),
               {directed_ring(3), star(3), ring(2)}, 3, 1000);
  examine_loss(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, bounded_jump{2, 3}),
               {ring(2)}, 4, 1000);
}

TEST_CASE("hop interleavings: the reduced search sees what the full one sees",
          "[peer][interleavings]") {
  auto const compare = [](auto p, graph const& g, std::int64_t iterations) {
    INFO(g.name() << " of " << g.size());
    findings const full = search<decltype(p)>(p, g, iterations).full();
    findings const reduced = search<decltype(p)>(p, g, iterations).reduced();
    CHECK(full.problem == "");
    CHECK(reduced.problem == "");
    CHECK(full.gap == reduced.gap);
    CHECK(full.seen.iterations == reduced.seen.iterations);
    CHECK(full.seen.reduces == reduced.seen.reduces);
    CHECK(full.states > 2 * reduced.states);
  };
  graph const pair = ring(2);
  compare(hop(), pair, 4);
  compare(hop(iteration_order::serial), pair, 4);
  compare(hop(notify_ack{}), pair, 4);
  compare(hop(notify_ack{}, iteration_order::serial), pair, 4);
  compare(hop(token_queues{1}), pair, 4);
  compare(hop(token_queues{2}), pair, 4);
  compare(hop(gather_all_but{.backups = 1}, token_queues{2}), pair, 4);
  compare(hop(gather_newest{.staleness = 0}), pair, 4);
  compare(hop(gather_newest{.staleness = 2}), pair, 4);
  compare(hop(gather_newest{.staleness = 2}, token_queues{2}), pair, 4);
  compare(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}), pair, 4);
  compare(hop(gather_all_but{.backups = 1}, token_queues{2}, bounded_jump{2, 3}), pair, 4);
  compare(hop(gather_newest{.staleness = 2}, token_queues{2}, bounded_jump{2, 3}), pair, 4);
  compare(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, bounded_jump{2, 3}), pair,
          4);
  graph const circle = directed_ring(3);
  compare(hop(), circle, 3);
  compare(hop(iteration_order::serial), circle, 3);
  compare(hop(notify_ack{}), circle, 2);
  compare(hop(token_queues{1}), circle, 2);
  compare(hop(gather_newest{.staleness = 1}), circle, 2);
  compare(hop(), complete(3), 2);
  compare(hop(notify_ack{}), complete(3), 2);
}

TEST_CASE("hop interleavings: a deadlock is found where there is one", "[peer][interleavings]") {
  findings const found = search(hop(gather_too_many{}), directed_ring(3), 2).reduced();
  INFO(found.problem);
  CHECK(found.problem.starts_with("a deadlock"));
  CHECK(found.endings == 0);
}
