// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/peer/mixing.hpp"

#include <fmt/core.h>

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"

namespace rubato {
namespace {

constexpr double tolerance = 1e-9;

// A row or column of a matrix that does not sum to 1.
struct imbalance {
  std::string_view what;
  std::size_t number;
  double sum;
};

std::optional<imbalance> off_balance(std::string_view what, std::vector<double> const& sums) {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!(std::abs(sums[i] - 1) <= tolerance)) return imbalance{what, i, sums[i]};
  }
  return std::nullopt;
}

std::optional<imbalance> first_imbalance(mixing_matrix const& w) {
  graph const& g = w.topology();
  std::vector<double> rows(g.size());
  std::vector<double> columns(g.size());
  for (std::uint32_t j = 0; j < g.size(); ++j) {
    rows[j] += w.self(worker_id(j));
    columns[j] += w.self(worker_id(j));
    auto const in = g.in(worker_id(j));
    auto const weights = w.of(worker_id(j));
    for (std::size_t k = 0; k < in.size(); ++k) {
      rows[in[k].index()] += weights[k];
      columns[j] += weights[k];
    }
  }
  std::optional<imbalance> const row = off_balance("row", rows);
  return row ? row : off_balance("column", columns);
}

[[noreturn]] void throw_not_uniform(graph const& on, imbalance const& bad) {
  throw option_error(fmt::format(
      "uniform weights on graph {}: must be doubly stochastic, but {} {} sums to {}; {}", on.name(),
      bad.what, bad.number, bad.sum,
      on.undirected()
          ? "take Metropolis weights"
          : "give weights of your own, or mixing_matrix::push to protocols that need no others, or take Metropolis "
            "weights on an undirected graph"));
}

void require_weight(double weight, std::uint32_t i, std::uint32_t j, bool edge) {
  if (edge     ? std::isfinite(weight) && weight > 0
      : i == j ? std::isfinite(weight) && weight >= 0
               : weight == 0) {
    return;
  }
  throw option_error(fmt::format("weight ({}, {}) must be {}, but is {}", i, j,
                                 edge     ? "finite and greater than 0, as that of an edge"
                                 : i == j ? "finite and at least 0"
                                          : "0, because the graph has no such edge",
                                 weight));
}

void require_square(Eigen::MatrixXd const& weights, Eigen::Index size) {
  if (weights.rows() == size && weights.cols() == size) return;
  throw option_error(fmt::format("weights must have {} rows and columns, but have {} and {}", size,
                                 weights.rows(), weights.cols()));
}

template <class Solver>
Eigen::VectorXd norms_by(Solver const& solver) {
  // Not seen to happen; but a gap made of unfinished numbers would look like any other.
  if (solver.info() != Eigen::Success) {
    throw option_error("the eigenvalues of the weights could not be computed");
  }
  return solver.eigenvalues().cwiseAbs();
}

}  // namespace

mixing_matrix::mixing_matrix(graph const& on, std::string_view name)
    : graph_(on), name_(name), self_(on.size()), weights_(on.edges()) {
  first_.reserve(on.size() + std::size_t{1});
  first_.push_back(0);
  for (std::uint32_t j = 0; j < on.size(); ++j) {
    first_.push_back(first_.back() + on.in(worker_id(j)).size());
  }
}

mixing_matrix mixing_matrix::uniform_unchecked(graph const& on) {
  mixing_matrix w(on, "uniform");
  for (std::uint32_t j = 0; j < on.size(); ++j) {
    w.self_[j] = 1.0 / static_cast<double>(on.in(worker_id(j)).size() + 1);
    for (std::size_t k = w.first_[j]; k < w.first_[j + 1]; ++k) w.weights_[k] = w.self_[j];
  }
  return w;
}

mixing_matrix mixing_matrix::uniform(graph const& on) {
  mixing_matrix w = uniform_unchecked(on);
  if (auto const bad = first_imbalance(w)) throw_not_uniform(on, *bad);
  return w;
}

