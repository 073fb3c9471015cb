// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 11 of the FlexPS paper: ten stages of ten iterations beside one of a hundred, with 200 workers
// (§7.4).

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/flexps.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench {

void reproduce_flexps_figure11(reproduce_options const& options) {
  using namespace pvldb18;
  constexpr std::uint32_t workers = 200;
  introduce("Figure 11");
  shape s = kdd();
  s.share = 0.1;
  experiment const e(s, options);
  fmt::print(
      "{}\nLogistic regression with SGD, batches of 0.1%, {} workers. A stage begins at once: what it\n"
      "takes to make its workers known is measured by rubato-bench micro, in process.\n\n",
      s.description(), workers);
  std::size_t const batch = s.rows_for(0.001 * s.samples);
  std::vector<std::pair<std::string, rules>> const protocols{
      {"BSP", bsp{}}, {"SSP(2)", ssp{.staleness = 2}}, {"ASP", asp{}}};
  text_table t{.head = {"protocol", "one stage", "ten stages", "longer", "each change"}, .rows = {}};
  claims said;
  for (auto const& [name, protocol] : protocols) {
    auto const run = [&, &how = protocol](std::size_t stages) {
      algorithm::sgd_phase const phase{.batch = batch,
                                       .iterations = static_cast<std::int64_t>(100 / stages),
                                       .stage = with_workers(workers, how)};
      return to_seconds(e.sgd(learner::logistic, std::vector(stages, phase)).elapsed());
    };
    double const one = run(1), ten = run(10);
    t.rows.push_back({name, show_seconds(one), show_seconds(ten),
                      fmt::format("{:+.1f}%", 100 * (ten / one - 1)), show_seconds((ten - one) / 9)});
    said.add(std::abs(ten / one - 1) < 0.1, name + ": ten stages take about as long as one.",
             fmt::format("{:+.1f}%.", 100 * (ten / one - 1)));
  }
  fmt::print("{}", t.to_string());
  said.print();
}

}  // namespace rubato::bench
