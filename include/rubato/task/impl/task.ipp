// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/task/task.hpp"

namespace rubato {

void stage_options::check() const {
  if (iterations < 1)
    throw option_error("stage: iterations must be at least 1, but is " + std::to_string(iterations));
  if (std::isnan(priority)) throw option_error("stage: priority must be a number");
  search.check();
  if (workers.is_automatic()) {
    if (!where.empty()) throw option_error("stage: a placement says how many workers there are: not automatic");
  } else if (!where.empty() && workers_of(where) != workers.workers()) {
    throw option_error("stage: its placement has " + std::to_string(workers_of(where)) +
                       " workers, expected " + std::to_string(workers.workers()));
  }
  if (!local) return;
  local->check();
  if (spread || std::ranges::count_if(where, [](std::uint32_t n) { return n != 0; }) > 1)
    throw option_error("stage: single-machine mode, expected all of its workers on one node");
}

namespace {

/// A velocity is the servers' own, and so is what else a merge keeps: it does not come along.
void check_moves(run_setup const& s, std::size_t protocol) {
  for (std::size_t i = 0; i < s.tables.size(); ++i) {
    merge_rule const& merge = s.tables[i].merge ? *s.tables[i].merge : s.protocols[protocol].merge;
    if (merge.decay() || merge.elements() != nullptr)
      throw option_error("stage: single-machine mode needs tables without velocity, but table " + std::to_string(i) +
                         " has one");
  }
}

}  // namespace

task_core::~task_core() {
  if (at_end_) at_end_();
}

namespace {
void check_parts(stage_options const& o, bool takes_range, std::int64_t iterations) {
  if (o.workers.is_automatic() && !takes_range && iterations > 1)
    throw option_error("stage: its degree is found by running its " + std::to_string(iterations) +
                       " iterations in parts, expected a body that is told which: body(worker, iteration_range)");
}
}  // namespace

stage_ref task_core::add(stage_options options, std::function<void(worker_core&, iteration_range)> body,
                         bool takes_range) {
  check_not_open();
  options.check();
  check_parts(options, takes_range, options.iterations);
  stages_.push_back({std::move(options), std::move(body), takes_range});
  return stage_ref(*this, stages_.size() - 1);
}

void task_core::append(stage_ref s, std::optional<std::int64_t> iterations) {
  check_not_open();
  if (s.of_ != this)
    throw usage_error(errc::stale_handle, "task: stage " + std::to_string(s.number()) + " is of another task");
  stage_description const& what = stages_[s.number()];
  if (iterations) check_parts(what.options, what.takes_range, *iterations);
  program_.push_back({s.number(), iterations});
}

void task_core::run(stage_ref s) { append(s, {}); }

void task_core::run(stage_ref s, std::int64_t iterations) {
  if (iterations < 1)
    throw option_error("stage: iterations must be at least 1, but is " + std::to_string(iterations));
  append(s, iterations);
}

void task_core::open(std::function<std::unique_ptr<rubato::runtime>(run_setup)> const& open_it) {
  check_not_open();
  if (program_.empty()) throw option_error("task: it has no stages to run, see task::run");
  run_setup s = setup();
  for (stage_description const& one : stages_) {
    stage_options const& o = one.options;
    s.protocols.push_back(o.protocol);
    s.changes.push_back({.cleared = o.cleared, .copied = o.copied, .applied = o.applied});
    if (o.local) s.changes.back().moved = o.protocol;
    if (o.local) check_moves(s, s.protocols.size() - 1);
  }
  runtime_ = open_it(std::move(s));
}

rubato::runtime& task_core::opened() const {
  if (!runtime_) throw usage_error(errc::stale_handle, "task: it has not been submitted");
  return *runtime_;
}

void task_core::stop() {
  rubato::runtime& running = opened();
  if (!running.has_workers()) return;
  std::lock_guard const guard(stopping_);
  if (ends_ || stop_asked_.exchange(true)) return;
  running.stop();
  if (on_stop_) on_stop_();
}

void task_core::on_stop(std::function<void()> f) {
  std::lock_guard const guard(stopping_);
  on_stop_ = std::move(f);
}

void task_core::end_stops() {
  std::lock_guard const guard(stopping_);
  ends_ = true;
}

void task_core::check_not_open() const {
  if (runtime_) throw usage_error(errc::stale_handle, "task: it has been submitted already");
}

}  // namespace rubato
