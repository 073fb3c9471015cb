// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/task/task_run.hpp"

namespace rubato {

task_run::task_run(task_core& t, std::uint32_t capacity, time_point submitted)
    : task_(t), capacity_(capacity) {
  report_.submitted = report_.ended = submitted;
}

std::optional<stage_demand> task_run::next(time_point now) {
  if (step_ == task_.program().size()) return std::nullopt;
  stage_options const& o = stage().options;
  std::size_t const number = task_.program()[step_].stage;
  if (o.workers.is_automatic() && !search_ && !degrees_.contains(number))
    search_.emplace(o.search, iterations_of_step(), capacity_);
  part const p = next_part();
  stage_report& s = report_.stages.emplace_back();
  s.stage = number;
  s.first = p.first;
  s.iterations = p.iterations;
  s.probes = p.probes;
  s.asked = now;
  return stage_demand{.workers = p.workers, .where = o.where, .data = o.data, .priority = o.priority};
}

run_request task_run::begin(placement where, time_point now) {
  stage_report& s = report_.stages.back();
  s.where = where;
  s.began = now;
  stage_description const& what = stage();
  run_request r;
  r.body = [&what, todo = iteration_range(s.first, s.first + s.iterations)](worker_core& w) { what.body(w, todo); };
  r.protocol = s.stage;
  r.placement = std::move(where);
  if (s.first == 0) r.cleared = what.options.cleared;  // the parts that follow go on with them
  return r;
}

void task_run::ran(run_report const& r, time_point now) {
  stage_report& s = report_.stages.back();
  s.run = r;
  s.ended = report_.ended = now;
  if (search_) {
    search_->ran(r.elapsed);
    if (search_->next()) return;
    note_degree();
  }
  ++step_;
}

std::int64_t task_run::iterations_of_step() const {
  return task_.program()[step_].iterations.value_or(stage().options.iterations);
}

task_run::part task_run::next_part() const {
  if (search_) {
    auto const sub = *search_->next();
    return {sub.workers, sub.first, sub.iterations, sub.probes};
  }
  auto const found = degrees_.find(task_.program()[step_].stage);
  stage_options const& o = stage().options;
  return {found != degrees_.end() ? found->second : o.workers.workers(), 0, iterations_of_step(), false};
}

/// Later runs of the stage take the degree that has been found.
void task_run::note_degree() {
  std::size_t const number = task_.program()[step_].stage;
  degree_report d{.stage = number,
                  .workers = search_->best(),
                  .probes = {search_->probes().begin(), search_->probes().end()},
                  .cost = {}};
  auto const best = std::ranges::find(d.probes, d.workers, &parallelism_search::probe::workers);
  for (stage_report const& s : report_.stages)
    if (s.stage == number && s.probes && best != d.probes.end())
      d.cost += s.run.elapsed - best->per_iteration * s.iterations;
  if (!search_->searching()) degrees_[number] = d.workers;
  report_.degrees.push_back(std::move(d));
  search_.reset();
}

}  // namespace rubato
