// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/peer/graph.hpp"

namespace Eigen {
template <class Scalar, int Rows, int Columns, int Options, int MaxRows, int MaxColumns>
class Matrix;
}  // namespace Eigen

namespace rubato {

/// The weights W of a graph's edges: W(i, j) is the influence of i's update at j, so column j
/// belongs to the receiver and j reduces to the sum of W(i, j) u_i over N_in(j), itself included.
///
/// Every one but `push` is doubly stochastic: its rows and its columns sum to 1, up to 1e-9. Decentralized
/// training needs that to find the same minimum as training in one place, unless weights travel with
/// updates, as with `push_sum`.
///
/// Immutable; any number of threads may read one object. Memory and copying: O(size + edges).
///
/// Source: 002 §3.1.
class mixing_matrix {
 public:
  /// `Eigen::MatrixXd`; who uses one includes `<Eigen/Core>`.
  using matrix = Eigen::Matrix<double, -1, -1, 0, -1, -1>;

  /// Every update counts the same: W(i, j) = 1/|N_in(j)| (002 Eq. 1).
  /// @throws option_error where that is not doubly stochastic, as on many graphs that are not
  ///   regular; the sentence names a row, its sum and the way out
  [[nodiscard]] static mixing_matrix uniform(graph const& on);

  /// W(i, j) = 1/(1 + max(degree of i, degree of j)) on the edges, and W(i, i) what is left: doubly
  /// stochastic and symmetric on every undirected graph.
  /// @throws option_error if the graph is directed; the sentence names an edge without a reverse
  [[nodiscard]] static mixing_matrix metropolis(graph const& on);

  /// The caller's weights.
  /// @param weights one row and column per node: > 0 on the edges, ≥ 0 on the diagonal, 0 elsewhere
  /// @throws option_error that names the first entry, row or column that is wrong, and its value
  [[nodiscard]] static mixing_matrix given(graph const& on, matrix const& weights);

  /// `uniform` where that is doubly stochastic, else `metropolis` if the graph is undirected.
  /// @throws option_error otherwise, as `uniform` does
  [[nodiscard]] static mixing_matrix automatic(graph const& on);

  /// What a sender gives away: W(i, j) = 1/(|N_out(i)|), itself included, whatever the degrees. Rows sum to 1,
  /// columns need not: for protocols in which weights travel with updates (`push_sum`, `gossip`), on any graph.
  [[nodiscard]] static mixing_matrix push(graph const& on);

  /// The graph whose edges are weighted.
  [[nodiscard]] graph const& topology() const noexcept { return graph_; }
  /// "uniform", "metropolis", "given" or "push".
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

  /// Whether rows and columns sum to 1: of all but `push`, and there on regular graphs.
  [[nodiscard]] bool is_doubly_stochastic() const noexcept { return doubly_stochastic_; }
  /// W(j, j): what j's own update counts at j. O(1).
  /// @throws option_error if the graph has no node j; `of` does, too
  [[nodiscard]] double self(worker_id j) const;
  /// What the others' updates count at j: one weight for each of `topology().in(j)`, in its order.
  /// Valid as long as this object. O(1).
  [[nodiscard]] std::span<double const> of(worker_id j) const;

  /// W with all its zeros: memory grows with the square of the nodes.
  [[nodiscard]] matrix dense() const;

  /// |λ1| − |λ2| of the two eigenvalues of W of largest norm (002 §7.3.6): between 0 and 1, the
  /// larger, the fewer iterations until news reach everybody. 1 for a single node.
  ///
  /// O(n³) time and O(n²) memory: for 1,000 nodes some tenths of a second where W is symmetric, and
  /// some seconds elsewhere.
  [[nodiscard]] double spectral_gap() const;

 private:
  mixing_matrix(graph const& on, std::string_view name);
  static mixing_matrix uniform_unchecked(graph const& on);

  graph graph_;
  std::string_view name_;  // a literal
  bool doubly_stochastic_ = true;
  std::vector<double> self_;
  std::vector<std::size_t> first_;  // of(j) begins at weights_[first_[j]]
  std::vector<double> weights_;
};

/// The graph of a weight matrix: an edge from i to j wherever weights(i, j) is not 0, i ≠ j. Goes
/// before `mixing_matrix::given`, which checks the weights themselves.
/// @throws option_error if `weights` is not square or what the constructor of `graph` rejects
[[nodiscard]] graph graph_of(mixing_matrix::matrix const& weights);

}  // namespace rubato
