// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 11 of the ADSP paper (AAAI 2020): a large model, VGG-16 with 528 MB, on the testbed of EC2 instances (App. D.3).
// Its times, that is, and the objective of the small network: how long a batch and an exchange take is what the
// paper's argument is about. The check period is the paper's ten minutes in place of one, so a batch takes ten times as
// long here, too; an exchange takes as long as it does for figure 4, which is what twice 528 MB take at 2 Gbit/s.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

setting with_large_model() {
  constexpr double slower = 10;
  setting s = ec2(18);
  s.step_seconds *= slower;
  s.job.look_every = slower * minute / 12;
  s.with.check_period = seconds(slower * minute);
  s.with.epoch = seconds(20 * slower * minute);
  s.with.probe_period = seconds(2 * slower * minute);
  return s;
}

}  // namespace

void reproduce_adsp_figure11(reproduce_options const& options) {
  material data = material::images(options);
  experiment e(data, with_large_model(), options);
  introduce("Figure 11", data, e.here);
  std::vector<outcome> all;
  for (char const* const name : {"bsp", "ssp:3", "ada_comm:16", "fixed_ada_comm:16", "adsp"})
    all.push_back(e.tuned(e.choice(name)));
  outcome const& adsp = all.back();
  std::vector<std::vector<std::string>> more;
  for (outcome const& o : all) more.push_back({show_gain(adsp.seconds(), o.seconds())});
  fmt::print("{}", table_of(all, {"ADSP's time"}, more).to_string());
  claims said;
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    said.add(adsp.seconds() < all[i].seconds(), "ADSP is faster than " + all[i].label + '.',
             show_gain(adsp.seconds(), all[i].seconds()) + '.');
  said.print();
}

}  // namespace rubato::bench
