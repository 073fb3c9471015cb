// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/testing/observer.hpp"
#include "rubato/testing/schedule.hpp"
#include "rubato/transport/simulated.hpp"

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
};

inline void mix_in(std::uint64_t& hash, std::uint64_t word) {
  hash = rubato::detail::mix64(hash ^ word) + 0x9e3779b97f4a7c15u;
}

inline constexpr std::size_t table_rows = 16;
inline constexpr std::size_t weight_rows = 24;

/// The sparse table's key of a counting row; any 64-bit number would do.
[[nodiscard]] constexpr std::uint64_t sparse_key(std::uint64_t row) noexcept {
  return row < 7 ? row : row * 0x1'0000'0001u;
}

using counting_dense = dense<std::int64_t, sum, scattered>;
using counting_sparse = sparse<std::int64_t, sum, scattered>;
/// A merge that keeps versions needs a table that does.
template <protocol P>
using weight_table =
    std::conditional_t<versioned_merge<merge_of<P>>, multi_version<dense<float>>, dense<float>>;

/// The training body of an observed run: pushes and reads at random, and tells the observer.
template <class Worker>
class actor {
 public:
  actor(Worker& w, observer& o, schedule const& s, staleness bound)
      : worker_(w),
        observer_(o),
        schedule_(s),
        manner_(s.manners[w.rank()]),
        bound_(bound),
        columns_(s.workers_ever()),
        all_rows_(table_rows) {
    std::iota(all_rows_.begin(), all_rows_.end(), std::uint64_t{0});
  }

  /// Returns a hash of all reads of the weights.
  std::uint64_t run() {
    presence here(observer_, worker_.rank(), worker_.clock());
    std::int64_t const end = worker_.clock().value() + manner_.clocks;
    while (worker_.clock().value() < end) {
      if (schedule_.commits_by_hand)
        clock_by_hand();
      else
        clock_by_pace();
    }
    here.leave();
    return hash_;
  }

 private:
  [[nodiscard]] random_stream& random() { return worker_.random(); }
  [[nodiscard]] bool uses(way w) const {
    return (manner_.tables >> static_cast<unsigned>(w)) % 2 != 0;
  }

  void clock_by_hand() {
    for (std::uint64_t n = random().below(manner_.steps + 1); n != 0; --n) {
      act();
      worker_.step(random().uniform() * 2);
    }
    act();
    commit([this] {
      worker_.commit();
      return true;
    });
  }

  /// A pace may go by the time, which does not pass where work costs nothing.
  void clock_by_pace() {
    constexpr int patience = 40;
    for (int steps = 0; steps < patience; ++steps) {
      act();
      double const work = random().uniform() * 2;
      if (commit([&] { return worker_.step(work); })) return;
    }
    commit([this] {
      worker_.commit();
      return true;
    });
  }

  template <class F>
  bool commit(F f) {
    observer_.asking(worker_.rank(), bound_);
    observer_.committing(worker_.rank());
    bool const did = f();
    if (did)
      observer_.committed(worker_.rank(), worker_.clock());
    else
      observer_.not_committed(worker_.rank());
    pushed_weights_ = pushed_weights_ && !did;
    return did;
  }

  void act() {
    reads();
    if (manner_.marks) push_dense_whole();
    if (random().chance(manner_.pushing))
      for (std::uint64_t n = 1 + random().below(3); n != 0; --n) push();
    reads();
  }

  void reads() {
    if (!random().chance(manner_.reading)) return;
    for (std::uint64_t n = 1 + random().below(2); n != 0; --n) read();
  }

  // ---- pushes

  void push() {
    auto const w = static_cast<way>(random().below(5));
    if (!uses(w)) return;
    switch (w) {
      case way::dense_whole:
        return push_dense_whole();
      case way::dense_keyed:
        return push_rows<0>();
      case way::sparse_whole:
        return push_rows<1>(true);
      case way::sparse_keyed:
        return push_rows<1>();
      case way::weights:
        return push_weights();
    }
  }

  void tell(std::size_t table, std::uint64_t row, std::int64_t amount) {
    observer_.pushing(worker_.rank(), table, static_cast<std::size_t>(row), amount);
  }

  void push_dense_whole() {
    observer_.asking(worker_.rank(), bound_);
    std::vector<std::int64_t> delta(table_rows * columns_);
    for (std::uint64_t row = 0; row < table_rows; ++row) {
      delta[static_cast<std::size_t>(row) * columns_ + worker_.rank()] = 1;
      tell(0, row, 1);
    }
    worker_.push(delta);
  }

