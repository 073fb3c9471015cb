// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rubato/peer/graph.hpp"

/// Well-known graphs. `parse_graph(g.name(), g.size())` makes each of them again.
///
/// All but `directed_ring` and `exponential` are undirected. All work from n = 1 on, except where
/// something else is said; where two edges coincide because n is small, there is one.
///
/// All throw `option_error` for 0 nodes, and for more than 2^20 nodes or 2^22 edges: a slip of the
/// keyboard must not eat the machine's memory. Time and memory: O(nodes + edges), times a log.
namespace rubato {

/// Node i is joined to i − 1 and i + 1. Source: 002 Fig. 11 (1).
[[nodiscard]] graph ring(std::uint32_t n);

/// Node i sends to i + 1 mod n.
[[nodiscard]] graph directed_ring(std::uint32_t n);

/// The ring, and every node is joined to the most distant one too, which is i + n/2 mod n. If n is
/// odd, two are equally distant, i ± (n − 1)/2, and it is joined to both: so the graph stays
/// undirected and regular. Source: 002 Fig. 11 (2).
[[nodiscard]] graph ring_based(std::uint32_t n);

/// Two ring-based graphs of n/2 nodes, joined node to node: i to i + n/2.
/// @param n even, else `option_error`. Source: 002 Fig. 11 (3).
[[nodiscard]] graph double_ring(std::uint32_t n);

/// Everybody is joined to everybody else: all-reduce.
[[nodiscard]] graph complete(std::uint32_t n);

/// Node r·columns + c is joined to its neighbors in row and column; the borders are not joined.
[[nodiscard]] graph grid(std::uint32_t rows, std::uint32_t columns);

/// Node 0 is joined to all others.
[[nodiscard]] graph star(std::uint32_t n);

/// Node i sends to i + 2^k mod n for all 2^k < n.
[[nodiscard]] graph exponential(std::uint32_t n);

/// A complete graph within each machine and a ring between the machines, in which one leader, the
/// machine's first node, stands for each. Nodes are numbered machine by machine.
///
/// After 002 Fig. 21 (b), of which the text only says that an all-reduce graph is used within a
/// machine and a ring between machines (§7.3.6); its drawing and its weights are not in the text.
///
/// @param nodes_per_machine at least one machine, each with at least one node, else `option_error`
[[nodiscard]] graph hierarchical(std::vector<std::uint32_t> const& nodes_per_machine);

/// As `hierarchical`, but a machine's two links of the ring leave from two of its nodes where it
/// has two: the one to the machine before from its first node, the one to the next from its last.
/// Two machines are joined by both links. After 002 Fig. 21 (c), with the same reservation.
[[nodiscard]] graph hierarchical_two(std::vector<std::uint32_t> const& nodes_per_machine);

/// The graph that a command line asks for: one of `graph_names()`.
///
/// `grid` without numbers is as square as `nodes` allows: a line if that is a prime. The sizes of
/// the other forms with numbers must come to `nodes`.
///
/// @throws option_error if the name is unknown (the sentence lists all), a number is malformed, or
///   the graph cannot have `nodes` nodes
[[nodiscard]] graph parse_graph(std::string_view spec, std::uint32_t nodes);

/// What `parse_graph` takes, for a help text: "ring, ring-based, …, grid:RxC, …".
[[nodiscard]] std::string graph_names();

}  // namespace rubato
