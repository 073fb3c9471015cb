// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols whose servers move the parameters element by element, or fold by rounds and ages, those whose workers send
// a part of what there is to send, and those whose workers renew their copies, whichever way they are carried.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/async_diloco.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/diloco.hpp>
#include <rubato/protocol/discount.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/essp.hpp>
#include <rubato/protocol/fed_adam.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/fed_buff.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/k_async.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/lag.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/slow_mo.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/staleness_aware.hpp>
#include <rubato/protocol/streaming_diloco.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/transport/tcp.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

using floats = std::vector<float>;
constexpr std::size_t size = 20'000;  // more than a chunk, and than what a link sends in one piece
constexpr std::int64_t steps = 3;

std::vector<rules> all_of_them() {
  return {fed_adam{.steps = steps},         with(fed_adam{.steps = steps}, yogi{}), slow_mo{.steps = steps},
          diloco{.steps = steps},           async_diloco{.steps = steps},           dc_asgd{.fold = {.lambda = 0.5}},
          with(dc_asgd{}, compensate_adaptive{}), easgd{.steps = steps}};
}

std::vector<rules> those_by_rounds() {
  return {k_sync{}, k_async{}, fed_avg{.of = 1, .steps = steps}, fed_buff{.k = 1, .steps = steps}, staleness_aware{}};
}

std::vector<rules> those_with_filters() {
  return {gaia{.significant = {.threshold = 0.1}}, streaming_diloco{.steps = 2 * steps, .fragments = steps},
          lag{.trigger = 1}};
}

/// A bowl, whose gradient differs from element to element.
auto descend(std::int64_t local_steps, floats& last) {
  return [local_steps, &last](auto& worker) {
    floats w(size), u(size);
    for (std::int64_t n = 0; n < local_steps; ++n) {
      worker.pull(w);
      for (std::size_t i = 0; i < size; ++i) u[i] = -0.01F * static_cast<float>(i % 17 + 1) * (w[i] - 1);
      worker.push(u);
      worker.step();
    }
    worker.pull(last = w);
  };
}

std::size_t first_difference(floats const& a, floats const& b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

template <class Transport>
std::pair<floats, floats> train(Transport transport, rules const& p) {
  cluster c{std::move(transport), p, dense<float>{.rows = size}};
  floats last;
  c.run(descend(6 * steps, last));
  auto const center = c.parameters();
  return {floats(center.begin(), center.end()), last};
}

/// What the one worker reads in the end, in processes that this program plays.
floats train_over_tcp(rules const& p, int number) {
  net::deployment place;
  place.coordinator.path = "/tmp/rubato-elements-" + std::to_string(::getpid()) + "-" + std::to_string(number);
  place.silence = 10s;
  place.patience = 20s;
  place.servers = 2;
  auto const serve = [&](net::role as, std::uint32_t rank) {
    return std::thread([place, as, rank, &p]() mutable {
      place.as = as;
      place.rank = rank;
      cluster c{tcp{.place = place}, p, dense<float>{.rows = size}};
      c.run([](auto&) {});
    });
  };
  std::vector<std::thread> others;
  others.push_back(serve(net::role::coordinator, 0));
  for (std::uint32_t s = 0; s < place.servers; ++s) others.push_back(serve(net::role::server, s));
  floats last;
  {
    cluster c{tcp{.place = place}, p, dense<float>{.rows = size}};
    c.run(descend(6 * steps, last));
  }
  for (auto& t : others) t.join();
  return last;
}

/// Threads, the simulator with as many servers, and processes come to the same parameters, and show the worker the
/// same.
floats same_everywhere(rules const& p, int number) {
  auto const [center, last] = train(in_process{.workers = 1, .servers = 2}, p);
  auto const [simulated_center, simulated_last] = train(simulated{.workers = 1, .servers = 2}, p);
  CHECK(first_difference(simulated_center, center) == size);
  CHECK(first_difference(simulated_last, last) == size);
  CHECK(first_difference(train_over_tcp(p, number), last) == size);
  return center;
}

}  // namespace

