// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
//
// The engine without fibers: whole simulations written as loops over an event queue.
#include <rubato/sim/event_queue.hpp>
#include <rubato/sim/network.hpp>
#include <rubato/sim/speed.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <deque>
#include <vector>

using namespace rubato;
using namespace std::chrono_literals;

TEST_CASE("an M/M/1 queue waits as theory says", "[sim][engine]") {
  enum class event { arrival, departure };
  sim::event_queue<event> queue;
  random_stream arrivals(1, 0);
  random_stream services(1, 1);
  auto const gap = [&] { return stretch(10us, arrivals.exponential()); };
  auto const service = [&] { return stretch(7us, services.exponential()); };  // load 0.7

  std::deque<time_point> present;
  duration sojourn{0};
  int departures = 0;
  queue.push(time_point(gap()), event::arrival);
  while (departures < 400'000) {
    if (queue.pop() == event::arrival) {
      present.push_back(queue.now());
      if (present.size() == 1) queue.push(queue.now() + service(), event::departure);
      queue.push(queue.now() + gap(), event::arrival);
    } else {
      sojourn += queue.now() - present.front();
      present.pop_front();
      ++departures;
      if (!present.empty()) queue.push(queue.now() + service(), event::departure);
    }
  }
  // 1 / (mu - lambda) = 1 / (1/7us - 1/10us)
  CHECK(to_seconds(sojourn) / departures == Approx(70e-6 / 3).epsilon(0.03));
}

namespace {

struct round_trips {
  std::vector<std::uint32_t> order;  // whose request the server got
  time_point end;

  bool operator==(round_trips const&) const = default;
};

// Workers compute, send to one server, wait for the reply, and go on.
round_trips run(std::uint32_t workers, int rounds, std::uint64_t seed) {
  sim::speed_model const speed(
      {.work_cost = 1us, .heterogeneity = {.level = 3}, .jitter = sim::lognormal{.sigma = 0.2}},
      workers);
  sim::network net({.worker_link = {.latency = 50us, .jitter = sim::exponential{}},
                    .server_bandwidth = 1'000'000'000});
  struct event {
    enum class kind : std::uint8_t { computed, at_server, at_worker } what;
    std::uint32_t worker;
  };
  sim::event_queue<event> queue;
  std::vector<random_stream> random;
  std::vector<int> left(workers, rounds);
  for (std::uint32_t w = 0; w < workers; ++w) {
    random.emplace_back(seed, w);
    queue.push(speed.step(worker_id(w), 100, {}, random[w]) + time_point(),
               {event::kind::computed, w});
  }
  round_trips result;
  while (!queue.empty()) {
    auto const [what, w] = queue.pop();
    time_point const now = queue.now();
    switch (what) {
      case event::kind::computed:
        queue.push(net.send(worker_id(w), server_id(0), 1000, now, random[w]).delivered,
                   {event::kind::at_server, w});
        break;
      case event::kind::at_server:
        result.order.push_back(w);
        queue.push(net.send(server_id(0), worker_id(w), 1000, now, random[w]).delivered,
                   {event::kind::at_worker, w});
        break;
      case event::kind::at_worker:
        if (--left[w] == 0) break;
        queue.push(now + speed.step(worker_id(w), 100, now, random[w]), {event::kind::computed, w});
        break;
    }
  }
  result.end = queue.now();
  return result;
}

}  // namespace

TEST_CASE("a simulation over links repeats exactly, and its seed matters", "[sim][engine]") {
  round_trips const once = run(20, 50, 1);
  CHECK(once.order.size() == 1000);
  CHECK(once == run(20, 50, 1));
  CHECK_FALSE(once == run(20, 50, 2));

  // The order of events, and here the end to the nanosecond, are the same under every compiler.
  std::uint64_t digest = 0;
  for (std::uint32_t const w : once.order) digest = detail::mix64(digest ^ w);
  CHECK(digest == 0x7860160ec48a7a32u);
  CHECK(once.end.since_start() == 21'174'299ns);
}

TEST_CASE("ten thousand workers and one server are cheap", "[sim][engine]") {
  CHECK(run(10'000, 5, 1).order.size() == 50'000);
}
