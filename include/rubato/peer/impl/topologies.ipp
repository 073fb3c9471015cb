// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/peer/topologies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include "rubato/core/error.hpp"

namespace rubato {
namespace {

constexpr std::uint64_t nodes_max = std::uint64_t{1} << 20;
constexpr std::uint64_t edges_max = std::uint64_t{1} << 22;

// Collects the edges of a graph; those that coincide count once, those of a node to itself not.
class sketch {
 public:
  // `edges_most` bounds the edges to come. A product that overflows does no harm: it takes so many
  // nodes that they are rejected first.
  sketch(std::string name, std::uint64_t nodes, std::uint64_t edges_most) : name_(std::move(name)) {
    if (nodes < 1 || nodes > nodes_max) {
      throw option_error(fmt::format("graph {}: must have between 1 and {} nodes, but has {}",
                                     name_, nodes_max, nodes));
    }
    if (edges_most > edges_max) {
      throw option_error(fmt::format("graph {}: must have at most {} edges, but {} nodes make {}",
                                     name_, edges_max, nodes, edges_most));
    }
    out_.resize(nodes);
  }

  void arrow(std::uint64_t from, std::uint64_t to) {
    if (from != to) out_[from].emplace_back(static_cast<std::uint32_t>(to));
  }
  void join(std::uint64_t a, std::uint64_t b) {
    arrow(a, b);
    arrow(b, a);
  }

  // Edges between the `n` nodes from `first` on.
  void ring(std::uint64_t first, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) join(first + i, first + (i + 1) % n);
  }
  void ring_based(std::uint64_t first, std::uint64_t n) {
    ring(first, n);
    // For odd n this joins i to one of its two most distant nodes; that other one joins it to i.
    for (std::uint64_t i = 0; i < n; ++i) join(first + i, first + (i + n / 2) % n);
  }
  void complete(std::uint64_t first, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t j = 0; j < i; ++j) join(first + i, first + j);
    }
  }

  [[nodiscard]] graph done() && {
    for (auto& neighbors : out_) {
      std::sort(neighbors.begin(), neighbors.end());
      neighbors.erase(std::unique(neighbors.begin(), neighbors.end()), neighbors.end());
    }
    return graph(std::move(out_), std::move(name_));
  }

 private:
  std::string name_;
  std::vector<std::vector<worker_id>> out_;
};

// The nodes of one machine: the first and how many.
struct machine {
  std::uint64_t first;
  std::uint64_t nodes;

  [[nodiscard]] std::uint64_t last() const { return first + nodes - 1; }
};

std::vector<machine> machines_of(std::vector<std::uint32_t> const& nodes_per_machine,
                                 std::string_view kind) {
  std::vector<machine> machines;
  std::uint64_t first = 0;
  for (std::uint32_t const nodes : nodes_per_machine) {
    if (nodes == 0) {
      throw option_error(fmt::format("graph {}: machine {} must have at least 1 node, but has 0",
                                     kind, machines.size()));
    }
    machines.push_back({first, nodes});
    first += nodes;
  }
  if (machines.empty()) {
    throw option_error(fmt::format("graph {}: must have at least 1 machine, but has 0", kind));
  }
  return machines;
}

// `to_next(m)` is the node of machine m that is joined to the first node of the next machine.
template <class ToNext>
graph ring_of_machines(std::string_view kind, std::vector<std::uint32_t> const& nodes_per_machine,
                       ToNext to_next) {
  std::vector<machine> const machines = machines_of(nodes_per_machine, kind);
  std::uint64_t const nodes = machines.back().last() + 1;
  std::uint64_t edges = 2 * machines.size();
  for (machine const& m : machines) edges += m.nodes * (m.nodes - 1);
  sketch all(fmt::format("{}:{}", kind, fmt::join(nodes_per_machine, ",")), nodes, edges);
  for (machine const& m : machines) all.complete(m.first, m.nodes);
  for (std::size_t i = 0; i < machines.size(); ++i) {
    // A single machine is its own next one: that adds no edge which is not there.
    all.join(to_next(machines[i]), machines[(i + 1) % machines.size()].first);
  }
  return std::move(all).done();
}

}  // namespace

graph ring(std::uint32_t n) {
  sketch all("ring", n, std::uint64_t{n} * 2);
  all.ring(0, n);
  return std::move(all).done();
}

graph directed_ring(std::uint32_t n) {
  sketch all("directed-ring", n, n);
  for (std::uint64_t i = 0; i < n; ++i) all.arrow(i, (i + 1) % n);
  return std::move(all).done();
}

graph ring_based(std::uint32_t n) {
  sketch all("ring-based", n, std::uint64_t{n} * 4);
  all.ring_based(0, n);
  return std::move(all).done();
}

graph double_ring(std::uint32_t n) {
  if (n % 2 != 0) {
    throw option_error(
        fmt::format("graph double-ring: must have an even number of nodes, but has {}", n));
  }
  std::uint64_t const half = n / 2;
  sketch all("double-ring", n, std::uint64_t{n} * (4 + half % 2));
  all.ring_based(0, half);
  all.ring_based(half, half);
  for (std::uint64_t i = 0; i < half; ++i) all.join(i, half + i);
  return std::move(all).done();
}

graph complete(std::uint32_t n) {
  sketch all("complete", n, std::uint64_t{n} * (std::uint64_t{n} - 1));
  all.complete(0, n);
  return std::move(all).done();
}

