// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <utility>

#include "rubato/run/worker_run.hpp"

namespace rubato {

worker_run::worker_run(run_setup setup, std::uint32_t servers)
    : life("cluster"),
      setup_(std::move(setup)),
      plan_(setup_.protocol, servers, std::move(setup_.tables)) {}

void worker_participant::attach(endpoint& link, sender const& self, std::uint32_t rank,
                                std::uint64_t seed) {
  endpoint* outermost = &link;
  for (auto const& wrap : run_.setup_.wrappers) {
    wrapped_.push_back(wrap(*outermost, self.worker));
    outermost = wrapped_.back().get();
  }
  handle_ = run_.setup_.make_worker({*outermost, run_.plan_, self, rank, seed});
}

void worker_participant::live() {
  handle_->start(start, count);
  run_.body_(*handle_);
  handle_->finish();
}

void worker_participant::leave() { run_.left(*this); }

}  // namespace rubato
