// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "bench/reproduce/psp.hpp"
#include "bench/train/body.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/sim/speed.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench::psp17 {

using namespace std::chrono_literals;

std::vector<std::int64_t> progress_of(rules const& p, progress_setting const& how) {
  sim::heterogeneity const slow{.level = how.slower, .slow_fraction = how.slow};
  sim::scenario const place{.speed = {.work_cost = 1s, .heterogeneity = slow},
                            .network = {.worker_link = {.latency = 0ms}},
                            .seed = how.seed};
  cluster c{simulated{.workers = how.workers, .servers = 1, .scenario = place}, p, dense<float>{.rows = 1}};
  std::vector<std::int64_t> steps(how.workers);
  time_point const end(seconds(how.seconds));
  c.run([&](training_worker& worker) {
    random_stream random(how.seed, worker.rank());
    std::vector<float> read(1);
    std::vector<float> const one = {1};
    for (;;) {
      worker.pull(read);
      worker.push(one);
      worker.step(1 + random.exponential());
      if (worker.now() > end) return;
      ++steps[worker.rank()];
    }
  });
  std::ranges::sort(steps);
  return steps;
}

namespace {

class redrawing_model {
 public:
  redrawing_model(std::int64_t s, std::uint32_t count, double again, progress_setting const& how)
      : s_(s), count_(count), again_(again), how_(how), random_(how.seed, 0x5a), steps_(how.workers),
        samples_(how.workers), waits_(how.workers, false) {
    for (std::size_t w = 0; w < steps_.size(); ++w) compute(w, 0);
  }

  std::vector<std::int64_t> run() {
    while (!events_.empty() && events_.top().first <= how_.seconds) {
      auto const [now, w] = events_.top();
      events_.pop();
      if (waits_[w]) {
        draw(w);
        try_again(w, now);
        if (waits_[w]) events_.emplace(now + again_, w);
        continue;
      }
      ++steps_[w];
      draw(w);
      waits_[w] = true;
      try_again(w, now);
      if (waits_[w] && again_ > 0) events_.emplace(now + again_, w);
      if (again_ > 0) continue;
      for (std::size_t other = 0; other < steps_.size(); ++other)
        if (waits_[other]) try_again(other, now);
    }
    std::ranges::sort(steps_);
    return steps_;
  }

 private:
  using event = std::pair<double, std::size_t>;

  void compute(std::size_t w, double now) {
    sim::heterogeneity const slow{.level = how_.slower, .slow_fraction = how_.slow};
    bool const is_slow = w >= how_.workers - slow.slow_workers(how_.workers);
    events_.emplace(now + (is_slow ? how_.slower : 1) * (1 + random_.exponential()), w);
  }
  void draw(std::size_t w) {
    std::vector<std::size_t> others(steps_.size());
    std::iota(others.begin(), others.end(), std::size_t{0});
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(w));
    random_.shuffle(std::span(others));
    others.resize(std::min<std::size_t>(count_, others.size()));
    samples_[w] = std::move(others);
  }
  void try_again(std::size_t w, double now) {
    if (std::ranges::any_of(samples_[w], [&](std::size_t other) { return steps_[other] < steps_[w] - s_; })) return;
    waits_[w] = false;
    compute(w, now);
  }

  std::int64_t s_;
  std::uint32_t count_;
  double again_;
  progress_setting how_;
  random_stream random_;
  std::vector<std::int64_t> steps_;
  std::vector<std::vector<std::size_t>> samples_;
  std::vector<bool> waits_;
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
};

}  // namespace

std::vector<std::int64_t> modelled_progress(std::int64_t s, std::uint32_t count, double again,
                                            progress_setting const& how) {
  return redrawing_model(s, count, again, how).run();
}

spread spread_of(std::vector<std::int64_t> const& sorted) noexcept {
  auto const at = [&](double share) {
    return static_cast<double>(sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)]);
  };
  return {.median = at(0.5), .fifth = at(0.05), .ninety_fifth = at(0.95)};
}

}  // namespace rubato::bench::psp17
