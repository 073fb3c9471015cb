// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 6 of the ADSP paper (AAAI 2020): extra delays of all messages (§5.2). The paper's text
// does not say how long they are.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

constexpr std::array names = {"bsp", "ssp:3", "ada_comm:16", "fixed_ada_comm:16", "adsp"};
constexpr std::array delays = {0.0, 0.025, 0.1};  ///< one way; an exchange takes two

/// By delay and protocol. The rates are those that are best without a delay.
using results = std::array<std::vector<outcome>, delays.size()>;

results run_all(material& data, reproduce_options const& options) {
  std::vector<double> rates;
  results all;
  for (std::size_t d = 0; d < delays.size(); ++d) {
    setting s = ec2(18);
    s.job.scenario.network.worker_link.latency += seconds(delays[d]);
    experiment e(data, std::move(s), options);
    for (std::size_t p = 0; p < names.size(); ++p) {
      if (d == 0) rates.push_back(e.tuned_rate(e.choice(names[p])));
      all[d].push_back(e.measure(e.choice(names[p]), rates[p]));
    }
  }
  return all;
}

/// ADSP's time over that of the protocol `p`, with each delay.
std::vector<double> ratios(results const& all, std::size_t p) {
  std::vector<double> out;
  for (auto const& row : all) out.push_back(row.back().seconds() / row[p].seconds());
  return out;
}

void judge(results const& all) {
  claims said;
  for (std::size_t p = 0; p + 1 < names.size(); ++p) {
    std::vector<double> const r = ratios(all, p);
    std::string const& label = all[0][p].label;
    std::string const ours = fmt::format(
        "ADSP takes {:.2f}, {:.2f} and {:.2f} times as long as {}.", r[0], r[1], r[2], label);
    said.add(std::ranges::max(r) < 1, "ADSP is faster than " + label + " with any delay.", ours);
    if (p < 2)
      said.add(std::ranges::is_sorted(r, std::ranges::greater{}),
               "Its advantage over " + label + " grows with the delay.", ours);
  }
  said.print();
}

}  // namespace

void reproduce_adsp_figure6(reproduce_options const& options) {
  material data = material::images(options);
  introduce("Figure 6", data, ec2(18));
  results const all = run_all(data, options);
  for (std::size_t d = 0; d < delays.size(); ++d) {
    std::vector<std::vector<std::string>> more;
    for (outcome const& o : all[d])
      more.push_back({show_gain(all[d].back().seconds(), o.seconds())});
    fmt::print("{} more each way\n{}\n", show_seconds(delays[d]),
               table_of(all[d], {"ADSP's time"}, more).to_string());
  }
  judge(all);
}

}  // namespace rubato::bench
