// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <chrono>
#include <cstdint>

#include "bench/setup/edge.hpp"
#include "bench/setup/scenario_file.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t gigabit = 125'000'000;  // bytes per second

/// The 40-node cluster of 000 §7.1, "1GB Ethernet" read as 1 Gbit/s. The price of a non-zero is the
/// paper's: Petuum's BSP on URL takes 134 s for 27 clocks of 2.4M x 500 values on 30 workers, 124
/// ns for each value with communication, of which 100 ns are taken as compute.
sim::scenario homogeneous(std::size_t /*workers*/) {
  return {.speed = {.work_cost = 100ns},
          .network = {.worker_link = {.latency = 100us, .bandwidth = gigabit},
                      .server_bandwidth = gigabit}};
}

/// Machines are never in lockstep: a twentieth of jitter on each step, a fifth on each message.
sim::scenario paper_cluster(std::size_t workers) {
  sim::scenario s = homogeneous(workers);
  s.speed.jitter = sim::lognormal{.sigma = 0.05};
  s.network.worker_link.jitter = sim::lognormal{.sigma = 0.2};
  return s;
}

/// The cluster of 002 §7.2, 16 workers on 4 machines: 4 workers to a machine, or nearly so where
/// they do not come out even, share its card of 1 Gbit/s; a server has such a card to itself. Steps
/// are alike, for the paper's slowdowns are added apart. What it does not say is taken from above,
/// the price of a non-zero too: how long a step of its CNN takes beside an exchange of parameters
/// is not known. 10 us within a machine are a guess, those of a loopback device.
sim::scenario hop_cluster(std::size_t workers) {
  sim::scenario s = homogeneous(workers);
  s.network.worker_link.jitter = sim::lognormal{.sigma = 0.2};
  s.network.local_link = {.latency = 10us, .jitter = sim::lognormal{.sigma = 0.2}};
  s.machine_of = sim::blocks(workers, (workers + 3) / 4);
  return s;
}

/// A cluster that others use too: steps that stall now and then, messages that take ten times as
/// long, one machine that is slow for a while.
sim::scenario flaky(std::size_t workers) {
  sim::scenario s = paper_cluster(workers);
  s.speed.random_slowdown = {.probability = 1.0 / 30, .factor = 6};
  s.network.worker_link.jitter = sim::pareto{.least = 0.8, .alpha = 1.5, .cap = 50};
  s.speed.changes = {{.worker = worker_id(0), .at = 5ms, .factor = 4},
                     {.worker = worker_id(0), .at = 20ms, .factor = 1}};
  return s;
}

/// Devices at the edge, which 003 emulates on EC2: 2 us for a non-zero value, a mean device's time,
/// make 10 ms of a mini-batch of 100 MNIST images in 14 x 14, and 10 ms of latency with 20 Mbit/s
/// make some 40 ms of a commit and a pull of a network with 6634 parameters. So an exchange takes
/// as long as a few steps, as 003 §5.2 says of edge systems ("could be even larger than the
/// processing time in each step"); it gives no figures. The servers are in a data centre.
sim::scenario edge(std::vector<double> slowness) {
  constexpr std::uint64_t megabit = gigabit / 1000;
  return {.speed = {.work_cost = 2us,
                    .slowness = std::move(slowness),
                    .jitter = sim::lognormal{.sigma = 0.1}},
          .network = {.worker_link = {.latency = 10ms,
                                      .jitter = sim::lognormal{.sigma = 0.3},
                                      .bandwidth = 20 * megabit},
                      .server_bandwidth = gigabit}};
}

/// The testbed of 003 §5.1 and table 1, in other sizes by the same shares. With 18 workers, as
/// there, and with any multiple of 18 the heterogeneity H is 2.06.
sim::scenario ec2_edge(std::size_t workers) { return edge(edge_mix(ec2_devices(), workers)); }

/// Phones (003, table 2) on a mobile network of the fourth generation: 25 ms each way, 10 Mbit/s,
/// and both vary more. H is 2.38 where the mix is whole.
sim::scenario phones_alone(std::size_t workers) {
  sim::scenario s = edge(edge_mix(phones(), workers));
  s.speed.jitter = sim::lognormal{.sigma = 0.2};
  s.network.worker_link = {
      .latency = 25ms, .jitter = sim::lognormal{.sigma = 0.5}, .bandwidth = gigabit / 100};
  return s;
}

/// Every third phone leaves without a word, one each 1.5 seconds, and one of mean speed joins a
/// second after each. What is left is two thirds of the beginning and those that joined.
sim::scenario phones_come_and_go(std::size_t workers) {
  sim::scenario s = phones_alone(workers);
  for (std::size_t i = 1; i <= workers / 3; ++i) {
    duration const at = static_cast<duration::rep>(i) * 1500ms;
    s.crashes.push_back({.worker = worker_id(static_cast<std::uint32_t>(3 * i - 1)), .at = at});
    s.joins.push_back({.at = at + 1s});
  }
  s.detection_delay = 500ms;
  return s;
}

}  // namespace

std::vector<named_scenario> const& built_in_scenarios() {
  static std::vector<named_scenario> const all = {
      {"paper-cluster", "1 Gbit/s Ethernet, 100 us latency, 100 ns per value, a little jitter",
       paper_cluster},
      {"homogeneous", "the same without any jitter", homogeneous},
      {"flaky", "the same with stalls, slow messages and a machine that is slow for a while",
       flaky},
      {"hop-cluster",
       "002's machines, 4 workers to each: 1 Gbit/s and 100 us between them, 10 us within",
       hop_cluster},
      {"ec2-edge",
       "003's EC2 instances of 2, 4 and 8 vCPUs, 10 ms latency, 20 Mbit/s, 2 us per value",
       ec2_edge},
      {"phones", "003's mix of phones, 25 ms latency, 10 Mbit/s, 2 us per value on a mean phone",
       phones_alone},
      {"phones-come-and-go", "the same, and every 1.5 s one leaves and another joins",
       phones_come_and_go},
  };
  return all;
}

}  // namespace rubato::bench
