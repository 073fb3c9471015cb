// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rubato/algorithm/lda_state.hpp"

namespace rubato::algorithm {

namespace detail {

/// Σ log Γ(n + a) − log Γ(a) over counts of which most are zero, and add nothing.
template <class Count>
[[nodiscard]] double log_rising(std::span<Count const> counts, double a) {
  double total = 0;
  double const at_zero = std::lgamma(a);
  for (Count const n : counts)
    if (n > 0) total += std::lgamma(static_cast<double>(n) + a) - at_zero;
  return total;
}

}  // namespace detail

/// log p(w | z), from the tables.
/// @param words n_kw, topics counts for each word @param totals n_k
/// @pre as many words and topics as the state has. Cost: O(words × topics). Source: as lda_log_likelihood
[[nodiscard]] inline double lda_log_likelihood_of_words(lda_state const& state, std::span<std::int32_t const> words,
                                                        std::span<std::int64_t const> totals) {
  double const beta = state.options().beta, beta_sum = beta * static_cast<double>(state.documents().words());
  return detail::log_rising(words, beta) - detail::log_rising(totals, beta_sum);
}

/// log p(z), of the documents whose tokens have topics: over TCP, of those of this process's workers, whose sum over
/// the processes is that of all. Cost: O(documents × topics + tokens). Source: as lda_log_likelihood
[[nodiscard]] inline double lda_log_likelihood_of_topics(lda_state const& state) {
  auto const& o = state.options();
  double const alpha = o.alpha, alpha_sum = alpha * static_cast<double>(o.topics);
  std::vector<std::int32_t> counts(o.topics);
  double total = 0;
  for (std::size_t d = 0; d < state.documents().documents(); ++d) {
    if (!state.has_topics(d)) continue;
    state.count_topics(d, counts);
    auto const tokens = static_cast<double>(state.topics_of(d).size());
    total += detail::log_rising(std::span<std::int32_t const>(counts), alpha);
    total -= std::lgamma(tokens + alpha_sum) - std::lgamma(alpha_sum);
  }
  return total;
}

/// The objective that 001 §5 plots: log p(w, z), the logarithm of the joint probability of words and topics, divided
/// by the number of tokens. Natural logarithms; higher is better. To be called while no run with this state is under
/// way. Not from several threads at a time: std::lgamma writes a global.
/// @param words,totals the tables that belong to the state: `parameters<0>()` and `parameters<1>()`
/// @pre there are tokens, all with topics
/// Source: T. Griffiths, M. Steyvers, Finding scientific topics, PNAS 101, 2004, Eq. 2 and 3.
[[nodiscard]] inline double lda_log_likelihood(lda_state const& state, std::span<std::int32_t const> words,
                                               std::span<std::int64_t const> totals) {
  return (lda_log_likelihood_of_words(state, words, totals) + lda_log_likelihood_of_topics(state)) /
         static_cast<double>(state.documents().tokens());
}

}  // namespace rubato::algorithm
