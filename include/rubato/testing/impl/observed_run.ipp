// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <exception>

#include "rubato/testing/observed_run.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::testing::detail {

std::vector<std::vector<std::uint32_t>> servers_of_rows(schedule const& s) {
  std::vector<std::vector<std::uint32_t>> all(2);
  for (std::uint64_t row = 0; row < table_rows; ++row) {
    all[0].push_back(scattered{s.seed}.server_of(key{row}, {table_rows, s.servers}).value());
    all[1].push_back(scattered{s.seed}.server_of(key{sparse_key(row)}, {0, s.servers}).value());
  }
  return all;
}

std::vector<std::int64_t> spread(sparse_snapshot<std::int64_t> const& rows,
                                 std::size_t columns) {
  std::vector<std::int64_t> out(table_rows * columns);
  for (std::size_t row = 0; row < table_rows; ++row) {
    auto const at = std::ranges::find(rows.keys, sparse_key(row));
    if (at != rows.keys.end())
      std::copy_n(
          rows.values.begin() + (at - rows.keys.begin()) * static_cast<std::ptrdiff_t>(columns),
          columns, out.begin() + static_cast<std::ptrdiff_t>(row * columns));
  }
  return out;
}

void check_result(std::vector<std::int64_t> const& counted, sparse_snapshot<std::int64_t> const& rows,
                  std::vector<float> const& weights, observer& o, schedule const& s,
                  run_report const& report) {
  o.finish(0, counted);
  o.finish(1, spread(rows, s.workers_ever()));
  if (s.prompt) o.finish_lost(0, counted);
  if (auto const partly = o.partly_folded(0, counted); partly != report.servers.partly_folded)
    o.breach("servers counted ", report.servers.partly_folded,
             " commits of lost workers that are on some servers only, but there are ", partly);
  for (float const x : weights)
    if (!std::isfinite(x)) return o.breach("in the end a weight is not finite");
}

std::vector<float> first_weights(std::uint64_t seed) {
  random_stream random(seed, 0x0017);
  std::vector<float> weights(weight_rows);
  for (float& x : weights) x = static_cast<float>(random.uniform());
  return weights;
}

template <class Weights>
outcome observe_run_on(rubato::rules const& p, schedule const& s, expectations const& r) {
  observer o(r, s.workers, s.workers_ever(), servers_of_rows(s));
  std::vector<float> const init = first_weights(s.seed);
  outcome result;
  try {
    auto c = make_cluster<Weights>(simulated{.workers = s.workers,
                                             .servers = s.servers,
                                             .scenario = s.scenario,
                                             .stack_bytes = 64 * 1024},
                                   p, s, init);
    c.runtime().on_event([&] {
      o.check_servers(c.servers());
      mix_in(result.events, static_cast<std::uint64_t>(c.now().since_start().count()));
      mix_in(result.events, o.commits());
      for (std::uint32_t n = 0; n < s.servers; ++n)
        c.servers().server(server_id{n}).inspect([&](auto const& control) {
          mix_in(result.events, static_cast<std::uint64_t>(control.published().value()));
        });
    });
    result.report = c.run([&](auto& w) { mix_in(result.reads, actor(w, o, s, r.bound).run()); });
    check_result(c, o, s, result.report);
    result.weights = c.template parameters<2>();
  } catch (std::exception const& e) {
    o.breach(e.what());
  }
  result.violations = o.violations();
  return result;
}

outcome observe_run(rubato::rules const& p, schedule const& given, expectations const& r) {
  schedule s = given;
  if (p.admission.limits() || p.visibility.rounds())  // whose reads may not ask for less
    for (manner& m : s.manners) m.own_staleness = 0;
  return p.merge.versioned() ? observe_run_on<multi_version<dense<float>>>(p, s, r)
                             : observe_run_on<dense<float>>(p, s, r);
}

}  // namespace rubato::testing::detail