graph grid(std::uint32_t rows, std::uint32_t columns) {
  std::uint64_t const nodes = std::uint64_t{rows} * columns;
  sketch all(fmt::format("grid:{}x{}", rows, columns), nodes, nodes * 4);
  for (std::uint64_t i = 0; i < nodes; ++i) {
    if ((i + 1) % columns != 0) all.join(i, i + 1);
    if (i + columns < nodes) all.join(i, i + columns);
  }
  return std::move(all).done();
}

graph star(std::uint32_t n) {
  sketch all("star", n, std::uint64_t{n} * 2);
  for (std::uint64_t i = 1; i < n; ++i) all.join(0, i);
  return std::move(all).done();
}

graph exponential(std::uint32_t n) {
  auto const degree = static_cast<std::uint64_t>(std::bit_width(n == 0 ? 0 : n - 1));
  sketch all("exponential", n, n * degree);
  for (std::uint64_t i = 0; i < n; ++i) {
    for (std::uint64_t step = 1; step < n; step *= 2) all.arrow(i, (i + step) % n);
  }
  return std::move(all).done();
}

graph hierarchical(std::vector<std::uint32_t> const& nodes_per_machine) {
  return ring_of_machines("hierarchical", nodes_per_machine,
                          [](machine const& m) { return m.first; });
}

graph hierarchical_two(std::vector<std::uint32_t> const& nodes_per_machine) {
  return ring_of_machines("hierarchical-two", nodes_per_machine,
                          [](machine const& m) { return m.last(); });
}

namespace {

// What was typed, fit for a message: of bounded length and without what a terminal obeys.
std::string quoted(std::string_view typed) {
  constexpr std::size_t most = 60;
  std::string text(typed.substr(0, most));
  for (char& c : text) c = c >= ' ' && c <= '~' ? c : '?';
  return '"' + text + (typed.size() > most ? "..." : "") + '"';
}

std::uint32_t parse_number(std::string_view digits, std::string_view spec) {
  std::uint32_t value = 0;
  char const* const end = digits.data() + digits.size();
  auto const [stop, failure] = std::from_chars(digits.data(), end, value);
  if (failure == std::errc{} && stop == end && value >= 1) return value;
  throw option_error(fmt::format("graph {}: {} must be a whole number between 1 and 4294967295",
                                 quoted(spec), quoted(digits)));
}

void require_total(std::uint64_t total, std::uint32_t nodes, std::string_view spec) {
  if (total == nodes) return;
  throw option_error(
      fmt::format("graph {}: must have as many nodes as there are workers, {}, but has {}",
                  quoted(spec), nodes, total));
}

graph parse_grid(std::string_view size, std::string_view spec, std::uint32_t nodes) {
  std::size_t const cross = size.find('x');
  if (cross == std::string_view::npos) {
    throw option_error(
        fmt::format("graph {}: the size of a grid must read ROWSxCOLUMNS", quoted(spec)));
  }
  std::uint32_t const rows = parse_number(size.substr(0, cross), spec);
  std::uint32_t const columns = parse_number(size.substr(cross + 1), spec);
  require_total(std::uint64_t{rows} * columns, nodes, spec);
  return grid(rows, columns);
}

graph squarest_grid(std::uint32_t nodes) {
  std::uint32_t rows = 1;
  for (std::uint32_t i = 2; std::uint64_t{i} * i <= nodes; ++i) rows = nodes % i == 0 ? i : rows;
  return grid(rows, nodes / rows);
}

std::vector<std::uint32_t> parse_machines(std::string_view list, std::string_view spec,
                                          std::uint32_t nodes) {
  std::vector<std::uint32_t> machines;
  std::uint64_t total = 0;
  for (bool more = true; more;) {
    std::size_t const comma = list.find(',');
    more = comma != std::string_view::npos;
    machines.push_back(parse_number(list.substr(0, comma), spec));
    total += machines.back();
    if (more) list.remove_prefix(comma + 1);
  }
  require_total(total, nodes, spec);
  return machines;
}

struct plain_kind {
  std::string_view name;
  graph (*make)(std::uint32_t nodes);
};

constexpr std::array<plain_kind, 8> plain_kinds = {{{"ring", ring},
                                                    {"ring-based", ring_based},
                                                    {"double-ring", double_ring},
                                                    {"directed-ring", directed_ring},
                                                    {"complete", complete},
                                                    {"star", star},
                                                    {"exponential", exponential},
                                                    {"grid", squarest_grid}}};

}  // namespace

graph parse_graph(std::string_view spec, std::uint32_t nodes) {
  for (plain_kind const& kind : plain_kinds) {
    if (spec == kind.name) return kind.make(nodes);
  }
  std::size_t const colon = spec.find(':');
  if (colon != std::string_view::npos) {
    std::string_view const kind = spec.substr(0, colon);
    std::string_view const size = spec.substr(colon + 1);
    if (kind == "grid") return parse_grid(size, spec, nodes);
    if (kind == "hierarchical") return hierarchical(parse_machines(size, spec, nodes));
    if (kind == "hierarchical-two") return hierarchical_two(parse_machines(size, spec, nodes));
  }
  throw option_error(
      fmt::format("there is no graph {}; give one of {}", quoted(spec), graph_names()));
}

std::string graph_names() {
  std::string names;
  for (plain_kind const& kind : plain_kinds) names += fmt::format("{}, ", kind.name);
  return names + "grid:ROWSxCOLUMNS, hierarchical:N,N,..., hierarchical-two:N,N,...";
}

}  // namespace rubato
