// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/task/stage.hpp"

namespace rubato::algorithm::detail {

/// @throws option_error with this sentence
inline void expect(bool holds, std::string const& sentence) {
  if (!holds) throw option_error(sentence);
}

/// That the user has left to the algorithm what it decides of a stage.
inline void expect_unset(stage_options const& o, std::string const& name) {
  expect(o.iterations == 1 && o.cleared.empty() && o.copied.empty(),
         name + " has iterations, or cleared or copied tables, expected to leave these to the algorithm");
  o.check();
}

/// That all that workers push counts, of a stage that is wrong without a part of it. Who is drawn for a round is waited
/// for. What a filter carries to a next commit is lost with the last one.
inline void expect_all_folded(stage_options const& o, std::string const& name) {
  expect(!o.protocol.filter, name + " has a protocol with a filter (" + o.protocol.name +
                                 "), which keeps back what workers push, expected one that sends all of it: bsp, ssp "
                                 "or asp, for example, or with(protocol, send_all{})");
  auto const& rounds = o.protocol.visibility.rounds();
  bool const is_for_all = rounds && !o.workers.is_automatic() && rounds->size >= o.workers.workers();
  expect(!rounds || rounds->late != late_commit::drop || is_for_all || o.protocol.admission.samples(),
         name + " has a protocol that leaves out what comes late, expected one that folds all commits");
}

/// That a worker has been there since the stage began: what a joiner would take for its part is others' already.
/// @throws usage_error
template <class Worker>
void expect_not_joined(Worker const& worker, std::string const& name) {
  if (worker.has_joined())
    throw usage_error(errc::bad_option, name + ": worker " + std::to_string(worker.rank()) +
                                            " has joined, expected those alone that the stage began with");
}

/// Batches that rows are cut into.
inline std::int64_t steps_of_scan(std::size_t rows, std::size_t batch) {
  return static_cast<std::int64_t>(rows / batch + (rows % batch != 0 ? 1 : 0));
}
/// Rows of a batch in the mean over so many.
inline double rows_mean(std::size_t rows, std::size_t batches) {
  return static_cast<double>(rows) / static_cast<double>(batches);
}

}  // namespace rubato::algorithm::detail
