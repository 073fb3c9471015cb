// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/run/peer_runtime.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/transport/task_mode.hpp"

namespace rubato {

/// What carries a run: the first thing that `cluster` is given, usually a struct of options.
///
/// | expression          | meaning |
/// |---------------------|---------|
/// | `T::runtime_type`   | what it makes: `runtime`, or a class derived from it that can do more |
/// | `t.open(setup)`     | a `std::unique_ptr<T::runtime_type>` that runs what the setup says; throws option_error for what cannot be meant |
///
/// A new transport is a runtime of its own. What it need not write again: `server_group` holds the
/// servers, `worker_run` lets workers live (start, the body, the end, failures, stopping),
/// `run_control` is the coordinator (joins, losses, cuts, the pace's conductor) and tells a `carrier` what
/// is to be told; what is left is an `endpoint` for a worker, who waits and how, and what the time is.
/// `transport/threads` is the shortest.
///
/// A transport that wraps another is a `decorated` one, and needs an `endpoint_decorator` only, of
/// `rubato/worker/endpoint.hpp` ([examples/130](examples/130_a_transport_around_another.cpp)).
/// `testing::check_transport` checks one. Models: `in_process`, `simulated`, `tcp`, `mpi`, `decorated`.
template <class T>
concept transport = std::copyable<T> && std::derived_from<typename T::runtime_type, runtime> &&
                    requires(T const t, run_setup setup) {
                      { t.open(std::move(setup)) } -> std::same_as<std::unique_ptr<typename T::runtime_type>>;
                    };

namespace detail {
/// What a transport has opened. @throws option_error where that is nothing
template <class Runtime>
[[nodiscard]] std::unique_ptr<Runtime> opened(std::unique_ptr<Runtime> made) {
  if (made == nullptr) throw option_error("a transport's open() or open_peers() gives nothing, expected a runtime");
  return made;
}
}  // namespace detail

/// What carries a run of peers: the first thing that `peer_group` is given.
///
/// | expression             | meaning |
/// |------------------------|---------|
/// | `T::peer_runtime_type` | what it makes: `peer_runtime`, or a class derived from it that can do more |
/// | `t.open_peers(setup)`  | a `std::unique_ptr<T::peer_runtime_type>`; throws option_error for what cannot be meant |
///
/// `peer_run` lets peers live; what is left is a `peer_endpoint`. Models: `in_process`, `simulated`, `tcp`, `mpi`.
template <class T>
concept peer_transport =
    std::copyable<T> && std::derived_from<typename T::peer_runtime_type, peer_runtime> &&
    requires(T const t, peer_setup setup) {
      { t.open_peers(std::move(setup)) } -> std::same_as<std::unique_ptr<typename T::peer_runtime_type>>;
    };

/// A transport that an `engine` can have.
///
/// | expression    | meaning |
/// |---------------|---------|
/// | `T::tasks`    | constant, a `task_mode`: how several tasks share it |
/// | `t.nodes()`   | how many workers each node has room for, as a vector: what a run's placement may ask for |
///
/// Models: `in_process`, `simulated`, `tcp`, `mpi`, `decorated` around one of them.
template <class T>
concept task_transport = transport<T> && requires(T const t) {
  { T::tasks } -> std::convertible_to<task_mode>;
  { t.nodes() } -> std::same_as<std::vector<std::uint32_t>>;
};

/// A transport between whose workers and endpoints something stands: `wrap(endpoint, worker_id)` makes it,
/// a `std::unique_ptr<endpoint>` that refers to what it is given, and goes before it. Decorators may be put
/// around each other. `wrap` must not call the cluster; what it throws, or an `option_error` where it gives
/// nothing, is what `run` throws.
template <transport T>
struct decorated {
  T inner;  ///< what carries the run
  run_setup::wrapper wrap;  ///< what stands before each endpoint

  using runtime_type = typename T::runtime_type;
  [[nodiscard]] std::unique_ptr<runtime_type> open(run_setup setup) const {
    setup.wrappers.insert(setup.wrappers.begin(), wrap);
    return inner.open(std::move(setup));
  }

  static constexpr task_mode tasks = [] {
    if constexpr (requires { T::tasks; }) return T::tasks;
    else return task_mode::one_at_a_time;
  }();
  [[nodiscard]] std::vector<std::uint32_t> nodes() const
    requires requires(T const t) { t.nodes(); }
  {
    return inner.nodes();
  }
};
/// So that one writes `decorated{in_process{.workers = 4}, wrap}`.
template <class T, class F>
decorated(T, F) -> decorated<T>;

}  // namespace rubato
