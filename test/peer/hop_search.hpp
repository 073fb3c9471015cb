// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "peer/message_sequences.hpp"
#include "peer/searched_peer.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/hop_rules.hpp"
#include "rubato/peer/mixing.hpp"

namespace rubato::test {

/// Every order in which a few peers can move and their messages arrive, for every protocol of the
/// Hop family.
///
/// A state of the world is what each peer is in, and what is under way in each channel. Peers are
/// deterministic, so what a move or a message makes of a peer is computed once and remembered; then a
/// state is a few numbers, and there may be many of them. Two peers are in the same state if all that
/// can be seen of them is the same: their accessors, what they would do next, which goodbyes they have
/// got and which acknowledgements they miss. One that has ended does nothing more, so of it only the
/// iteration and what it is owed count.
///
/// Not every order is another one. The full search takes them all, a message or a move at a time. The
/// reduced search leaves out those that come to the same:
///  1. Moves and arrivals at different peers commute: they share nothing but channels, and one end of
///     a channel does not see the other while there is a message between. So arrivals at a peer can be
///     put off until just before its own next move: a step is some arrivals, then a move.
///  2. Arrivals from different senders commute. This is checked, for all that can arrive at a time.
///  3. An arrival that commutes with the move behind it can be put off until after that. This is
///     checked by doing both: only if the peer is in the same state, and has said the same, is the
///     order with the arrival first left out.
///  4. Some moves follow another one at once, for nothing can come between them that matters:
///     `computed` (no message depends on it, nor it on any); the reduce on a `poll` that has waited for
///     it (the poll says nothing and only looks, so what arrives in between may as well arrive before
///     it; what arrives between `gather` and `reduced` is kept or too late either way); without tokens,
///     the sending on the `poll` before it (nothing that arrives changes what is sent).
///     Only where a loss stops a peer is a loss just before the reduce another order: that one is tried
///     by hand.
///  5. To who has ended all arrives at once.
/// Moves that enter an iteration keep their order throughout. So the reduced search passes through the
/// same vectors of iterations; it sees each peer in every state that it can be in, since it tries all
/// arrivals at each of them, also those that it puts off; and it ends in the same deadlocks, if any.
/// That both searches see the same is a test of its own, where the full one can be afforded.
class search {
 public:
  /// @param mortal  who may die, at any time, instead of moving on
  search(hop_rules const& p, graph const& g, std::int64_t iterations,
         std::optional<std::uint32_t> mortal = {})
      : rules_{p, iterations, mortal}, size_(g.size()), ends_(size_), steps_(size_) {
    mixing_matrix const mixing = mixing_matrix::automatic(g);
    found_.gap.assign(size_, std::vector<std::int64_t>(size_));
    for (std::uint32_t i = 0; i < size_; ++i) {
      for (std::uint32_t j = 0; j < size_; ++j)
        if (g.has_edge(worker_id{i}, worker_id{j}) || g.has_edge(worker_id{j}, worker_id{i}))
          channels_.push_back({i, j});
      peers_.emplace_back(rules_, site_of(mixing, worker_id{i}), found_);
    }
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      ends_[channels_[c].from].out[channels_[c].to] = c;
      ends_[channels_[c].to].in.push_back(c);
    }
  }

  search(search const&) = delete;
  search& operator=(search const&) = delete;

  findings reduced() {
    rules_.reduced = true;
    explore([this](std::uint32_t at) { steps(at); });
    return found_;
  }
  findings full() {
    explore([this](std::uint32_t at) { single_moves(at); });
    return found_;
  }

 private:
  using id = searched_peer::id;
  using moment = searched_peer::moment;
  using saying = searched_peer::saying;
  using outcome = searched_peer::outcome;
  static constexpr id none = searched_peer::none;
  static constexpr std::size_t channels_max = peers_max * (peers_max - 1);

  struct link {
    std::uint32_t from, to;
  };
  /// The channels of a peer.
  struct ends {
    std::array<std::size_t, peers_max> out{};  ///< by receiver
    std::vector<std::size_t> in;
  };
  /// Some arrivals and a move.
  struct step {
    id then;
    std::vector<id> under_way;  ///< in the channels to this peer
    std::vector<saying> says;
  };
  /// One number per peer, then one per channel.
  using world = std::array<std::uint16_t, peers_max + channels_max>;

  [[nodiscard]] std::uint32_t size() const { return size_; }

