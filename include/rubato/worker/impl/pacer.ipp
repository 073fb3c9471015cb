// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

#include "rubato/core/error.hpp"
#include "rubato/worker/pacer.hpp"

namespace rubato {

void pacer::begin(clock_index clock, time_point now) {
  steps_ = 0;
  point_.clock = clock;
  point_.committed_at = now;
  ask();
}

void pacer::follow(conductor::order const& order) {
  if (!pace_.follow(order, point_))
    throw option_error("pace: an order of " + std::to_string(order.size()) +
                       " bytes came, which is none of this pace's conductor");
  ask();
}

void pacer::committed(duration d) {
  if (!conducted_) return;
  if (exchange_) end_exchange();
  exchange_ = d;
  has_committed_ = true;
}

void pacer::end_exchange() {
  duration const took = *std::exchange(exchange_, std::nullopt);
  if (!has_committed_ && took == duration::zero()) return;  // nothing has been measured
  pace_.spent(took);
  ask();
}

void pacer::ask() {
  due_ = pace_.due(point_);
  if (due_.steps < 1)
    throw option_error("pace: a commit is due after " + std::to_string(due_.steps) + " steps, expected 1 or more");
  if (due_.steps_max < due_.steps)
    throw option_error("pace: a commit is due after at least " + std::to_string(due_.steps) + " steps and at most " +
                       std::to_string(due_.steps_max) + ", expected no less");
}

void pacer::count_timeless(time_point t) {
  timeless_steps_ = t == last_step_ ? timeless_steps_ + 1 : 0;
  last_step_ = t;
  if (timeless_steps_ > timeless_steps_max)
    throw option_error("pace: worker " + std::to_string(point_.worker.value()) +
                       " waits for a time to commit, and " + std::to_string(timeless_steps_max) +
                       " steps took none; expected steps that take time (in the simulator a "
                       "scenario.speed.work_cost above 0)");
}

}  // namespace rubato