TEST_CASE("merges by element: of one worker all transports make the same, bit for bit", "[threads]") {
  int number = 0;
  for (rules const& p : all_of_them()) {
    INFO(p.name);
    floats const center = same_everywhere(p, number++);
    CHECK(center[1] != 0);
    CHECK(first_difference(train(simulated{.workers = 1, .servers = 3}, p).first, center) == size);
  }
}

// Over TCP the servers send such a table from where it lies: an age counts from that read, too.
TEST_CASE("rounds and ages: of one worker all transports make the same, bit for bit", "[threads]") {
  int number = 100;
  for (rules const& p : those_by_rounds()) {
    INFO(p.name);
    CHECK(same_everywhere(p, number++)[1] != 0);
  }
}

TEST_CASE("filters: of one worker all transports make the same, bit for bit", "[threads]") {
  int number = 200;
  for (rules const& p : those_with_filters()) {
    INFO(p.name);
    floats const center = same_everywhere(p, number++);
    CHECK(first_difference(train(in_process{.workers = 1, .servers = 2}, with(p, send_all{})).first, center) != size);
  }
}

TEST_CASE("renewed copies: of one worker all transports make the same, bit for bit", "[threads]") {
  CHECK(same_everywhere(essp{.staleness = 4}, 300)[1] != 0);
}

TEST_CASE("discount: updates of threads of a process count as those of processes do") {
  auto const counted = [](bool together, auto const& protocol) {
    sim::scenario const one_machine{.machine_of = {0, 0, 0, 0}, .one_process_per_machine = together};
    cluster c{simulated{.workers = 4, .scenario = one_machine}, protocol, dense<double>{.rows = 4}};
    c.run([](auto& worker) {
      std::vector<double> w(4), mine(4);
      mine[worker.rank()] = 1;
      for (int i = 0; i < 50; ++i) {
        worker.pull(w);
        worker.push(mine);
        worker.step(100);
      }
    });
    return c.parameters();
  };
  CHECK(counted(true, with(bsp{}, discount{})) == counted(false, with(bsp{}, discount{})));
  CHECK(std::ranges::min(counted(true, staleness_aware{})) > 10);  // of 50, each of an age of about 3
}

TEST_CASE("easgd: each worker reads its own variable, also where those of a process share what they fetch",
          "[threads]") {
  constexpr std::uint32_t workers = 4;
  auto const check = [](auto transport, rules const& p) {
    cluster c{std::move(transport), p, dense<double>{.rows = 3}};
    std::vector<double> went(workers);
    c.run([&went](auto& worker) {
      std::vector<double> w(3);
      worker.pull(w);
      double const begin = w[0];
      for (int n = 0; n < 20; ++n) {
        worker.push(std::vector<double>(3, worker.rank() + 1));
        worker.step(1.0);
        worker.pull(w);
      }
      went[worker.rank()] = w[0] - begin;
    });
    // All that they pushed, but for what the springs hold back: 80/1024 in a step at most.
    for (std::uint32_t w = 0; w < workers; ++w) CHECK(went[w] == Approx(20.0 * (w + 1)).margin(3));
  };
  elastic const loose{.alpha = 1.0 / 1024};
  sim::speed_options const uneven{
      .work_cost = 1ms, .slowness = {1, 1.3, 1.1, 1.4}, .jitter = sim::uniform{0.5, 2}};
  sim::scenario const together{.speed = uneven,
                               .machine_of = sim::blocks(workers, 2),
                               .one_process_per_machine = true};
  for (rules const& p : {rules(easgd{.steps = 1, .fold = loose}), rules(with(ssp{.staleness = 4}, loose))}) {
    INFO(p.name);
    check(in_process{.workers = workers, .process_cache = true}, p);
    check(simulated{.workers = workers, .scenario = together}, p);
  }
}
