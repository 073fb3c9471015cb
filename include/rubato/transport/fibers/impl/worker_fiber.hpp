// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/run_stopped.hpp"
#include "rubato/transport/fibers/worker_fibers.hpp"

namespace rubato::detail {

/// A worker: its fiber, and its end.
struct worker_fibers::worker_fiber final : worker_participant {
  worker_fiber(worker_fibers& run, sender const& self)
      : worker_participant(run, self), link(run, self.worker) {
    link.process_ = run.enter_process(self.worker.value());
    attach(link, run.options_.scenario.seed);
  }
  worker_fiber(worker_fiber const&) = delete;
  worker_fiber& operator=(worker_fiber const&) = delete;
  ~worker_fiber() override { detach(); }
  void live() override {
    try {
      worker_participant::live();
    } catch (...) {
      if (link.dead_) throw run_stopped{};  // whatever the body makes of its death
      throw;
    }
  }

  bool alive = true;                            ///< has neither ended nor crashed
  time_point crashed = time_point::max();
  fiber_endpoint link;
};

}  // namespace rubato::detail