mixing_matrix mixing_matrix::metropolis(graph const& on) {
  mixing_matrix w(on, "metropolis");
  for (std::uint32_t j = 0; j < on.size(); ++j) {
    auto const in = on.in(worker_id(j));
    double rest = 1;
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (!on.has_edge(worker_id(j), in[k])) {
        throw option_error(
            fmt::format("Metropolis weights on graph {}: must be undirected, but node {} has an "
                        "edge to node {} and none back",
                        on.name(), in[k].value(), j));
      }
      auto const degree = std::max(in.size(), on.in(in[k]).size());
      double const weight = 1.0 / static_cast<double>(degree + 1);
      w.weights_[w.first_[j] + k] = weight;
      rest -= weight;
    }
    w.self_[j] = rest;
  }
  return w;
}

mixing_matrix mixing_matrix::given(graph const& on, Eigen::MatrixXd const& weights) {
  require_square(weights, on.size());
  mixing_matrix w(on, "given");
  std::size_t next = 0;
  for (std::uint32_t j = 0; j < on.size(); ++j) {
    for (std::uint32_t i = 0; i < on.size(); ++i) {
      bool const edge = on.has_edge(worker_id(i), worker_id(j));
      require_weight(weights(i, j), i, j, edge);
      if (i == j) w.self_[j] = weights(i, j);
      if (edge) w.weights_[next++] = weights(i, j);
    }
  }
  if (auto const bad = first_imbalance(w)) {
    throw option_error(fmt::format("weights must be doubly stochastic, but {} {} sums to {}",
                                   bad->what, bad->number, bad->sum));
  }
  return w;
}

mixing_matrix mixing_matrix::automatic(graph const& on) {
  mixing_matrix w = uniform_unchecked(on);
  auto const bad = first_imbalance(w);
  if (!bad) return w;
  if (!on.undirected()) throw_not_uniform(on, *bad);
  return metropolis(on);
}

mixing_matrix mixing_matrix::push(graph const& on) {
  mixing_matrix w(on, "push");
  auto const share = [&](worker_id i) { return 1.0 / static_cast<double>(on.out(i).size() + 1); };
  for (std::uint32_t j = 0; j < on.size(); ++j) {
    auto const in = on.in(worker_id(j));
    for (std::size_t k = 0; k < in.size(); ++k) w.weights_[w.first_[j] + k] = share(in[k]);
    w.self_[j] = share(worker_id(j));
  }
  w.doubly_stochastic_ = !first_imbalance(w);
  return w;
}

double mixing_matrix::self(worker_id j) const {
  static_cast<void>(graph_.in(j));  // rejects a node that is none
  return self_[j.index()];
}

std::span<double const> mixing_matrix::of(worker_id j) const {
  std::size_t const size = graph_.in(j).size();  // rejects a node that is none
  return std::span(weights_).subspan(first_[j.index()], size);
}

Eigen::MatrixXd mixing_matrix::dense() const {
  Eigen::MatrixXd w = Eigen::MatrixXd::Zero(graph_.size(), graph_.size());
  for (std::uint32_t j = 0; j < graph_.size(); ++j) {
    w(j, j) = self_[j];
    auto const in = graph_.in(worker_id(j));
    auto const weights = of(worker_id(j));
    for (std::size_t k = 0; k < in.size(); ++k) w(in[k].value(), j) = weights[k];
  }
  return w;
}

double mixing_matrix::spectral_gap() const {
  if (graph_.size() == 1) return 1;
  Eigen::MatrixXd const w = dense();
  Eigen::VectorXd norms =
      w == w.transpose()
          ? norms_by(Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(w, Eigen::EigenvaluesOnly))
          : norms_by(Eigen::EigenSolver<Eigen::MatrixXd>(w, false));
  std::partial_sort(norms.data(), norms.data() + 2, norms.data() + norms.size(), std::greater<>());
  return norms[0] - norms[1];
}

graph graph_of(Eigen::MatrixXd const& weights) {
  require_square(weights, weights.rows());
  std::vector<std::vector<worker_id>> out(static_cast<std::size_t>(weights.rows()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::uint32_t j = 0; j < out.size(); ++j) {
      if (weights(static_cast<Eigen::Index>(i), j) != 0) out[i].emplace_back(j);
    }
  }
  return graph(std::move(out));
}

}  // namespace rubato
