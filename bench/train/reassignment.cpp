// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/reassignment.hpp"

#include <algorithm>
#include <numeric>

#include "rubato/core/error.hpp"

namespace rubato::bench {

reassignment::reassignment(training const& job) : job_(job), workers_(job.workers) {
  if (job.transport != transport_kind::simulated)
    throw option_error("flex_rr: rows are reassigned in the simulator only, not over " +
                       std::string(name_of(job.transport)));
  std::size_t const all = job.work->train().size();
  std::size_t next = 0;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].rows.resize(data::detail::even_part(all, workers_.size(), i).count);
    std::iota(workers_[i].rows.begin(), workers_[i].rows.end(), next);
    next += workers_[i].rows.size();
  }
}

data::dataset_view reassignment::at_step(std::size_t rank, std::size_t step) {
  holding& mine = workers_[rank];
  if (!mine.is_current) mine.copy = job_.work->train().gather(mine.rows);
  mine.is_current = true;
  return mine.copy.rows().batches(data::fraction{job_.batch}).at_step(step);
}

void reassignment::ends_clock(std::size_t rank, double busy_seconds) {
  holding& mine = workers_[rank];
  mine.last_clock = busy_seconds - mine.busy;
  mine.busy = busy_seconds;
  holding* fastest = &mine;
  for (holding& other : workers_)
    if (other.last_clock > 0 && other.last_clock < fastest->last_clock) fastest = &other;
  if (mine.last_clock > slower * fastest->last_clock) give(mine, *fastest);
}

void reassignment::give(holding& from, holding& to) {
  auto const count = static_cast<std::ptrdiff_t>(share * static_cast<double>(from.rows.size()));
  if (count == 0) return;
  to.rows.insert(to.rows.end(), from.rows.end() - count, from.rows.end());
  from.rows.erase(from.rows.end() - count, from.rows.end());
  from.is_current = to.is_current = false;
  ++times_;
}

}  // namespace rubato::bench
