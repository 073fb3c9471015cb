// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/peer/graph.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "rubato/core/error.hpp"

namespace rubato {
namespace {

constexpr std::uint32_t unreached = std::numeric_limits<std::uint32_t>::max();

// Breadth first from `start`, where neighbors(i) are the nodes one step from i.
template <class Neighbors>
std::vector<std::uint32_t> steps_from(worker_id start, std::uint32_t size, Neighbors neighbors) {
  std::vector<std::uint32_t> steps(size, unreached);
  std::vector<worker_id> found{start};
  found.reserve(size);
  steps[start.index()] = 0;
  for (std::size_t next = 0; next < found.size(); ++next) {
    worker_id const here = found[next];
    for (worker_id const there : neighbors(here)) {
      if (steps[there.index()] != unreached) continue;
      steps[there.index()] = steps[here.index()] + 1;
      found.push_back(there);
    }
  }
  return steps;
}

void require_node_count(std::size_t nodes, std::string const& name) {
  constexpr std::size_t nodes_max = unreached;
  if (nodes >= 1 && nodes <= nodes_max) return;
  throw option_error(fmt::format("graph {}: must have between 1 and {} nodes, but has {}", name,
                                 nodes_max, nodes));
}

// Sorts the neighbors of `node` and takes out the node itself.
void normalize(std::vector<worker_id>& neighbors, worker_id node, std::size_t nodes,
               std::string const& name) {
  std::sort(neighbors.begin(), neighbors.end());
  if (!neighbors.empty() && neighbors.back().index() >= nodes) {
    throw option_error(
        fmt::format("graph {}: node {} has an edge to node {}, but nodes go from 0 to {}", name,
                    node.value(), neighbors.back().value(), nodes - 1));
  }
  auto const twice = std::adjacent_find(neighbors.begin(), neighbors.end());
  if (twice != neighbors.end()) {
    throw option_error(
        fmt::format("graph {}: the edge from node {} to node {} must be listed once, but is twice",
                    name, node.value(), twice->value()));
  }
  std::erase(neighbors, node);
}

}  // namespace

graph::graph(std::vector<std::vector<worker_id>> out_neighbors, std::string name) {
  require_node_count(out_neighbors.size(), name);
  auto const size = static_cast<std::uint32_t>(out_neighbors.size());
  rows out = rows_of(out_neighbors, name);
  rows in = reversed(out);
  edges_ = std::make_shared<storage const>(
      storage{std::move(name), size, std::move(out), std::move(in)});
  require_strongly_connected();
}

graph graph::from_numbers(std::vector<std::vector<std::uint32_t>> const& out_neighbors,
                          std::string name) {
  std::vector<std::vector<worker_id>> ids;
  ids.reserve(out_neighbors.size());
  for (auto const& numbers : out_neighbors) ids.emplace_back(numbers.begin(), numbers.end());
  return graph(std::move(ids), std::move(name));
}

graph::rows graph::rows_of(std::vector<std::vector<worker_id>>& out_neighbors,
                           std::string const& name) {
  rows result;
  result.first.reserve(out_neighbors.size() + 1);
  result.first.push_back(0);
  for (std::size_t i = 0; i < out_neighbors.size(); ++i) {
    auto& neighbors = out_neighbors[i];
    normalize(neighbors, worker_id(static_cast<std::uint32_t>(i)), out_neighbors.size(), name);
    result.targets.insert(result.targets.end(), neighbors.begin(), neighbors.end());
    result.first.push_back(result.targets.size());
  }
  return result;
}

graph::rows graph::reversed(rows const& forward) {
  rows result{std::vector<std::size_t>(forward.first.size()),
              std::vector<worker_id>(forward.targets.size())};
  for (worker_id const target : forward.targets) ++result.first[target.index() + 1];
  for (std::size_t i = 1; i < result.first.size(); ++i) result.first[i] += result.first[i - 1];
  std::vector<std::size_t> free = result.first;
  // The sources come in ascending order, so each row of the result does.
  for (std::size_t i = 0; i + 1 < forward.first.size(); ++i) {
    worker_id const source(static_cast<std::uint32_t>(i));
    for (worker_id const target : forward.of(source)) {
      result.targets[free[target.index()]++] = source;
    }
  }
  return result;
}

void graph::rows::throw_no_such_node(worker_id node) const {
  throw option_error(
      fmt::format("a graph with nodes 0 to {} has no node {}", first.size() - 2, node.value()));
}

void graph::require_strongly_connected() const {
  // If node 0 reaches everybody and everybody reaches node 0, each reaches each by way of it.
  worker_id const zero(0);
  auto const require_all = [&](std::vector<std::uint32_t> const& steps, bool forward) {
    auto const lost = std::find(steps.begin(), steps.end(), unreached);
    if (lost == steps.end()) return;
    auto const node = lost - steps.begin();
    throw option_error(fmt::format(
        "graph {}: must be strongly connected, but node {} cannot be reached from node {}", name(),
        forward ? node : 0, forward ? 0 : node));
  };
  require_all(distances_from(zero), true);
  require_all(steps_from(zero, size(), [&](worker_id i) { return in(i); }), false);
}

bool graph::has_edge(worker_id from, worker_id to) const {
  static_cast<void>(in(to));  // rejects a node that is none
  auto const neighbors = out(from);
  return std::binary_search(neighbors.begin(), neighbors.end(), to);
}

bool graph::undirected() const {
  return edges_->out.first == edges_->in.first && edges_->out.targets == edges_->in.targets;
}

bool graph::regular() const {
  for (std::uint32_t i = 1; i < size(); ++i) {
    if (in(worker_id(i)).size() != in(worker_id(0)).size()) return false;
    if (out(worker_id(i)).size() != out(worker_id(0)).size()) return false;
  }
  return true;
}

std::vector<std::uint32_t> graph::distances_from(worker_id from) const {
  static_cast<void>(out(from));  // rejects a node that is none
  return steps_from(from, size(), [&](worker_id i) { return out(i); });
}

std::uint32_t graph::distance(worker_id from, worker_id to) const {
  static_cast<void>(in(to));  // rejects a node that is none
  return distances_from(from)[to.index()];
}

std::optional<std::vector<bool>> graph::two_coloring() const {
  // Along an edge of a bipartite graph the parity of the distance from node 0 flips, whatever its
  // direction; and where it flips along every edge, the parities are the coloring.
  auto const steps = distances_from(worker_id(0));
  std::vector<bool> odd(size());
  for (std::size_t i = 0; i < steps.size(); ++i) odd[i] = steps[i] % 2 == 1;
  for (std::uint32_t i = 0; i < size(); ++i) {
    for (worker_id const j : out(worker_id(i))) {
      if (odd[i] == odd[j.index()]) return std::nullopt;
    }
  }
  return odd;
}

}  // namespace rubato
