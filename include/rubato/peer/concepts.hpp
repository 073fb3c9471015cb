// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"

namespace rubato {

class graph;

/// An iteration of a peer: 0, 1, … It is the peer's clock: a peer in iteration k has ended k of them,
/// made or jumped over.
using iteration_index = clock_index;

/// How updates that have arrived wait to be reduced.
enum class keeping {
  by_iteration,  ///< one slot per iteration; only updates of the peer's own iteration will do
  newest,        ///< of each neighbor the newest one, which may be older or newer than the peer
};

/// Which updates must be there before a peer goes on?
///
/// | expression          | result            | meaning |
/// |---------------------|-------------------|---------|
/// | `G::kept`           | `keeping`         | constant |
/// | `G::bounds_gap`     | `bool`            | constant: whether a peer waits for each neighbor sooner or later, so that none can be left behind for ever |
/// | `G::outlives_loss`  | `bool`            | constant: whether the run goes on without a neighbor that is lost |
/// | `g.needed(n)`       | `std::size_t`     | of n updates, the peer's own included, how many it waits for; 1 … n |
/// | `g.oldest(k)`       | `iteration_index` | the oldest update that will do in iteration k; k itself where `kept` is `by_iteration` |
///
/// The answers depend on nothing but the arguments, and do not fall as these grow. An answer of
/// `needed` outside of 1 … n for some node of the graph is an error before anything starts; as
/// neighbors are lost, it is taken as 1 at least.
/// Models: `gather_all`, `gather_all_but`, `gather_newest`, `gather_hybrid`. Source: 002 §3.4, §3.5.
template <class G>
concept gather_policy = std::copyable<G> && requires(G const g, std::size_t n, iteration_index k) {
  { G::kept } -> std::convertible_to<keeping>;
  { std::bool_constant<G::bounds_gap>{} };
  { std::bool_constant<G::outlives_loss>{} };
  { g.needed(n) } noexcept -> std::same_as<std::size_t>;
  { g.oldest(k) } noexcept -> std::same_as<iteration_index>;
};

/// What a reduce is told about an update that it counts.
struct update_info {
  worker_id from;  ///< the peer that sent it
  worker_id to;            ///< the peer that reduces; `from` where the update is its own
  iteration_index made;    ///< Iter(u): the iteration in which it was sent
  iteration_index now;     ///< k: the iteration of the peer that reduces
  iteration_index oldest;  ///< the oldest that will do, k − s
  double mixing = 1;       ///< W_ij
};

/// What does an update count in the average?
///
/// | expression        | result   | meaning |
/// |-------------------|----------|---------|
/// | `r.weight(info)`  | `double` | 0 or more; what it counts beside the other updates of this reduce |
///
/// Weights are divided by their sum, unless that is 1 but for rounding: so the weights of a whole
/// neighborhood stay exactly as the mixing matrix has them. The peer's own update always takes part;
/// its weight must be above 0.
/// Models: `reduce_by_mixing`, `reduce_by_age`, `reduce_plainly`. Source: 002 Eq. 1, Eq. 2.
template <class R>
concept reduce_policy = std::copyable<R> && requires(R const r, update_info info) {
  { r.weight(info) } noexcept -> std::same_as<double>;
};

/// How far may a peer run ahead of a neighbor that it sends to?
///
/// | expression     | result         | meaning |
/// |----------------|----------------|---------|
/// | `G::acks`      | `bool`         | constant: the next update waits for the acknowledgement of the last one |
/// | `G::tokens`    | `bool`         | constant: entering an iteration takes a token from each out-neighbor |
/// | `g.gap_max()`  | `std::int64_t` | where there are tokens: max_ig, at least 1 |
///
/// Models: `free_gap`, `notify_ack`, `token_queues`. Source: 002 §3.3, §4.2.
template <class G>
concept gap_policy = std::copyable<G> && requires(G const g) {
  { std::bool_constant<G::acks>{} };
  { std::bool_constant<G::tokens>{} };
  requires !G::tokens || requires { { g.gap_max() } noexcept -> std::same_as<std::int64_t>; };
};

/// Does a peer that lags behind leave iterations out?
///
/// | expression      | result         | meaning |
/// |-----------------|----------------|---------|
/// | `J::jumps`      | `bool`         | constant |
/// | `j.jump(lag)`   | `std::int64_t` | how many iterations to go forward at once, for a peer whose slowest out-neighbor is `lag` ≥ 2 ahead; 1 or less: as usual |
///
/// Whatever it answers, nobody passes its slowest out-neighbor or the last iteration. One that has
/// options may have `j.check()`, which throws `option_error` before anything starts.
/// Models: `no_jump`, `bounded_jump`. Source: 002 §5.
template <class J>
concept jump_policy = std::copyable<J> && requires(J const j, std::int64_t lag) {
  { std::bool_constant<J::jumps>{} };
  requires !J::jumps || requires { { j.jump(lag) } noexcept -> std::same_as<std::int64_t>; };
};

/// When is the gradient applied? Source: 002 §3.2.
enum class iteration_order {
  parallel,  ///< send x_k, compute at x_k, reduce, apply: computing and sending overlap
  serial,    ///< compute, apply, send, reduce: the gradient fits the parameters it is applied to
};

/// A decentralized protocol of the Hop family: a gather, a reduce, a gap, a jump and an order. Made by
/// `hop`.
template <class P>
concept hop_protocol = std::copyable<P> && requires(P const p) {
  { p.gather() } -> gather_policy;
  { p.reduce() } -> reduce_policy;
  { p.gap() } -> gap_policy;
  { p.jump() } -> jump_policy;
  { p.order() } -> std::same_as<iteration_order>;
};

// ---- graphs that change

/// Whom does a peer send to in an iteration, and who sends to it, where that changes from one to the next?
///
/// | expression       | result                   | meaning |
/// |------------------|--------------------------|---------|
/// | `s.out(g, i, k)` | `std::vector<worker_id>` | whom node i of g sends to in iteration k: others than i, ascending, each once |
/// | `s.in(g, j, k)`  | the same                 | who sends to j in iteration k |
/// | `s.text()`       | `std::string`            | what it is, with its options, in words: peers that differ in it do not train together |
/// | `s.check()`      | `void`                   | if there is one: throws `option_error` for options that cannot be meant |
/// | `s.partners(g, i)` | `std::vector<worker_id>` | if there is one: others that i sends to or hears from in any iteration, ascending, each once; else all may be |
///
/// Who ends tells its partners only. All peers answer all questions alike, without a word between them: what is random comes from a seed that is an
/// option of the schedule. j is one of `out(g, i, k)` exactly where i is one of `in(g, j, k)`. Nothing else is asked
/// for: edges may be directed, go beyond those of g, and need not reach everybody in one iteration.
/// Models: `one_peer_exponential`, `every_neighbor`, `random_partner`, `random_groups`.
/// Source: Assran et al., ICML 2019 (time-varying, directed mixing).
template <class S>
concept exchange_schedule = std::copyable<S> && requires(S const s, graph const& g, worker_id i, iteration_index k) {
  { s.out(g, i, k) } -> std::same_as<std::vector<worker_id>>;
  { s.in(g, i, k) } -> std::same_as<std::vector<worker_id>>;
  { s.text() } -> std::same_as<std::string>;
};

/// How a peer treats the updates of a schedule. Whoever sends to d others keeps a share of its weight, and gives
/// each of them one of d + 1 equal ones: weights of a sender add up to 1, those of a receiver need not, so that
/// weights travel with updates (push-sum).
enum class exchange_pace {
  in_step,  ///< waits for those who send to it in this iteration, or some iterations before
  free,     ///< waits for nobody: takes what comes when it comes
};

}  // namespace rubato
