// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/random_scenario.hpp"

#include <fmt/format.h>

#include "bench/result/text.hpp"
#include "rubato/core/portable_math.hpp"
#include "rubato/core/random.hpp"

namespace rubato::bench {
namespace {

/// Uniform on the log scale.
double between(random_stream& random, double least, double greatest) {
  double const low = detail::portable_log(least);
  return detail::portable_exp(low + random.uniform() * (detail::portable_log(greatest) - low));
}

std::size_t count(random_stream& random, std::size_t least, std::size_t greatest) {
  return least + random.below(greatest - least + 1);
}

/// Digits and chillers come with theirs.
bool data_has_its_features(compare_settings const& s) {
  if (s.app) return s.app->kind == application_kind::k_means;
  return s.data.labels != label_use::signs;
}

}  // namespace

void draw_scenario(advise_settings& settings, std::uint64_t seed) {
  constexpr std::uint64_t stream = 0xad;  // apart from what runs draw from the same seed
  random_stream random(seed, stream);
  training& job = settings.base.job;
  job.workers = static_cast<std::uint32_t>(count(random, 4, 16));
  job.servers = static_cast<std::uint32_t>(count(random, 1, 4));
  sim::scenario s;
  s.speed.work_cost = seconds(between(random, 30e-9, 1e-6));
  s.speed.heterogeneity.level = random.chance(0.75) ? 1 + 3 * random.uniform() : 1;
  s.speed.heterogeneity.slow_fraction = 0.5 * random.uniform();
  s.speed.jitter = sim::lognormal{.sigma = 0.3 * random.uniform()};
  if (random.chance(0.25)) s.speed.random_slowdown = sim::random_slowdown::hop(job.workers);
  s.network.worker_link = {.latency = seconds(between(random, 20e-6, 20e-3)),
                           .jitter = sim::lognormal{.sigma = 0.5 * random.uniform()},
                           .bandwidth = static_cast<std::uint64_t>(between(random, 1.25e6, 125e6))};
  s.network.server_bandwidth = 125'000'000;
  s.seed = job.seed = seed;
  job.scenario = s;
  settings.base.model.seed = seed;
  settings.base.scenario_name = "drawn";
  if (settings.base.app) settings.base.app->seed = seed;
  if (!settings.base.data.file.empty()) return;  // it has its rows
  settings.base.data.rows = count(random, 400, 1600);
  std::size_t const features = count(random, 40, 320), nonzeros = count(random, 4, 16);
  if (!data_has_its_features(settings.base)) {
    settings.base.data.features = features;
    settings.base.data.nonzeros = nonzeros;
  }
}

std::string describe_scenario(advise_settings const& settings) {
  training const& job = settings.base.job;
  auto const& speed = job.scenario.speed;
  auto const& link = job.scenario.network.worker_link;
  std::size_t const slow = speed.heterogeneity.level > 1 ? speed.heterogeneity.slow_workers(job.workers) : 0;
  return fmt::format("{} workers, {} slow by {:.1f}, {} servers, {} latency, {:.0f} Mbit/s, {} a value{}{}{}",
                     job.workers, slow, speed.heterogeneity.level, job.servers, show_seconds(to_seconds(link.latency)),
                     static_cast<double>(link.bandwidth) * 8e-6, show_seconds(to_seconds(speed.work_cost)),
                     speed.random_slowdown.probability > 0 ? ", stalls" : "",
                     settings.base.data.rows ? fmt::format("; {} rows", *settings.base.data.rows) : "",
                     settings.base.data.features ? fmt::format(" of {}", *settings.base.data.features) : "");
}

}  // namespace rubato::bench
