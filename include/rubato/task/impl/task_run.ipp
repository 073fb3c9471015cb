// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/task/task_run.hpp"

namespace rubato {

task_run::task_run(task_core& t, stage_scheduler const& nodes, time_point submitted, bool keeps_apart, bool moves)
    : task_(t), nodes_(nodes), keeps_apart_(keeps_apart), moves_(moves) {
  report_.submitted = report_.ended = submitted;
}

std::optional<stage_demand> task_run::next(time_point now) {
  if (is_stopped_) return keeper_ ? std::optional(bring_back(now)) : std::nullopt;
  if (step_ == task_.program().size()) return std::nullopt;
  if (nodes_.capacity() == 0) throw lost_error("task: all nodes are lost, expected one for its next stage");
  stage_options const& o = stage().options;
  std::size_t const number = task_.program()[step_].stage;
  if (o.workers.is_automatic() && search_ == nullptr) begin_step();
  if (search_ != nullptr) limit_search();
  stage_report& s = report_.stages.emplace_back();
  s.stage = number;
  s.asked = now;
  waits_ = true;
  part const p = note_part();
  return stage_demand{.workers = p.workers,
                      .where = o.where,
                      .one_node = o.local.has_value(),
                      .spread = o.spread,
                      .home = home_,
                      .data = o.data,
                      .priority = o.priority};
}

/// A run in which nobody does anything, where they are. As many workers as before: a protocol may ask for their number.
stage_demand task_run::bring_back(time_point now) {
  stage_report& s = report_.stages.emplace_back();
  s.stage = keeper_->stage;
  s.iterations = 0;
  s.asked = now;
  stage_demand d;
  d.workers = keeper_->workers;
  d.one_node = true;
  d.home = keeper_->node;
  d.priority = task_.stages()[s.stage].options.priority;
  return d;
}

void task_run::stop() {
  if (std::exchange(waits_, false)) report_.stages.pop_back();
  is_stopped_ = report_.stopped = step_ != task_.program().size();
}

std::optional<std::uint32_t> task_run::revised() {
  if (is_stopped_ || search_ == nullptr || capacity() == 0) return std::nullopt;
  limit_search();
  return note_part().workers;
}

/// Nodes may have been lost.
void task_run::limit_search() {
  bool const searched = search_->searching();
  search_->limit_to(capacity());
  note_degree(searched);
}

/// Of the last report: what it is asked for.
task_run::part task_run::note_part() {
  part const p = next_part();
  stage_report& s = report_.stages.back();
  s.first = p.first;
  s.iterations = p.iterations;
  s.probes = p.probes;
  return p;
}

/// The most workers that the stage can have.
std::uint32_t task_run::capacity() const {
  return stage().options.local ? nodes_.capacity_of_one_node() : nodes_.capacity();
}

/// Whether another part of the step follows, or a stage that goes on with the tables where they are, or gets them from
/// there: they need not go back to the servers in between.
bool task_run::goes_on_with_tables() const {
  stage_report const& s = report_.stages.back();
  if (s.first + s.iterations < iterations_of_step()) return true;
  if (step_ + 1 == task_.program().size()) return false;
  stage_options const& next = task_.stages()[task_.program()[step_ + 1].stage].options;
  return stage().options.local->direct && next.local && !next.changes_tables() && next.restarts == 0;
}

run_request task_run::begin(placement where, time_point now) {
  stage_report& s = report_.stages.back();
  s.where = where;
  s.began = now;
  waits_ = false;
  stage_description const& what = task_.stages()[s.stage];
  run_request r;
  r.protocol = s.stage;
  r.placement = std::move(where);
  r.local = what.options.local;
  r.step = static_cast<std::uint32_t>(report_.stages.size());
  r.iterations = s.iterations;
  r.began = now;
  if (is_stopped_) {
    r.local->prepare = preparation::on_demand;
    r.body = [](worker_core&) {};
  } else {
    r.stop_asked = &task_.stop_asked();
    r.body = [&what, todo = iteration_range(s.first, s.first + s.iterations)](worker_core& w) { what.body(w, todo); };
    if (what.options.restarts != 0) r.recover = attempt_ == 0 ? recovery::keep : recovery::restore;
    // What servers keep for another attempt must be all that there is.
    r.keeps_tables = r.local && r.recover == recovery::none && goes_on_with_tables();
    // The parts that follow go on with them.
    r.changes_tables = s.first == 0 && attempt_ == 0 && what.options.changes_tables();
  }
  keeps_tables_ = r.keeps_tables;
  std::optional<node_id> here;
  if (r.local && moves_) here = node_id{only_node(s.where)};
  tables_come_ = here && (r.changes_tables || copied_to_ != here);
  copied_to_ = here;
  return r;
}

void task_run::ran(run_report const& r, time_point now) {
  stage_report& s = report_.stages.back();
  s.run = r;
  s.ended = now;
  s.lost = r.completed != completion::whole;
  bool const has_begun = r.completed != completion::not_begun;
  if (s.lost) copied_to_.reset();
  if (has_begun || !r.stopped) report_.ended = now;
  if (has_begun) {
    keeper_.reset();
    if (keeps_tables_ && keeps_apart_) keeper_ = {node_id{only_node(s.where)}, s.stage, workers_of(s.where)};
  }
  if (r.stopped || is_stopped_) {
    waits_ = !has_begun && r.stopped;  // as if it had not been asked for
    return stop();
  }
  if (!has_begun) return;  // nor was an attempt spent
  if (std::uint32_t const restarts = stage().options.restarts; s.lost && restarts != 0) {
    if (attempt_++ == restarts)
      throw lost_error("stage " + std::to_string(s.stage) + ": a node was lost, after it had begun again " +
                       std::to_string(restarts) + " times");
    return home_.reset();
  }
  attempt_ = 0;
  if (stage().options.local) home_ = node_id{only_node(s.where)};
  if (search_ != nullptr) {
    bool const searched = search_->searching();
    if (s.lost) search_->ran_unmeasured();
    else if (r.crashes != 0 || tables_come_) search_->ran_disturbed(r.elapsed);
    else search_->ran(r.elapsed);
    note_degree(searched);
    if (search_->next()) return;
    search_ = nullptr;
  }
  home_.reset();
  ++step_;
}

std::int64_t task_run::iterations_of_step() const {
  return task_.program()[step_].iterations.value_or(stage().options.iterations);
}

/// Later runs of the stage go on with the search, or take the degree that it has found.
void task_run::begin_step() {
  std::int64_t const iterations = iterations_of_step();
  auto const [at, first] =
      searches_.try_emplace(task_.program()[step_].stage, stage().options.search, iterations, capacity());
  search_ = &at->second;
  search_began_ = search_->done();
  if (!first) search_->run_again(iterations);
}

task_run::part task_run::next_part() const {
  if (search_ == nullptr) return {stage().options.workers.workers(), 0, iterations_of_step(), false};
  auto const sub = *search_->next();
  return {sub.workers, sub.first - search_began_, sub.iterations, sub.probes};
}

void task_run::note_degree(bool searched) {
  if (!searched || search_->searching()) return;
  report_.degrees.push_back({.stage = task_.program()[step_].stage,
                             .workers = search_->best(),
                             .probes = {search_->probes().begin(), search_->probes().end()},
                             .cost = search_->cost()});
}

}  // namespace rubato
