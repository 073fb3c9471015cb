// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 9 of the ADSP paper (AAAI 2020): BSP and Fixed ADACOMM with batches in proportion to the
// workers' speeds, the global batch being the same (BatchTune, App. D.2).

#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"

namespace rubato::bench {
using namespace aaai20;

void reproduce_adsp_figure9(reproduce_options const& options) {
  material data = material::images(options);
  experiment e(data, ec2(18), options);
  introduce("Figure 9", data, e.here);
  std::vector<outcome> all;
  for (char const* const name : {"bsp", "fixed_ada_comm:16"})
    for (bool const tuned : {false, true}) {
      e.here.with.batch_tune = tuned;
      all.push_back(e.tuned(e.choice(name)));
    }
  for (char const* const name : {"adsp", "adsp:3"}) all.push_back(e.tuned(e.choice(name)));
  std::vector<std::vector<std::string>> more;
  for (outcome const& o : all) more.push_back({show_gain(all[4].seconds(), o.seconds())});
  fmt::print("{}", table_of(all, {"ADSP's time"}, more).to_string());
  claims said;
  for (std::size_t i : {0U, 2U})
    said.add(all[i + 1].seconds() < 0.9 * all[i].seconds(),
             "BatchTune makes " + all[i].label + " significantly faster.",
             show_gain(all[i + 1].seconds(), all[i].seconds()) + '.');
  said.add(all[4].seconds() < all[1].seconds() && all[4].seconds() < all[3].seconds(),
           "ADSP is the fastest still.",
           fmt::format("{}, with BatchTune {} and {}.", show_time(all[4]), show_time(all[1]),
                       show_time(all[3])));
  said.print();
}

}  // namespace rubato::bench