  template <class Expand>
  void explore(Expand expand) {
    places_.assign(1 << 10, 0);
    reach({}, 0);  // everybody idle, nothing under way
    // By breadth, so that a problem is told with one of the shortest ways to it.
    for (std::uint32_t at = 0; at < worlds_.size() && found_.problem.empty(); ++at) {
      moved_ = false;
      expand(at);
      if (rules_.mortal) die(*rules_.mortal, at);
      bool all_ended = true;
      for (std::uint32_t i = 0; i < size(); ++i) {
        searched_peer::local const& peer = peers_[i].state(worlds_[at][i]);
        all_ended = all_ended && peer.at >= moment::ended;
        if (peer.at == moment::ended && !peer.core.lost() &&
            peer.core.iteration().value() != rules_.iterations - 1)
          found_.complain("peer " + std::to_string(i) + " ends too early");
      }
      if (all_ended) ++found_.endings;
      else if (!moved_) found_.complain("a deadlock");
      if (!found_.problem.empty()) found_.problem += way_to(at);
    }
    found_.states = worlds_.size();
  }

  void reach(world w, std::uint32_t from) {
    moved_ = true;
    if (rules_.reduced) deliver_to_ended(w);
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
      if (peers_[receiver].state(w[receiver]).at < moment::ended) continue;
      for (auto& under_way = w[peers_max + c]; under_way != 0;
           under_way = narrow(sequences_.without_first(under_way)))
        w[receiver] = narrow(peers_[receiver].arrival(w[receiver], sender, sequences_.at(under_way, 0)));
    }
  }

  void say(world& w, std::uint32_t i, std::vector<saying> const& says) {
    for (saying const& s : says) {
      auto& channel = w[peers_max + ends_[i].out[s.to]];
      channel = narrow(sequences_.with(channel, s.what));
    }
  }

  std::uint16_t narrow(id n) {
    if (n > 0xffff) found_.complain("more states of one peer or channel than this test can number");
    return static_cast<std::uint16_t>(n);
  }

  void single_moves(std::uint32_t from) {
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      world w = worlds_[from];
      auto& channel = w[peers_max + c];
      if (channel == 0) continue;
      auto const [sender, receiver] = channels_[c];
      w[receiver] = narrow(peers_[receiver].arrival(w[receiver], sender, sequences_.at(channel, 0)));
      channel = narrow(sequences_.without_first(channel));
      reach(w, from);
    }
    for (std::uint32_t i = 0; i < size(); ++i) {
      world w = worlds_[from];
      outcome const o = peers_[i].move(w[i]);
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
        for (std::size_t c = 0; c < ends_[i].in.size(); ++c)
          w[peers_max + ends_[i].in[c]] = narrow(s.under_way[c]);
        say(w, i, s.says);
        reach(w, from);
      }
    }
  }

  /// Those that it has to do with hear of it after all that it has said.
  void die(std::uint32_t i, std::uint32_t from) {
    world w = worlds_[from];
    if (peers_[i].state(w[i]).at == moment::dead) return;
    w[i] = narrow(peers_[i].dead(w[i]));
    for (std::size_t c = 0; c < channels_.size(); ++c)
      if (channels_[c].from == i) w[peers_max + c] = narrow(sequences_.with(w[peers_max + c], death));
    reach(w, from);
  }

  std::vector<step> const& steps_of(std::uint32_t i, world const& w) {
    std::uint64_t key = w[i];
    for (std::size_t const c : ends_[i].in) key = key << 16 | w[peers_max + c];
    auto const [at, is_new] = steps_[i].try_emplace(key);
    if (is_new) at->second = make_steps(i, w);
    return at->second;
  }

  std::vector<step> make_steps(std::uint32_t i, world const& w) {
    std::vector<std::size_t> const& in = ends_[i].in;
    std::vector<id> under_way;
    for (std::size_t const c : in) under_way.push_back(w[peers_max + c]);
    // after[x]: its state after x's choice of arrivals, where x counts how many of each channel have
    // arrived, in mixed radix.
    std::size_t choices = 1;
    std::vector<std::size_t> radix;
    for (std::size_t c = 0; c < in.size(); ++c) {
      radix.push_back(choices);
      choices *= sequences_.messages(under_way[c]).size() + 1;
    }
    std::vector<id> after(choices, none);
    after[0] = w[i];
    std::vector<step> all;
    for (std::size_t x = 0; x < choices; ++x) {
      std::vector<std::size_t> arrived;
      for (std::size_t c = 0; c < in.size(); ++c)
        arrived.push_back(x / radix[c] % (sequences_.messages(under_way[c]).size() + 1));
      for (std::size_t c = 0; c < in.size(); ++c) {
        if (arrived[c] == 0) continue;
        id const now = peers_[i].arrival(after[x - radix[c]], channels_[in[c]].from,
                                         sequences_.at(under_way[c], arrived[c] - 1));
        if (after[x] != none && after[x] != now)
          found_.complain("it matters to peer " + std::to_string(i) + " which of its neighbors is faster");
        after[x] = now;
      }
      outcome const o = peers_[i].move(after[x]);
      if (o.then == none) continue;
      bool put_off = false;
      for (std::size_t c = 0; c < in.size() && !put_off; ++c) {
        if (arrived[c] == 0) continue;
        outcome const before = peers_[i].move(after[x - radix[c]]);
        if (before.then == none || before.says != o.says) continue;
        put_off = peers_[i].arrival(before.then, channels_[in[c]].from,
                                    sequences_.at(under_way[c], arrived[c] - 1)) == o.then;
      }
      if (put_off) continue;
      step s{o.then, {}, o.says};
      for (std::size_t c = 0; c < in.size(); ++c) {
        id rest = under_way[c];
        for (std::size_t n = 0; n < arrived[c]; ++n) rest = sequences_.without_first(rest);
        s.under_way.push_back(rest);
      }
      all.push_back(std::move(s));
    }
    return all;
  }

  /// HOP-1, and what HOP-2 is about.
  void check_world(world const& w) {
    std::array<searched_peer::facts const*, peers_max> known{};
    std::uint32_t iterations = 0;
    for (std::uint32_t i = 0; i < size(); ++i) {
      known[i] = &peers_[i].known(w[i]);
      iterations = iterations << 8 | static_cast<std::uint32_t>(known[i]->iteration);
    }
    for (std::uint32_t i = 0; i < size(); ++i)
      for (std::uint32_t j = 0; j < size(); ++j)
        found_.gap[i][j] = std::max(found_.gap[i][j], known[i]->iteration - known[j]->iteration);
    if (rules_.tokens()) {
      for (std::size_t c = 0; c < channels_.size(); ++c) {
        auto const [j, i] = channels_[c];  // tokens of j on their way to i
        if (!known[i]->started || !known[j]->started || known[i]->dead || known[j]->dead) continue;
        if (known[i]->tokens[j] < 0 || known[j]->gives_up[i]) continue;
        std::int64_t const tokens = known[i]->tokens[j] + sequences_.tokens(w[peers_max + c]);
        std::int64_t const expected =
            known[j]->iteration - known[i]->iteration + *rules_.protocol.gap_max;
        if (tokens != expected || expected < 0)
          found_.complain("HOP-1: " + std::to_string(tokens) + " tokens of " + std::to_string(j) + " for " +
                   std::to_string(i) + ", expected " + std::to_string(expected));
      }
    }
    found_.seen.iterations.insert(iterations);
  }

  std::string describe(std::uint32_t n) const {
    world const& w = worlds_[n];
    std::string all;
    for (std::uint32_t i = 0; i < size(); ++i) {
      char const* const moments[] = {" idle", " polls", " sends", " reduces", " reduced", " ended", " dead"};
      searched_peer::local const& peer = peers_[i].state(w[i]);
      all += std::to_string(i) + ':' + std::to_string(peer.core.iteration().value()) +
             moments[static_cast<int>(peer.at)] + (peer.core.jumping() ? " jumping" : "") + "; ";
    }
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      if (w[peers_max + c] == 0) continue;
      all += std::to_string(channels_[c].from) + "->" + std::to_string(channels_[c].to) + " [";
      for (char const m : sequences_.messages(w[peers_max + c]))
        all += searched_peer::text(static_cast<code>(m)) + ',';
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

  search_rules rules_;
  std::uint32_t size_;
  findings found_;
  std::vector<searched_peer> peers_;
  std::vector<link> channels_;
  std::vector<ends> ends_;  ///< of each peer
  message_sequences sequences_;
  /// What each peer may do next, by its state and what is under way to it.
  std::vector<std::unordered_map<std::uint64_t, std::vector<step>>> steps_;
  std::vector<world> worlds_;
  std::vector<std::uint32_t> came_from_;
  std::vector<std::uint32_t> places_;  ///< a hash table of the worlds' numbers
  bool moved_ = false;
};

}  // namespace rubato::test
