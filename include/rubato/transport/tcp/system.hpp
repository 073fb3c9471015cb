// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "rubato/cluster/blueprint.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/null_mutex.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/transport/tcp/questions.hpp"
#include "rubato/transport/tcp/worker_node.hpp"

namespace rubato {

/// The servers' side of a run of several processes, as seen from one of them: what all agree on, and
/// the means to ask the servers.
template <protocol Protocol, table_spec... Tables>
class tcp_system : public blueprint<null_mutex, Protocol, Tables...> {
 public:
  using base = blueprint<null_mutex, Protocol, Tables...>;
  template <std::size_t I>
  using snapshot_type = typename base::template snapshot_type<I>;

  tcp_system(std::uint64_t sparse_max, Protocol p, std::uint32_t servers, Tables... tables)
      : base(std::move(p), servers, std::move(tables)...), sparse_max_(sparse_max) {}

  /// Whom to ask from now on; nobody: there are no servers to be asked.
  void connect(detail::worker_node* node) noexcept { node_ = node; }

  /// The folded state of a table. Any thread. @throws lost_error; error (errc::bad_option) when one
  /// server's part of a sparse table is larger than `tcp::sparse_max`
  template <std::size_t I, class Result>
  void read_state(Result& out) const {
    std::vector<read_slot<typename base::template store_type<I>>> slots(base::servers());
    detail::read_questions<base> questions(*this, sparse_max_);
    detail::inquiry asked;
    for (std::uint32_t s = 0; s < base::servers(); ++s) {
      auto& q = questions.template of<I>(server_id{s});
      q.renew_observation(slots[s], asked);
      node().ask(server_id{s}, q);
    }
    wait_for(asked);
    std::vector<snapshot_type<I>> states;
    for (auto& one : slots) states.push_back(std::move(one.snapshot));
    base::template assemble<I>(states, out);
  }

  /// Adds the updates that the servers have received so far.
  void add_counters(run_report& r) const {
    detail::inquiry asked;
    std::deque<detail::count_question> questions;
    for (std::uint32_t s = 0; s < base::servers(); ++s)
      node().ask(server_id{s}, questions.emplace_back(asked));
    wait_for(asked);
    for (auto const& q : questions) r.updates = std::max(r.updates, q.count);
  }

  [[nodiscard]] std::uint64_t sparse_max() const noexcept { return sparse_max_; }

 private:
  [[nodiscard]] detail::worker_node& node() const {
    if (node_ == nullptr)
      throw usage_error(errc::stale_handle,
                        "only worker processes can read the parameters: this one serves them");
    return *node_;
  }
  void wait_for(detail::inquiry& asked) const {
    try {
      if (node().wait_for(asked, [] { return false; })) return check(asked);
    } catch (...) {
      node().withdraw(asked);
      throw;
    }
    node().withdraw(asked);
    throw lost_error("the parameters cannot be read: " + node().why_broken().sentence());
  }

  void check(detail::inquiry const& asked) const {
    if (refusal const r = asked.refused.load(std::memory_order_relaxed); r != refusal::none)
      node().raise(r);
  }

  std::uint64_t sparse_max_;
  detail::worker_node* node_ = nullptr;
};

}  // namespace rubato