  /// Some rows, one of them twice now and then; or all.
  [[nodiscard]] std::vector<std::uint64_t> some_rows(bool all) {
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; row < table_rows; ++row)
      if (all || random().chance(0.3)) rows.push_back(row);
    if (!all && random().chance(0.3)) rows.push_back(random().below(table_rows));
    random().shuffle(std::span(rows));
    return rows;
  }

  template <std::size_t I>
  [[nodiscard]] static std::vector<std::uint64_t> keys_of(std::vector<std::uint64_t> rows) {
    if constexpr (I == 1)
      for (auto& row : rows) row = sparse_key(row);
    return rows;
  }

  template <std::size_t I>
  void push_rows(bool all = false) {
    observer_.asking(worker_.rank(), bound_);
    auto const rows = some_rows(all);
    std::vector<std::int64_t> delta(rows.size() * columns_);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const amount = static_cast<std::int64_t>(1 + random().below(3));
      delta[i * columns_ + worker_.rank()] = amount;
      tell(I, rows[i], amount);
    }
    worker_[table<I>].push(keys_of<I>(rows), delta);
  }

  void push_weights() {
    observer_.asking(worker_.rank(), bound_);
    pushed_weights_ = true;
    bool const whole = random().chance(0.6);
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; row < weight_rows; ++row)
      if (whole || random().chance(0.3)) rows.push_back(row);
    std::vector<float> delta(rows.size());
    for (float& x : delta) x = static_cast<float>(random().uniform() - 0.5);
    if (whole)
      worker_[table<2>].push(delta);
    else
      worker_[table<2>].push(rows, delta);
  }

  // ---- reads

  void read() {
    auto const w = static_cast<way>(random().below(5));
    if (!uses(w)) return;
    staleness const s =
        random().chance(manner_.own_staleness)
            ? std::min(bound_, staleness(static_cast<std::int64_t>(random().below(5))))
            : bound_;
    observer_.asking(worker_.rank(), w == way::sparse_whole ? bound_ : s);
    switch (w) {
      case way::dense_whole:
        return read_dense_whole(s);
      case way::dense_keyed:
        return read_rows<0>(s);
      case way::sparse_whole:
        return read_sparse_whole();
      case way::sparse_keyed:
        return read_rows<1>(s);
      case way::weights:
        return read_weights(s);
    }
  }

  void read_dense_whole(staleness s) {
    std::vector<std::int64_t> out(table_rows * columns_);
    worker_.pull(out, s);
    observer_.read(worker_.rank(), s, 0, observer::kind::whole, all_rows_, out);
  }

  void read_sparse_whole() {
    sparse_snapshot<std::int64_t> got;
    worker_[table<1>].pull(got);
    std::vector<std::int64_t> out(table_rows * columns_);
    for (std::uint64_t row = 0; row < table_rows; ++row) {
      auto const at = std::ranges::lower_bound(got.keys, sparse_key(row));
      if (at == got.keys.end() || *at != sparse_key(row)) continue;
      std::copy_n(
          got.values.begin() + (at - got.keys.begin()) * static_cast<std::ptrdiff_t>(columns_),
          columns_, out.begin() + static_cast<std::ptrdiff_t>(row * columns_));
    }
    observer_.read(worker_.rank(), bound_, 1, observer::kind::whole, all_rows_, out);
  }

  template <std::size_t I>
  void read_rows(staleness s) {
    auto const rows = some_rows(false);
    std::vector<std::int64_t> out(rows.size() * columns_);
    worker_[table<I>].pull(keys_of<I>(rows), out, s);
    observer_.read(worker_.rank(), s, I, observer::kind::keyed, rows, out);
  }

  void read_weights(staleness s) {
    std::vector<float> out(weight_rows);
    worker_[table<2>].pull(out, s);
    for (float const x : out) mix_in(hash_, std::bit_cast<std::uint32_t>(x));
    if (!pushed_weights_)
      observer_.read_before_pushes(worker_.rank(), 2, std::as_bytes(std::span(out)));
  }

  Worker& worker_;
  observer& observer_;
  schedule const& schedule_;
  manner const& manner_;
  staleness bound_;
  std::size_t columns_;
  std::vector<std::uint64_t> all_rows_;
  bool pushed_weights_ = false;
  std::uint64_t hash_ = 0;
};

