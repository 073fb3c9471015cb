// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/testing/actor.hpp"
#include "rubato/testing/observer.hpp"
#include "rubato/testing/schedule.hpp"

namespace rubato::testing {

/// What an observed run came to.
struct outcome {
  std::vector<std::string> violations;  ///< empty: all rules held
  run_report report;
  std::uint64_t events = 0;    ///< a hash of what happened when; no floats in it
  std::uint64_t reads = 0;     ///< a hash of the bytes of all reads of the weights
  std::vector<float> weights;  ///< in the end

  friend bool same_run(outcome const& a, outcome const& b) {
    return a.events == b.events && a.reads == b.reads && a.report.events == b.report.events &&
           a.report.elapsed == b.report.elapsed && a.report.updates == b.report.updates &&
           std::ranges::equal(a.weights, b.weights, [](float x, float y) {
             return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
           });
  }
};

namespace detail {

/// Commits never by itself when told so, else as the protocol's own pace says.
template <pace_policy Pace>
struct pace_by_hand {
  Pace inner;
  bool by_hand;

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
    return by_hand ? commit_due{.steps = std::int64_t{1} << 62} : inner.due(p);
  }

  [[nodiscard]] auto make_conductor() const
    requires conducted_pace<Pace>
  {
    return inner.make_conductor();
  }
  template <class Order>
    requires conducted_pace<Pace>
  void follow(Order const& order, pace_point const& p) {
    inner.follow(order, p);
  }
  void spent(duration d)
    requires conducted_pace<Pace>
  {
    inner.spent(d);
  }
};

/// A protocol with its pace put under control; the rest is its own.
template <protocol P>
struct observed {
  P inner;
  bool by_hand;

  [[nodiscard]] auto admission() const { return inner.admission(); }
  [[nodiscard]] auto visibility() const { return inner.visibility(); }
  [[nodiscard]] auto merge() const { return inner.merge(); }
  [[nodiscard]] auto pace() const { return pace_by_hand<pace_of<P>>{inner.pace(), by_hand}; }
  [[nodiscard]] auto reads() const { return rubato::detail::reads_of(inner); }
};

using counting_dense = dense<std::int64_t, sum, scattered>;
using counting_sparse = sparse<std::int64_t, sum, scattered>;

/// The server of each row, once for each counting table.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> servers_of_rows(schedule const& s);
/// The final sparse table as if it were dense.
[[nodiscard]] std::vector<std::int64_t> spread(sparse_snapshot<std::int64_t> const& rows,
                                               std::size_t columns);
[[nodiscard]] std::vector<float> first_weights(std::uint64_t seed);

/// Makes the cluster of an observed run on a transport. A merge that keeps versions needs a table of
/// weights that does.
template <class Weights = dense<float>, class Transport>
[[nodiscard]] auto make_cluster(Transport transport, rubato::rules const& p, schedule const& s,
                                std::span<float const> weights) {
  return cluster<Transport, rubato::rules, counting_dense, counting_sparse, Weights>(
      std::move(transport), p,
      counting_dense{.rows = table_rows, .width = s.workers_ever(), .partition = {s.seed}},
      counting_sparse{.width = s.workers_ever(), .partition = {s.seed}},
      Weights(dense<float>{.rows = weight_rows, .init = weights}));
}

/// Checks the final tables.
void check_result(std::vector<std::int64_t> const& counted, sparse_snapshot<std::int64_t> const& sparse,
                  std::vector<float> const& weights, observer& o, schedule const& s,
                  run_report const& report);
template <class Cluster>
void check_result(Cluster& c, observer& o, schedule const& s, run_report const& report) {
  check_result(c.template parameters<0>(), c.template parameters<1>(), c.template parameters<2>(), o, s,
               report);
}

/// The run of a protocol that is a value, whose pace is as it is to be already.
[[nodiscard]] outcome observe_run(rubato::rules const& p, schedule const& s, expectations const& r);

}  // namespace detail

/// Runs protocol `p` on a schedule in virtual time, watched by an observer after every event.
/// A deadlock or any other error of the run is one of the violations.
template <protocol P>
[[nodiscard]] outcome observed_run(P const& p, schedule const& s, expectations const& r) {
  return detail::observe_run(detail::observed<P>{p, s.commits_by_hand}, s, r);
}

}  // namespace rubato::testing
