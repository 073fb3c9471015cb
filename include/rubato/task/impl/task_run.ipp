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
  if (o.workers.is_automatic() && search_ == nullptr) begin_step();
  part const p = next_part();
  stage_report& s = report_.stages.emplace_back();
  s.stage = number;
  s.first = p.first;
  s.iterations = p.iterations;
  s.probes = p.probes;
  s.asked = now;
  return stage_demand{
      .workers = p.workers, .where = o.where, .spread = o.spread, .data = o.data, .priority = o.priority};
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
  r.step = static_cast<std::uint32_t>(report_.stages.size());
  r.changes_tables = s.first == 0;  // the parts that follow go on with them
  return r;
}

void task_run::ran(run_report const& r, time_point now) {
  stage_report& s = report_.stages.back();
  s.run = r;
  s.ended = report_.ended = now;
  if (search_ != nullptr) {
    bool const searched = search_->searching();
    search_->ran(r.elapsed);
    if (searched && !search_->searching()) note_degree();
    if (search_->next()) return;
    search_ = nullptr;
  }
  ++step_;
}

std::int64_t task_run::iterations_of_step() const {
  return task_.program()[step_].iterations.value_or(stage().options.iterations);
}

/// Later runs of the stage go on with the search, or take the degree that it has found.
void task_run::begin_step() {
  std::int64_t const iterations = iterations_of_step();
  auto const [at, first] =
      searches_.try_emplace(task_.program()[step_].stage, stage().options.search, iterations, capacity_);
  search_ = &at->second;
  search_began_ = search_->done();
  if (!first) search_->run_again(iterations);
}

task_run::part task_run::next_part() const {
  if (search_ == nullptr) return {stage().options.workers.workers(), 0, iterations_of_step(), false};
  auto const sub = *search_->next();
  return {sub.workers, sub.first - search_began_, sub.iterations, sub.probes};
}

void task_run::note_degree() {
  report_.degrees.push_back({.stage = task_.program()[step_].stage,
                             .workers = search_->best(),
                             .probes = {search_->probes().begin(), search_->probes().end()},
                             .cost = search_->cost()});
}

}  // namespace rubato
