// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// DSSP's headline in virtual time: beside SSP with each threshold of its range, BSP and ASP, where workers are alike and
// where one is slower; and what it hangs on.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/dssp.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench {
namespace {

constexpr std::int64_t lowest = 3, highest = 15;  ///< the paper's range, of staleness
constexpr std::int64_t apart = 3;                 ///< SSP's in it

/// Algorithm 1 as it is printed: each extension goes up to s_U, and another one may follow it.
struct renewed_staleness : predicted_staleness {
  [[nodiscard]] constexpr staleness bound() const noexcept { return 1 << 20; }
  [[nodiscard]] constexpr std::int64_t extra(commit_times const& own, commit_times const& slowest,
                                             std::int64_t most) const noexcept {
    return predicted_staleness::extra(own, slowest, std::min(most, high.clocks() - low.clocks()));
  }
};
static_assert(extending_admission<renewed_staleness>);

/// What came of a protocol at its best rate.
struct outcome {
  double seconds = 0, waited = 0, updates_a_second = 0;
  std::size_t furthest = 0;  ///< clocks that a read was behind, at most
};

outcome outcome_of(run_result const& r) {
  double const all = r.compute_seconds + r.send_seconds + r.wait_seconds;
  auto const last = std::ranges::find_if(r.staleness_histogram.rbegin(), r.staleness_histogram.rend(),
                                         [](std::uint64_t reads) { return reads != 0; });
  return {.seconds = finish{r}.seconds(),
          .waited = r.wait_seconds / all,
          .updates_a_second = static_cast<double>(r.updates) / r.seconds,
          .furthest = static_cast<std::size_t>(r.staleness_histogram.rend() - last)};
}

/// Workers that are so much slower than the first.
class place {
 public:
  place(reproduce_options const& options, std::vector<double> slowness)
      : ground_(options, {.workers = static_cast<std::uint32_t>(slowness.size()), .steps = 20'000}),
        job_(ground_.job()) {
    job_.scenario.speed.slowness = std::move(slowness);
  }

  outcome add(std::string name, rules const& p) {
    run_result const r = run_at_best_rate(job_, [&](double) { return p; }, 1, {.least = 0.25, .greatest = 4});
    outcome const o = outcome_of(r);
    table_.rows.push_back({std::move(name), fmt::format("{:.3g}", r.learning_rate),
                           r.seconds_to_target ? show_seconds(o.seconds) : "-",
                           fmt::format("{:.0f}", o.updates_a_second), show_share(o.waited),
                           fmt::format("{}", o.furthest)});
    return o;
  }
  [[nodiscard]] std::string to_string() const { return table_.to_string(); }

 private:
  ground ground_;
  training job_;
  text_table table_{.head = {"", "rate", "time", "updates/s", "waiting", "furthest behind"}, .rows = {}};
};

/// What is compared, and SSP's mean over the range.
struct outcomes {
  outcome bsp, ssp_mean, dssp, renewed, asp;
  double ssp_best = 0;  ///< its time
};

outcomes race(place& at) {
  outcomes all;
  all.bsp = at.add("BSP", bsp{});
  all.ssp_best = all.bsp.seconds;
  for (std::int64_t s = lowest; s <= highest; s += apart) {
    outcome const o = at.add(fmt::format("SSP({})", s), ssp{.staleness = s});
    all.ssp_best = s == lowest ? o.seconds : std::min(all.ssp_best, o.seconds);
    double const share = 1.0 / ((highest - lowest) / apart + 1);
    all.ssp_mean.seconds += share * o.seconds;
    all.ssp_mean.waited += share * o.waited;
    all.ssp_mean.updates_a_second += share * o.updates_a_second;
  }
  dssp const protocol{.low = lowest, .high = highest};
  all.dssp = at.add("DSSP(3 to 15)", protocol);
  all.renewed = at.add("DSSP, extensions without end", with(protocol, renewed_staleness{{lowest, highest}}));
  all.asp = at.add("ASP", asp{});
  fmt::print("{}\n", at.to_string());
  return all;
}

}  // namespace

void reproduce_dssp(reproduce_options const& options) {
  fmt::print("Zhao, An, Liu, Chen, \"Dynamic Stale Synchronous Parallel Distributed Training for Deep Learning\", ICDCS "
             "2019.\n\nWorkers that are alike:\n");
  place alike(options, {1, 1, 1, 1});
  [[maybe_unused]] outcomes const even = race(alike);
  fmt::print("Two workers, of which one takes 2.6 times as long (the paper's GTX 1080 Ti and GTX 1060 by their peak "
             "rates):\n");
  place mixed(options, {1, 2.6});
  [[maybe_unused]] outcomes const uneven = race(mixed);
}

}  // namespace rubato::bench
