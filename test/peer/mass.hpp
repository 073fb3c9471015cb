// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/push_node.hpp>
#include <rubato/testing/peer_schedule.hpp>
#include <rubato/transport/simulated.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "peer/wrapped_node.hpp"

/// Weights and parameters of all peers together, with what is under way between them.
namespace rubato::test {

/// What all have: the weight, and each parameter times its weight.
struct mass {
  double weight = 0;
  std::vector<double> parameters;

  void add(double w, std::span<std::byte const> bytes, double sign = 1) {
    auto const* const x = reinterpret_cast<double const*>(bytes.data());
    parameters.resize(bytes.size() / sizeof(double));
    weight += sign * w;
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += sign * w * x[i];
  }
};

/// A protocol whose messages are weighed from when they are sent until they arrive. In virtual time only, where
/// nobody runs beside another.
template <class Protocol>
class weighed {
 public:
  weighed(Protocol const& p, mass& under_way) : inner_(p), under_way_(&under_way) {}
  [[nodiscard]] std::unique_ptr<peer_node> make_node(node_setup const& setup) const {
    return std::make_unique<node>(inner_.make_node(setup), *under_way_);
  }

  class node final : public wrapped_node {
   public:
    node(std::unique_ptr<peer_node> inner, mass& under_way) : wrapped_node(std::move(inner)), under_way_(under_way) {}
    [[nodiscard]] push_node const& pushes() const { return dynamic_cast<push_node const&>(inner()); }

    [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox& out) override {
      double const w = push_node::weight_of(m);
      if (w != 0) under_way_.add(w, m.parameters->values.bytes(), -1);
      return wrapped_node::deliver(from, std::move(m), out);
    }
    void begin(peer_endpoint& e, std::int64_t iterations) override {
      end mine(e, under_way_);
      wrapped_node::begin(mine, iterations);
    }
    void step(peer_endpoint& e, std::span<std::byte const> gradient) override {
      end mine(e, under_way_);
      wrapped_node::step(mine, gradient);
    }

   private:
    struct end final : peer_endpoint {
      end(peer_endpoint& e, mass& m) : inner(e), under_way(m) {}
      void post(worker_id to, peer_message&& m) override {
        double const w = push_node::weight_of(m);
        if (w != 0) under_way.add(w, m.parameters->values.bytes());
        inner.post(to, std::move(m));
      }
      void wait() override { inner.wait(); }
      [[nodiscard]] time_point now() const override { return inner.now(); }
      void charge(double work) override { inner.charge(work); }
      void checkpoint() override { inner.checkpoint(); }
      void lock() override {}
      void unlock() override {}
      peer_endpoint& inner;
      mass& under_way;
    };
    mass& under_way_;
  };

 private:
  Protocol inner_;
  mass* under_way_;
};

/// Runs a protocol on a schedule twice: peers come apart in the first run, and add nothing in the second, after each
/// event of which all that there is must be what there was. Returns what is wrong, or nothing.
template <class Protocol>
[[nodiscard]] std::string loses_mass(Protocol const& p, testing::peer_schedule const& s) {
  constexpr std::size_t size = 3;
  mass under_way;
  peer_group group{simulated{.scenario = s.scenario, .stack_bytes = 64 * 1024}, s.mixing, weighed(p, under_way),
                   plain_step{}, std::vector<double>{1, -2, 0.5}};
  group.run([](auto& peer) {
    for ([[maybe_unused]] auto const k : peer.iterations(1))
      peer.step(std::vector{peer.random().normal(), 1.0 * peer.rank(), 3.0});
  });
  mass before;
  for (std::uint32_t i = 0; i < group.size(); ++i) {
    auto const x = group.parameters(i);
    before.add(1, std::as_bytes(std::span(x)));
  }
  std::string wrong;
  std::uint64_t looks = 0;
  auto const look = [&] {
    if (!wrong.empty()) return;
    ++looks;
    mass all = under_way;
    all.parameters.resize(size);
    for (std::uint32_t i = 0; i < group.size(); ++i)
      group.runtime().look_at(i, [&](peer_node const& n) {
        push_node const& one = dynamic_cast<typename weighed<Protocol>::node const&>(n).pushes();
        all.add(one.weight(), one.share()->values.bytes());
        for (auto const& [w, x] : one.waiting()) all.add(w, x->values.bytes());
      });
    if (std::abs(all.weight - group.size()) > 1e-9)
      wrong = "all weights are " + std::to_string(all.weight) + ", expected " + std::to_string(group.size());
    for (std::size_t i = 0; i < size; ++i)
      if (std::abs(all.parameters[i] - before.parameters[i]) > 1e-9 * (1 + std::abs(before.parameters[i])))
        wrong = "parameters number " + std::to_string(i) + " are " + std::to_string(all.parameters[i]) +
                ", expected " + std::to_string(before.parameters[i]);
  };
  group.runtime().on_event(look);
  auto const report = group.run([&](auto& peer) {
    for (std::int64_t const k : peer.iterations(s.asks_for(peer.rank()))) {
      if (k >= s.makes(peer.rank())) return;
      peer.step(std::vector<double>(size));
    }
  });
  look();
  std::uint64_t made = 0;
  for (std::uint32_t i = 0; i < group.size(); ++i) made += static_cast<std::uint64_t>(s.makes(i));
  if (report.iterations() != made) wrong = "peers made " + std::to_string(report.iterations()) + " iterations";
  if (looks < 2) wrong = "nobody looked";
  return wrong;
}

}  // namespace rubato::test
