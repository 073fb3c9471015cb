// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/ids.hpp"

namespace rubato {

/// Who sends updates to whom: a directed, strongly connected graph of the workers 0 … size() − 1.
///
/// An edge (i, j) says that i sends to j. Every node is its own neighbor as well; that edge is
/// understood and never stored, so the |N_in(i)| of the paper is `in(i).size() + 1`.
///
/// Every member that takes a node throws `option_error` if the graph has none of that number.
///
/// Immutable. A copy shares the edges and costs one reference count, so pass it by value; of a
/// moved-from graph nothing but assignment and destruction is allowed. Any number of threads may
/// use one object or its copies. Memory: O(size() + edges()).
///
/// @code
/// graph const triangle(std::vector<std::vector<worker_id>>{
///     {worker_id(1)}, {worker_id(2)}, {worker_id(0)}}, "triangle");
/// graph const same = graph::from_numbers({{1}, {2}, {0}}, "triangle");
/// @endcode
///
/// Source: 002 §3.1.
class graph {
 public:
  /// @param out_neighbors whom node i sends to, for each i, in any order; may name i itself
  /// @param name what reports and messages call the graph
  /// @throws option_error if there is no node, if an edge leads to a node that does not exist or is
  ///   listed twice, or if some node cannot be reached from another; the sentence names the nodes
  ///
  /// O((size() + edges()) log of the largest degree).
  explicit graph(std::vector<std::vector<worker_id>> out_neighbors, std::string name = "custom");

  /// The same from bare numbers.
  [[nodiscard]] static graph from_numbers(
      std::vector<std::vector<std::uint32_t>> const& out_neighbors, std::string name = "custom");

  /// The number of nodes; at least 1.
  [[nodiscard]] std::uint32_t size() const noexcept { return edges_->size; }
  /// The number of edges: an undirected one counts as two, a node's own not at all.
  [[nodiscard]] std::size_t edges() const noexcept { return edges_->out.targets.size(); }
  /// What reports and messages call it.
  [[nodiscard]] std::string const& name() const noexcept { return edges_->name; }

  /// Who sends to `node`, ascending, without `node` itself. Valid as long as any copy lives. O(1).
  [[nodiscard]] std::span<worker_id const> in(worker_id node) const { return edges_->in.of(node); }
  /// Whom `node` sends to, ascending, without `node` itself. Valid as long as any copy lives. O(1).
  [[nodiscard]] std::span<worker_id const> out(worker_id node) const {
    return edges_->out.of(node);
  }

  /// Whether `to` is one of `out(from)`: so no node has an edge to itself. O(log degree).
  [[nodiscard]] bool has_edge(worker_id from, worker_id to) const;
  /// Whether every edge has its reverse. O(size() + edges()).
  [[nodiscard]] bool undirected() const;
  /// Whether all nodes have as many in-neighbors, and as many out-neighbors, as node 0; the uniform
  /// weights of a regular graph are doubly stochastic (002 §3.1). O(size()).
  [[nodiscard]] bool regular() const;

  /// For each node the edges on a shortest directed path from `from`: d(from → i). It bounds how
  /// far workers come apart (002 §3.3). O(size() + edges()).
  [[nodiscard]] std::vector<std::uint32_t> distances_from(worker_id from) const;
  /// d(from → to); costs as much as `distances_from`.
  [[nodiscard]] std::uint32_t distance(worker_id from, worker_id to) const;

  /// Splits the nodes into two sides such that every edge, whatever its direction, leads from one
  /// to the other; node 0 is on side `false`. Nothing if the graph is not bipartite; then workers
  /// that average pairwise can deadlock (002 §5). O(size() + edges()).
  [[nodiscard]] std::optional<std::vector<bool>> two_coloring() const;

 private:
  // Compressed rows: the neighbors of i are targets[first[i]] … targets[first[i + 1] - 1].
  struct rows {
    std::vector<std::size_t> first;
    std::vector<worker_id> targets;

    [[nodiscard]] std::span<worker_id const> of(worker_id node) const {
      if (node.index() + 1 >= first.size()) throw_no_such_node(node);
      return std::span(targets).subspan(first[node.index()],
                                        first[node.index() + 1] - first[node.index()]);
    }
    [[noreturn]] void throw_no_such_node(worker_id node) const;
  };
  struct storage {
    std::string name;
    std::uint32_t size;
    rows out;
    rows in;
  };

  static rows rows_of(std::vector<std::vector<worker_id>>& out_neighbors, std::string const& name);
  static rows reversed(rows const& forward);
  void require_strongly_connected() const;

  std::shared_ptr<storage const> edges_;
};

}  // namespace rubato
