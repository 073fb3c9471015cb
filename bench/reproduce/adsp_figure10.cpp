// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 10 of the ADSP paper (AAAI 2020): (a) the bandwidth that each protocol uses; (b) ADSP
// beside ADSP++, which stops at each epoch's beginning to search for the best learning rate and
// momentum (App. D.2).

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

// ---- (a)

double bytes_per_second(outcome const& o) {
  run_result const& r = o.median();
  return static_cast<double>(r.bytes_sent + r.bytes_received) / r.seconds;
}

void run_bandwidth(experiment& e) {
  std::vector<outcome> all;
  for (char const* const name : {"bsp", "ssp:3", "ada_comm:16", "fixed_ada_comm:16", "adsp"})
    all.push_back(e.tuned(e.choice(name)));
  std::vector<std::vector<std::string>> more;
  std::vector<double> used;
  for (outcome const& o : all) {
    used.push_back(bytes_per_second(o));
    double const whole = used.back() * o.median().seconds;
    more.push_back(
        {fmt::format("{:.2f} MB/s", used.back() / 1e6), fmt::format("{:.0f} MB", whole / 1e6)});
  }
  fmt::print("(a)\n{}", table_of(all, {"bandwidth", "in all"}, more).to_string());
  claims said;
  auto const show = [&](std::size_t i) { return fmt::format("{} {}", all[i].label, more[i][0]); };
  said.add(used[0] > used[4] && used[1] > used[4], "BSP and SSP use much more than ADSP.",
           fmt::format("{}, {}, {}.", show(0), show(1), show(4)));
  said.add(used[4] > used[2] && used[4] > used[3],
           "ADSP uses slightly more than ADACOMM and Fixed ADACOMM.",
           fmt::format("{}, {}, {}.", show(4), show(2), show(3)));
  said.print();
}

// ---- (b)

struct hyperparameters {
  double rate;
  double momentum;
};
constexpr std::array rates = {0.25, 0.5, 1.0, 2.0};
constexpr std::array momenta = {0.0, 0.5, 0.9};
/// How long each pair is tried: until a search of the commit rate could have taken two probes.
constexpr double trial_seconds = 4 * minute;

struct plus_plus {
  double training = 0;   ///< seconds
  double searching = 0;  ///< seconds
  bool arrived = false;
  std::string found;
};

run_result run_for(experiment& e, hyperparameters const& h, std::uint64_t seed,
                   std::vector<float> const& from, double limit) {
  training job = e.job_of(h.rate, seed, {.at_target = true, .deadline = limit});
  job.momentum = h.momentum;
  job.goes_on_from = from;
  return e.choice("adsp").run(job);
}

/// What goes on best from these parameters; its trial's end is thrown away.
hyperparameters search(experiment& e, std::uint64_t seed, std::vector<float> const& from) {
  hyperparameters best{};
  double least = std::numeric_limits<double>::infinity();
  for (double const rate : rates)
    for (double const momentum : momenta) {
      double const loss = run_for(e, {rate, momentum}, seed, from, trial_seconds).final_loss;
      if (!(loss < least)) continue;
      least = loss;
      best = {rate, momentum};
    }
  return best;
}

plus_plus run_plus_plus(experiment& e, std::uint64_t seed) {
  constexpr int epochs_max = 20;
  double const epoch = to_seconds(*e.here.with.epoch);
  plus_plus out;
  std::vector<float> at;
  for (int i = 0; i < epochs_max && !out.arrived; ++i) {
    hyperparameters const best = search(e, seed, at);
    out.searching += trial_seconds * static_cast<double>(rates.size() * momenta.size());
    out.found += fmt::format("{}{}/{}", i == 0 ? "" : ", ", best.rate, best.momentum);
    run_result r = run_for(e, best, seed, at, epoch);
    out.arrived = r.seconds_to_target.has_value();
    out.training += r.counted_seconds();
    at = std::move(r.parameters);
  }
  return out;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void run_search(experiment& e, std::uint64_t seed) {
  protocol_choice const adsp = e.choice("adsp");
  double const rate = e.tuned_rate(adsp);
  text_table t{.head = {"seed", "ADSP", "ADSP++ without its search", "with it",
                        "rate/momentum of each epoch"},
               .rows = {}};
  std::vector<double> plain_seconds, plus_seconds;
  for (std::uint64_t s = seed + 1; s <= seed + e.seeds; ++s) {
    double const ours = e.run(adsp, rate, s).counted_seconds();
    plus_plus const p = run_plus_plus(e, s);
    t.rows.push_back({std::to_string(s), show_seconds(ours),
                      p.arrived ? show_seconds(p.training) : "-",
                      show_seconds(p.training + p.searching), p.found});
    plain_seconds.push_back(ours);
    plus_seconds.push_back(p.training);
  }
  fmt::print("\n(b) ADSP at rate {} without momentum; ADSP++ tries {} pairs for {} each.\n{}", rate,
             rates.size() * momenta.size(), show_seconds(trial_seconds), t.to_string());
  claims said;
  double const plain = median(plain_seconds);
  double const plus = median(plus_seconds);
  said.add(plain < 1.1 * plus, "ADSP is nearly as fast as ADSP++ without the time of its search.",
           fmt::format("{} and {}, in the median.", show_seconds(plain), show_seconds(plus)));
  said.print();
}

}  // namespace

void reproduce_adsp_figure10(reproduce_options const& options) {
  material data = material::images(options);
  experiment e(data, ec2(18), options);
  introduce("Figure 10", data, e.here);
  run_bandwidth(e);
  run_search(e, options.seed);
}

}  // namespace rubato::bench
