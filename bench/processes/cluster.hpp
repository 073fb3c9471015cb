// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/net/address.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/protocol/adaptive_period.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/commit_rate.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/revise.hpp"
#include "rubato/protocol/visibility.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"

namespace rubato::bench {

/// A worker of a run across processes, whatever its protocol: what training bodies call.
class process_worker {
 public:
  virtual ~process_worker() = default;
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual clock_index clock() const noexcept = 0;
  [[nodiscard]] virtual std::int64_t steps_since_commit() const noexcept = 0;
  [[nodiscard]] virtual time_point now() const = 0;
  [[nodiscard]] virtual worker_metrics const& metrics() const noexcept = 0;
  virtual void pull(std::span<float> out) = 0;
  virtual void push(std::span<float const> delta) = 0;
  virtual bool step(double work) = 0;
};

/// One process of a run, whatever its protocol and role: a `cluster` on TCP behind virtual
/// functions, so that what is done with it is compiled once and not for each protocol.
class process_cluster {
 public:
  using body = std::function<void(process_worker&)>;
  using loss = std::function<double(std::vector<float> const&)>;

  virtual ~process_cluster() = default;
  /// Where this server or coordinator listens.
  [[nodiscard]] virtual net::address bound() const = 0;
  /// In a server or coordinator it serves, and the report is empty.
  virtual run_report run(body const& train, loss const& objective) = 0;
  [[nodiscard]] virtual std::vector<float> observe() const = 0;
  [[nodiscard]] virtual std::uint64_t updates() const = 0;
  [[nodiscard]] virtual time_point now() const = 0;
  virtual void stop() = 0;
};

/// The admission of any protocol here, so that those that differ in nothing else are one type.
class any_admission {
 public:
  any_admission(barrier a) noexcept : rule_(a) {}
  any_admission(bounded_staleness a) noexcept : rule_(a) {}
  any_admission(unbounded a) noexcept : rule_(a) {}

  [[nodiscard]] staleness bound() const noexcept {
    return std::visit([](auto const& a) { return a.bound(); }, rule_);
  }
  [[nodiscard]] clock_index need(clock_index c, staleness s) const noexcept {
    return std::visit([&](auto const& a) { return a.need(c, s); }, rule_);
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness s) const noexcept {
    return std::visit([&](auto const& a) { return a.cache_need(c, s); }, rule_);
  }

 private:
  std::variant<barrier, bounded_staleness, unbounded> rule_;
};
static_assert(admission_policy<any_admission>);

template <class Visibility, class Merge, class Pace>
using rules = composed<any_admission, Visibility, Merge, Pace>;

// The families of protocols that run across processes. Each takes long to compile, so each has a
// source file of its own in families/, and a new one is a line here and a file there.

/// bsp, fixed_ada_comm
[[nodiscard]] std::unique_ptr<process_cluster> make_process_cluster(
    net::deployment const& place, std::uint64_t seed, rules<strict, average, every> const& p,
    dense<float> const& table);
/// ssp, asp, con_sgd
[[nodiscard]] std::unique_ptr<process_cluster> make_process_cluster(
    net::deployment const& place, std::uint64_t seed, rules<eager, scale, every> const& p,
    dense<float> const& table);
/// dyn_sgd
[[nodiscard]] std::unique_ptr<process_cluster> make_process_cluster(
    net::deployment const& place, std::uint64_t seed, rules<eager, revise, every> const& p,
    multi_version<dense<float>> const& table);
/// ada_comm
[[nodiscard]] std::unique_ptr<process_cluster> make_process_cluster(
    net::deployment const& place, std::uint64_t seed,
    rules<strict, average, adaptive_period> const& p, dense<float> const& table);
/// adsp
[[nodiscard]] std::unique_ptr<process_cluster> make_process_cluster(
    net::deployment const& place, std::uint64_t seed, rules<eager, scale, commit_rate> const& p,
    dense<float> const& table);

/// A sum is a scaled one, by 1.
template <class Merge>
[[nodiscard]] auto merge_in_family(Merge const& m) {
  if constexpr (std::same_as<Merge, sum>)
    return scale{.lambda = 1};
  else
    return m;
}

/// `p` as a member of its family.
template <protocol Protocol>
[[nodiscard]] auto rules_of(Protocol const& p) {
  return composed(any_admission(p.admission()), p.visibility(), merge_in_family(p.merge()),
                  p.pace(), name_of(p));
}

/// Whether the protocol belongs to one of the families.
template <class Protocol, class Table>
concept runs_across_processes = requires(net::deployment const& place, Protocol const& p,
                                         Table const& table) {
  make_process_cluster(place, std::uint64_t{}, rules_of(p), table);
};

}  // namespace rubato::bench
