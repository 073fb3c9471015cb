// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/run/worker_run.hpp"

namespace rubato {

worker_run::worker_run(run_setup setup, std::uint32_t servers)
    : life("cluster"),
      setup_(std::move(setup)),
      plan_(setup_.protocols, servers, std::move(setup_.tables), std::move(setup_.changes)) {}

void worker_run::accept(run_request request) {
  auto const refuse = [](std::string const& what) { throw option_error("run: " + what); };
  if (request.protocol >= plan_.protocols().size())
    refuse("there is no protocol " + std::to_string(request.protocol) + ", expected one below " +
           std::to_string(plan_.protocols().size()));
  if (!request.placement.empty() &&
      std::ranges::all_of(request.placement, [](std::uint32_t n) { return n == 0; }))
    refuse("a placement needs at least one worker");
  request_ = std::move(request);
  ++runs_;
}

run_report worker_run::stopped_before_it_began() {
  run_report r;
  r.completed = completion::not_begun;
  r.stopped = true;
  return r;
}

namespace {
/// In each run workers draw other numbers; in the first those of the seed itself.
std::uint64_t seed_of_run(std::uint64_t seed, std::uint32_t number) noexcept {
  return number <= 1 ? seed : random_stream(seed, number, ~std::uint64_t{0})();
}
}  // namespace

/// Between processes, which may have several threads each, nobody knows before how many there are.
void worker_run::check_workers(std::uint32_t count) const {
  rules const& p = plan_.protocol(protocol());
  if (std::uint32_t const of = p.admission.run_workers(); of != 0 && of != count)
    throw option_error("run: it begins with " + std::to_string(count) + " workers, expected " + std::to_string(of) +
                       ", of which " + p.name + " draws some (its `of`)");
}

void worker_participant::attach(endpoint& link, std::uint64_t seed, bool decorated) {
  try {
    endpoint* outermost = &link;
    std::span<run_setup::wrapper const> wrappers;
    if (decorated) wrappers = run_.setup_.wrappers;
    for (auto const& wrap : wrappers) {
      auto outer = wrap(*outermost, self_.worker);
      if (!outer)
        throw option_error("decorated: wrap() gives nothing for worker " +
                           std::to_string(self_.worker.value()) + ", expected an endpoint");
      outermost = outer.get();
      wrapped_.push_back(std::move(outer));
    }
    handle_ = run_.setup_.make_worker({*outermost, run_.plan_, self_, self_.worker.value(),
                                       seed_of_run(seed, run_.run_number()), run_.protocol()});
  } catch (...) {
    detach();
    throw;
  }
}

void worker_participant::detach() noexcept {
  handle_.reset();
  while (!wrapped_.empty()) wrapped_.pop_back();
}

void worker_participant::live() {
  run_.check_workers(count);
  handle_->start(start, count);
  run_.request_.body(*handle_);
  handle_->finish();
}

void worker_participant::leave() { run_.left(*this); }

}  // namespace rubato