/// The server of each row, once for each counting table.
[[nodiscard]] inline std::vector<std::vector<std::uint32_t>> servers_of_rows(schedule const& s) {
  std::vector<std::vector<std::uint32_t>> all(2);
  for (std::uint64_t row = 0; row < table_rows; ++row) {
    all[0].push_back(scattered{s.seed}.server_of(key{row}, {table_rows, s.servers}).value());
    all[1].push_back(scattered{s.seed}.server_of(key{sparse_key(row)}, {0, s.servers}).value());
  }
  return all;
}

/// Makes the cluster of an observed run on a transport.
template <class Transport, protocol P>
[[nodiscard]] auto make_cluster(Transport transport, P const& p, schedule const& s,
                                std::span<float const> weights) {
  using protocol_type = observed<P>;
  return cluster<Transport, protocol_type, counting_dense, counting_sparse, weight_table<P>>(
      std::move(transport), protocol_type{p, s.commits_by_hand},
      counting_dense{.rows = table_rows, .width = s.workers_ever(), .partition = {s.seed}},
      counting_sparse{.width = s.workers_ever(), .partition = {s.seed}},
      weight_table<P>(dense<float>{.rows = weight_rows, .init = weights}));
}

/// The final sparse table as if it were dense.
[[nodiscard]] inline std::vector<std::int64_t> spread(sparse_snapshot<std::int64_t> const& rows,
                                                      std::size_t columns) {
  std::vector<std::int64_t> out(table_rows * columns);
  for (std::size_t row = 0; row < table_rows; ++row) {
    auto const at = std::ranges::find(rows.keys, sparse_key(row));
    if (at != rows.keys.end())
      std::copy_n(
          rows.values.begin() + (at - rows.keys.begin()) * static_cast<std::ptrdiff_t>(columns),
          columns, out.begin() + static_cast<std::ptrdiff_t>(row * columns));
  }
  return out;
}

/// Checks the final tables.
template <class Cluster>
void check_result(Cluster& c, observer& o, schedule const& s, run_report const& report) {
  auto const& counted = c.template parameters<0>();
  o.finish(0, counted);
  o.finish(1, spread(c.template parameters<1>(), s.workers_ever()));
  if (s.prompt) o.finish_lost(0, counted);
  if (auto const partly = o.partly_folded(0, counted); partly != report.servers.partly_folded)
    o.breach("servers counted ", report.servers.partly_folded,
             " commits of lost workers that are on some servers only, but there are ", partly);
  for (float const x : c.template parameters<2>())
    if (!std::isfinite(x)) return o.breach("in the end a weight is not finite");
}

[[nodiscard]] inline std::vector<float> first_weights(std::uint64_t seed) {
  random_stream random(seed, 0x0017);
  std::vector<float> weights(weight_rows);
  for (float& x : weights) x = static_cast<float>(random.uniform());
  return weights;
}

}  // namespace detail

/// Runs protocol `p` on a schedule in virtual time, watched by an observer after every event.
/// A deadlock or any other error of the run is one of the violations.
template <protocol P>
[[nodiscard]] outcome observed_run(P const& p, schedule const& s, rules const& r) {
  observer o(r, s.workers, s.workers_ever(), detail::servers_of_rows(s));
  std::vector<float> const init = detail::first_weights(s.seed);
  auto c = detail::make_cluster(simulated{.workers = s.workers,
                                          .servers = s.servers,
                                          .scenario = s.scenario,
                                          .stack_bytes = 64 * 1024},
                                p, s, init);
  outcome result;
  c.runtime().on_event([&] {
    o.check_servers(c.servers());
    detail::mix_in(result.events, static_cast<std::uint64_t>(c.now().since_start().count()));
    detail::mix_in(result.events, o.commits());
    for (std::uint32_t n = 0; n < s.servers; ++n)
      c.servers().server(server_id{n}).inspect([&](auto const& control) {
        detail::mix_in(result.events, static_cast<std::uint64_t>(control.published().value()));
      });
  });
  try {
    result.report = c.run(
        [&](auto& w) { detail::mix_in(result.reads, detail::actor(w, o, s, r.bound).run()); });
    detail::check_result(c, o, s, result.report);
  } catch (std::exception const& e) {
    o.breach(e.what());
  }
  result.weights = c.template parameters<2>();
  result.violations = o.violations();
  return result;
}

}  // namespace rubato::testing
