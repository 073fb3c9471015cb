// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/algorithm/lda_likelihood.hpp"
#include "rubato/algorithm/lda_sampler.hpp"
#include "rubato/algorithm/lda_state.hpp"
#include "rubato/algorithm/line_range.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/table.hpp"
#include "rubato/data/bag_of_words.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"

namespace rubato::algorithm {

/// n_kw, the first table: for each word how many of its tokens are of each topic.
using lda_words = dense<std::int32_t, sum>;
/// n_k, the second table: one row, how many tokens are of each topic.
using lda_totals = dense<std::int64_t, sum>;

/// The first table as these documents and topics ask for it: a row per word, all counts zero.
[[nodiscard]] inline lda_words lda_word_table(lda_state const& state) {
  return {.rows = state.documents().words(), .width = state.options().topics};
}
/// The second table: one row, all counts zero.
[[nodiscard]] inline lda_totals lda_total_table(lda_state const& state) {
  return {.rows = 1, .width = state.options().topics};
}

namespace detail {

/// The documents of worker `rank` of `count`, cut into those of each clock of a sweep.
inline std::vector<lda_batch> lda_batches(lda_state const& state, std::uint32_t rank, std::uint32_t count) {
  auto const& all = state.documents();
  auto const [first, last] = line_range::of(all.documents(), rank, count);
  std::uint32_t const clocks = state.options().clocks_per_sweep();
  std::vector<lda_batch> batches;
  for (std::uint32_t c = 0; c < clocks; ++c) {
    auto const part = line_range::of(last - first, c, clocks);
    batches.emplace_back(all, line_range{first + part.first, first + part.last});
  }
  return batches;
}

/// The first clock: tokens without a topic get one at random.
template <class Worker>
void lda_start(Worker& worker, std::vector<lda_batch> const& batches, lda_sampler& sampler) {
  std::uint64_t started = 0;
  for (auto const& b : batches) {
    sampler.begin(b);
    std::uint64_t const tokens = sampler.start(b);
    if (tokens == 0) continue;
    worker[table<0>].push(b.words, sampler.word_changes());
    worker[table<1>].push(sampler.total_changes());
    started += tokens;
  }
  worker.step(static_cast<double>(started));
}

/// A clock in which every token of a batch gets a new topic.
template <class Worker>
void lda_clock(Worker& worker, lda_batch const& batch, lda_sampler& sampler) {
  sampler.begin(batch);
  worker[table<0>].pull(batch.words, sampler.words());
  worker[table<1>].pull(sampler.totals());
  sampler.sample(batch);
  worker[table<0>].push(batch.words, sampler.word_changes());
  worker[table<1>].push(sampler.total_changes());
  worker.step(static_cast<double>(batch.tokens) * static_cast<double>(sampler.totals().size()));
}

}  // namespace detail

/// The body of a worker that samples topics, as many sweeps over its documents as the options say: worker `rank` of
/// `count` has the documents of `line_range`, 10% of them in each clock where `batch` is 0.1. In each it pulls the
/// rows of their words, and the totals, draws a new topic for each token given all others', and pushes what has
/// changed. In the first clock of a run tokens that have no topic get one at random, so that the counts always sum up
/// to the tokens that have one.
///
///     algorithm::lda_state state(documents, {.topics = 20});
///     cluster cluster{in_process{.workers = 4}, ssp{.staleness = 2}, algorithm::lda_word_table(state),
///                     algorithm::lda_total_table(state)};
///     cluster.run([&](auto& worker) { algorithm::lda(worker, state); });
///     use(cluster.parameters<0>());                                  // n_kw; one more run goes on from here
///
/// Counts may be as old as the protocol allows, and rows and totals may be of different moments: a row may then
/// have more tokens of a topic than the totals. None is below zero under any protocol that sends and folds all, for
/// what is seen of another worker are its first commits, whose sum is how its tokens were once, and a worker sees
/// all that it has pushed itself. Tables that hold less than the state says, after a failure, are not repaired:
/// counts below zero are then taken for zero in probabilities.
///
/// With one worker under BSP and `batch` 1 this is the sequential sampler, draw for draw. `step` is priced at the
/// tokens times the topics. The tables are the first two of the cluster, merged by `sum`; workers must not leave,
/// and who joins is refused. Memory: for each different word of a batch topics × 8 bytes, for each of a worker's entries 4.
/// @param state of these tables; shared by the workers of a process
/// @throws usage_error in a worker that has joined the run
/// Source: 001 §2.1 and §5 (topic modeling); T. Griffiths, M. Steyvers, PNAS 101, 2004, for the sampler.
template <class Worker>
void lda(Worker& worker, lda_state& state) {
  detail::expect_not_joined(worker, "lda");
  auto const batches = detail::lda_batches(state, worker.rank(), worker.count());
  lda_sampler sampler(state);
  detail::lda_start(worker, batches, sampler);
  for (std::int64_t sweep = 0; sweep < state.options().sweeps; ++sweep)
    for (auto const& b : batches) detail::lda_clock(worker, b, sampler);
}

}  // namespace rubato::algorithm
