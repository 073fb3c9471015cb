// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "rubato/peer/concepts.hpp"
#include "rubato/peer/gap.hpp"
#include "rubato/peer/gather.hpp"
#include "rubato/peer/hop_rules.hpp"
#include "rubato/peer/peer_node.hpp"
#include "rubato/peer/jump.hpp"
#include "rubato/peer/reduce.hpp"

namespace rubato {

/// A node of the Hop family. @throws option_error for what cannot be meant at its place in the graph
[[nodiscard]] std::unique_ptr<peer_node> make_hop_node(hop_rules protocol, node_setup const& setup);

/// A Hop protocol put together from its parts; `hop` leaves out what is usual.
template <gather_policy Gather, reduce_policy Reduce, gap_policy Gap, jump_policy Jump>
class composed_hop {
  // First, because it says what to do where the next ones hold too.
  static_assert(!Gap::acks || (Gather::bounds_gap && Gather::kept == keeping::by_iteration),
                "hop: notify_ack holds a peer back until each neighbor has caught up, so only "
                "gather_all goes with it (002 sections 3.4 and 3.5); take token_queues");
  static_assert(Gather::bounds_gap || Gap::tokens,
                "hop: with backup workers nothing bounds the gap between neighbors, so updates would "
                "pile up: add token_queues (002 section 4.3)");
  static_assert(Gap::tokens || Gap::acks || !Gather::outlives_loss || Gather::kept == keeping::newest,
                "hop: once a peer is lost nothing bounds by how far a sender leads, so the slots may run "
                "out: add token_queues");
  static_assert(!Jump::jumps || Gap::tokens,
                "hop: a peer knows from its tokens how far it lags: bounded_jump needs token_queues "
                "(002 section 5)");
  static_assert(!Jump::jumps || !Gather::bounds_gap || Gather::kept == keeping::newest,
                "hop: with gather_all every update is waited for, those of iterations that a neighbor "
                "leaves out as well: bounded_jump needs backup workers or bounded staleness");

 public:
  /// As `hop` makes it, which also checks that the parts go together.
  constexpr composed_hop(Gather gather, Reduce reduce, Gap gap, Jump jump, iteration_order order)
      : gather_(std::move(gather)),
        reduce_(std::move(reduce)),
        gap_(std::move(gap)),
        jump_(std::move(jump)),
        order_(order) {}

  [[nodiscard]] constexpr Gather gather() const { return gather_; }
  [[nodiscard]] constexpr Reduce reduce() const { return reduce_; }
  [[nodiscard]] constexpr Gap gap() const { return gap_; }
  [[nodiscard]] constexpr Jump jump() const { return jump_; }
  [[nodiscard]] constexpr iteration_order order() const noexcept { return order_; }
  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return make_hop_node(*this, setup);
  }

 private:
  [[no_unique_address]] Gather gather_;
  [[no_unique_address]] Reduce reduce_;
  [[no_unique_address]] Gap gap_;
  [[no_unique_address]] Jump jump_;
  iteration_order order_;
};

namespace detail {

template <class Part>
inline constexpr bool is_hop_part =
    gather_policy<Part> || reduce_policy<Part> || gap_policy<Part> || jump_policy<Part> ||
    std::is_same_v<Part, iteration_order>;

/// The one of `parts` for which `Wanted` says so; what `usual` gives when there is none.
template <class Wanted, class Usual>
constexpr auto pick_part(Wanted, Usual usual) {
  return usual;
}
template <class Wanted, class Usual, class First, class... Rest>
constexpr auto pick_part(Wanted wanted, Usual usual, First first, Rest... rest) {
  if constexpr (decltype(wanted(first))::value) {
    static_assert((!decltype(wanted(rest))::value && ...), "hop: two parts of one kind");
    return first;
  } else {
    return pick_part(wanted, usual, rest...);
  }
}

}  // namespace detail

/// A Hop protocol of the parts given, in any order: a gather, a reduce, a gap, a jump and an
/// `iteration_order`. What is left out is usual: `gather_all`; `reduce_by_mixing`, where the newest
/// updates are kept `reduce_by_age`; `free_gap`; `no_jump`; `iteration_order::parallel`.
///
///     hop()                                                   // standard decentralized training
///     hop(gather_all_but{.backups = 1}, token_queues{8})      // backup workers
///     hop(gather_newest{.staleness = 5}, token_queues{8}, bounded_jump{})
///
/// What cannot work together does not compile, and says why.
/// Source: "Hop: Heterogeneity-aware Decentralized Training", ASPLOS '19 (002).
template <class... Parts>
[[nodiscard]] constexpr auto hop(Parts... parts) {
  static_assert((detail::is_hop_part<Parts> && ...),
                "hop: a part must model gather_policy, reduce_policy, gap_policy or jump_policy, or "
                "be an iteration_order");
  auto const gather = detail::pick_part(
      []<class P>(P const&) { return std::bool_constant<gather_policy<P>>{}; }, gather_all{}, parts...);
  using usual_reduce =
      std::conditional_t<decltype(gather)::kept == keeping::newest, reduce_by_age, reduce_by_mixing>;
  auto const reduce = detail::pick_part(
      []<class P>(P const&) { return std::bool_constant<reduce_policy<P>>{}; }, usual_reduce{}, parts...);
  auto const gap = detail::pick_part(
      []<class P>(P const&) { return std::bool_constant<gap_policy<P>>{}; }, free_gap{}, parts...);
  auto const jump = detail::pick_part(
      []<class P>(P const&) { return std::bool_constant<jump_policy<P>>{}; }, no_jump{}, parts...);
  auto const order = detail::pick_part(
      []<class P>(P const&) { return std::is_same<P, iteration_order>{}; }, iteration_order::parallel,
      parts...);
  return composed_hop{gather, reduce, gap, jump, order};
}
static_assert(hop_protocol<decltype(hop())> && peer_protocol<decltype(hop())>);

}  // namespace rubato
