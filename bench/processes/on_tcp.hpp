// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench/processes/cluster.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/transport/tcp.hpp"

// Heavy to instantiate: each family of protocols has a source file of its own that includes this.

namespace rubato::bench {

template <class Worker>
class worker_on_tcp final : public process_worker {
 public:
  explicit worker_on_tcp(Worker& w) noexcept : worker_(w) {}

  std::uint32_t rank() const noexcept override { return worker_.rank(); }
  clock_index clock() const noexcept override { return worker_.clock(); }
  std::int64_t steps_since_commit() const noexcept override { return worker_.steps_since_commit(); }
  time_point now() const override { return worker_.now(); }
  worker_metrics const& metrics() const noexcept override { return worker_.metrics(); }
  void pull(std::span<float> out) override { worker_.pull(out); }
  void push(std::span<float const> delta) override { worker_.push(delta); }
  bool step(double work) override { return worker_.step(work); }

 private:
  Worker& worker_;
};

template <class Protocol, class Table>
class cluster_on_tcp final : public process_cluster {
 public:
  cluster_on_tcp(tcp const& options, Protocol const& p, Table const& table)
      : cluster_(options, p, table) {}

  net::address bound() const override { return cluster_.runtime().bound(); }
  run_report run(body const& train, loss const& objective) override {
    return cluster_.run(
        [&](auto& worker) {
          worker_on_tcp handle(worker);
          train(handle);
        },
        [&](std::vector<float> const& parameters) { return objective(parameters); });
  }
  std::vector<float> observe() const override { return cluster_.observe(); }
  std::uint64_t updates() const override { return cluster_.updates(); }
  time_point now() const override { return cluster_.now(); }
  void stop() override { cluster_.stop(); }

 private:
  mutable cluster<tcp, Protocol, Table> cluster_;  // its runtime() is not const
};

template <class Protocol, class Table>
[[nodiscard]] std::unique_ptr<process_cluster> put_on_tcp(net::deployment const& place,
                                                          std::uint64_t seed, Protocol const& p,
                                                          Table const& table) {
  return std::make_unique<cluster_on_tcp<Protocol, Table>>(tcp{.place = place, .seed = seed}, p,
                                                           table);
}

}  // namespace rubato::bench
