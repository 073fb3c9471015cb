// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 10 of the FlexPS paper: single-machine mode, the model in chunks on demand or as a whole, beside
// servers that hold the model and decide on waiting, for 20 workers on one machine (§7.4).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/flexps.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

using namespace pvldb18;

constexpr std::uint32_t workers = 20;
constexpr std::array<std::int64_t, 7> counts{1, 2, 5, 10, 20, 50, 100};

/// Seconds of a stage from its beginning until what it has changed is with the servers.
double time_of(experiment const& e, double batch, std::int64_t iterations,
               std::optional<single_machine> const& local) {
  stage_options const stage{.workers = workers, .local = local};
  std::size_t const rows = e.of().rows_for(batch * e.of().samples);
  return cost_of(e.sgd(learner::logistic, {{.batch = rows, .iterations = iterations, .stage = stage}}), 0)
      .seconds;
}

/// By number of iterations.
using times = std::array<double, counts.size()>;
struct schemes {
  times integral{}, on_demand{}, servers{};
};

schemes run_set(experiment const& e, double batch) {
  schemes s;
  text_table t{
      .head = {std::string(e.of().name) + ", iterations", "LCC-integral", "LCC-on-demand", "PS"},
      .rows = {}};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    s.integral[i] = time_of(e, batch, counts[i], scaled_down(preparation::integral));
    s.on_demand[i] = time_of(e, batch, counts[i], scaled_down(preparation::on_demand));
    s.servers[i] = time_of(e, batch, counts[i], {});
    t.rows.push_back({std::to_string(counts[i]), show_seconds(s.integral[i]), show_seconds(s.on_demand[i]),
                      show_seconds(s.servers[i])});
  }
  fmt::print("{}\nBatches of {:.2g}%.\n{}\n", e.of().description(), 100 * batch, t.to_string());
  return s;
}

void add_claims(std::string const& name, schemes const& s, claims& said) {
  times gap{};
  std::int64_t faster = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    gap[i] = s.servers[i] - s.on_demand[i];
    if (gap[i] < 0) faster = counts[i];
  }
  double const last = s.servers.back() / s.on_demand.back();
  said.add(last > 2, name + ": local control takes considerably less time than PS.",
           fmt::format("PS takes {:.1f} times as long for {} iterations, but less for up to {}.", last,
                       counts.back(), faster));
  said.add(std::ranges::is_sorted(gap), name + ": the gap widens with the iterations.",
           fmt::format("{:.2f} s, {:.2f} s and {:.2f} s for 1, 10 and {}.", gap[0], gap[3], gap.back(),
                       counts.back()));
}

/// What decides whether it pays to bring chunks on demand: how many of them a batch touches.
void run_chunks(experiment const& e, double batch) {
  text_table t{.head = {"1 iteration on kdd", "LCC-integral", "LCC-on-demand"}, .rows = {}};
  for (double const share : {batch, batch / 10})
    for (std::size_t const part : {std::size_t{1}, std::size_t{4}, std::size_t{10}}) {
      auto const at = [&](preparation how) {
        single_machine s = scaled_down(how);
        s.chunk_bytes /= part;
        return show_seconds(time_of(e, share, 1, s));
      };
      t.rows.push_back({fmt::format("batches of {:.2g}%, chunks of {:.2g} KiB", 100 * share,
                                    64 / static_cast<double>(part)),
                        at(preparation::integral), at(preparation::on_demand)});
    }
  fmt::print("{}", t.to_string());
}

}  // namespace

void reproduce_flexps_figure10(reproduce_options const& options) {
  introduce("Figure 10");
  fmt::print(
      "Logistic regression with SGD, {} workers on one machine as in the paper, though it has 12 cores:\n"
      "here each has a core of its own. Batches are those of Figure 5, as the paper says nothing of this\n"
      "one's. Time is until what has been changed is with the servers.\n\n",
      workers);
  claims said;
  experiment const w(webspam(), options, workers_on_one_machine(workers));
  schemes const small = run_set(w, 0.01);
  add_claims("webspam", small, said);
  shape seen = kdd();
  seen.share = 0.1;
  experiment const k(seen, options, workers_on_one_machine(workers));
  schemes const large = run_set(k, 0.001);
  add_claims("kdd", large, said);
  run_chunks(k, 0.001);
  double furthest = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    furthest = std::max(furthest, std::abs(small.integral[i] / small.on_demand[i] - 1));
  said.add(furthest < 0.05, "webspam: integral and on demand take about as long, as the model is small.",
           fmt::format("{:.1f}% apart at most.", 100 * furthest));
  double const more = large.integral[0] / large.on_demand[0] - 1;
  said.add(more > 0.1, "kdd: on demand takes less time for few iterations, as integral brings more.",
           fmt::format("integral takes {:+.1f}% for one iteration, {:+.1f}% for two.", 100 * more,
                       100 * (large.integral[1] / large.on_demand[1] - 1)));
  said.print();
}

}  // namespace rubato::bench
