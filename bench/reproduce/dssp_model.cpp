// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "bench/reproduce/dssp.hpp"
#include "bench/train/body.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/sim/distribution.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench::icdcs19 {

using namespace std::chrono_literals;

rules fetching_dssp(staleness low, staleness high) {
  return with(dssp{.low = low, .high = high}, fetching<predicted_staleness>{{low, high}});
}

waits measured_waits(rules const& p, wait_setting const& how) {
  auto const workers = static_cast<std::uint32_t>(how.slowness.size());
  sim::scenario const place{
      .speed = {.work_cost = 1s, .slowness = how.slowness, .jitter = sim::lognormal{.sigma = how.sigma}},
      .network = {.worker_link = {.latency = 0ms}},
      .seed = how.seed};
  cluster c{simulated{.workers = workers, .servers = 1, .scenario = place}, p, dense<float>{.rows = 1}};
  std::vector<std::int64_t> made(workers);
  waits found;
  run_report const report = c.run([&](training_worker& worker) {
    std::vector<float> read(1);
    std::vector<float> const one = {1};
    for (;;) {
      worker.pull(read);
      std::int64_t const least = std::ranges::min(made);
      if (least >= how.clocks) return;
      found.furthest = std::max(found.furthest, made[worker.rank()] - least);
      worker.push(one);
      worker.step();
      ++made[worker.rank()];
    }
  });
  worker_metrics const all = report.total();
  found.waited = to_seconds(all.wait) / to_seconds(all.total());
  found.clocks_a_second = static_cast<double>(all.commits) / to_seconds(report.elapsed);
  return found;
}

namespace {

class model {
 public:
  model(predicted_staleness const& p, extension_rules by, wait_setting const& how)
      : p_(p), by_(by), how_(how), random_(how.seed, 0xd5), time_{.median = 1, .sigma = how.sigma},
        all_(how.slowness.size()) {
    for (std::size_t w = 0; w < all_.size(); ++w) begin(w, 0);
  }

  waits run() {
    double now = 0, waited = 0;
    while (least() < how_.clocks) {
      auto const next = std::ranges::min_element(all_, {}, [](worker const& w) { return w.waits ? never : w.ends; });
      now = next->ends;
      ++next->clock;
      next->before = next->last;
      next->last = now;
      next->from = next->began;
      next->waits = true;
      next->since = now;
      for (std::size_t w = 0; w < all_.size(); ++w) {
        if (!all_[w].waits || !goes_on(w, &all_[w] == &*next)) continue;
        waited += now - all_[w].since;
        begin(w, now);
      }
    }
    std::int64_t clocks = 0;
    for (worker const& w : all_) {
      clocks += w.clock;
      if (w.waits) waited += now - w.since;
    }
    found_.waited = waited / (now * static_cast<double>(all_.size()));
    found_.clocks_a_second = static_cast<double>(clocks) / now;
    return found_;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();
  struct worker {
    std::int64_t clock = 0, granted = 0;
    std::int64_t least = 0;  ///< of all clocks when it committed
    double before = -1, last = -1;  ///< when it committed; below 0: it has not
    double began = 0, ends = 0, since = 0;
    double from = 0;  ///< when it began what it has committed last
    bool waits = false;
  };

  [[nodiscard]] std::int64_t least() const { return std::ranges::min(all_, {}, &worker::clock).clock; }

  void begin(std::size_t w, double now) {
    all_[w].waits = false;
    all_[w].began = now;
    all_[w].ends = now + how_.slowness[w] * time_.draw(random_);
    found_.furthest = std::max(found_.furthest, all_[w].clock - least());
  }
  /// @param asks for an extension, as it does when it has committed
  [[nodiscard]] bool goes_on(std::size_t w, bool asks) {
    worker& me = all_[w];
    if (asks) me.least = least();
    if (by_.one_commit && least() > me.least) return true;
    if (me.clock - p_.low.clocks() <= least() || (asks && me.clock < me.granted)) return true;
    worker const& slowest = *std::ranges::min_element(all_, {}, &worker::clock);
    if (!asks || std::ranges::max(all_, {}, &worker::clock).clock > me.clock || me.before < 0 || slowest.before < 0)
      return false;
    std::int64_t const range = p_.high.clocks() - p_.low.clocks();
    std::int64_t const most = by_.without_end ? range : least() - me.clock + p_.high.clocks() + 1;
    if (most <= 0) return false;
    auto const times = [&](worker const& of) {
      return commit_times{time_point(seconds(by_.by_computing ? of.from : of.before)), time_point(seconds(of.last))};
    };
    me.granted = me.clock + p_.extra(times(me), times(slowest), most);
    return me.clock < me.granted;
  }

  predicted_staleness p_;
  extension_rules by_;
  wait_setting how_;
  random_stream random_;
  sim::lognormal time_;
  std::vector<worker> all_;
  waits found_;
};

}  // namespace

waits modelled_waits(predicted_staleness const& p, extension_rules by, wait_setting const& how) {
  return model(p, by, how).run();
}

}  // namespace rubato::bench::icdcs19
