// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/worker/process_cache.hpp"
#include "rubato/worker/server_fetch.hpp"

namespace rubato::detail {

class worker_fibers;

/// The workers of a machine as threads of one process, see `sim::scenario::one_process_per_machine`: what they
/// share, and how it is fetched.
class fiber_process final : public server_fetcher {
 public:
  /// Under partition synchronization each read is of a cut of its own, and nothing is shared.
  fiber_process(worker_fibers& run, blueprint const& plan, std::size_t protocol);

  /// The end of its connections to servers: its first worker stands for it. @pre it has one
  [[nodiscard]] worker_id station() const noexcept { return worker_id{workers_.front()}; }
  [[nodiscard]] process_cache* cache() noexcept { return cache_ ? &*cache_ : nullptr; }
  void add(std::uint32_t rank) { workers_.push_back(rank); }
  [[nodiscard]] std::vector<std::uint32_t> const& workers() const noexcept { return workers_; }

  void ask(server_fetch& f) override;
  void ask_in_turn(server_fetch& f) override { ask(f); }
  /// Between runs nothing is under way.
  void withdraw_all() override {}

 private:
  worker_fibers& run_;
  std::vector<std::uint32_t> workers_;
  std::optional<process_cache> cache_;
};

}  // namespace rubato::detail
