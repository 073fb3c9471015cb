// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 1 of the ADSP paper (AAAI 2020): where time goes with three workers of which one is three
// times slower (§2.3). What the paper calls waiting is all that is not computing.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/adsp.hpp"
#include "bench/reproduce/registry.hpp"

namespace rubato::bench {
namespace {

using namespace aaai20;

double share_not_computing(outcome const& o) { return o.share_of_sending() + o.share_of_waiting(); }

double seconds_per_step(outcome const& o) { return o.median().counted_split.total() / o.steps(); }

void judge(std::vector<outcome> const& all) {
  outcome const &bsp = all[0], &ssp = all[1], &ada_comm = all[2], &adsp = all[3], &given = all[4];
  claims said;
  said.add(
      share_not_computing(bsp) > 0.5 && share_not_computing(ssp) > 0.5,
      "With BSP and SSP workers wait for more than half of the time.",
      show_share(share_not_computing(bsp)) + " and " + show_share(share_not_computing(ssp)) + '.');
  said.add(share_not_computing(ada_comm) > 0.35 && share_not_computing(ada_comm) < 0.5,
           "With ADACOMM it is still close to half.",
           show_share(share_not_computing(ada_comm)) + '.');
  said.add(share_not_computing(adsp) < 0.1, "With ADSP it is negligible.",
           show_share(share_not_computing(adsp)) + '.');
  said.add(adsp.seconds() < bsp.seconds() && adsp.seconds() < ssp.seconds() &&
               adsp.seconds() < ada_comm.seconds(),
           "ADSP converges first.", show_time(adsp) + '.');
  said.print();
  double const share = share_not_computing(given);
  fmt::print(
      "\nAt {}, where an exchange takes 5% of the time from commit to commit, it is {:.1f}%: {} "
      "the "
      "7% that are aimed at.\n",
      given.label, 100 * share, share <= 0.07 ? "within" : "beyond");
}

}  // namespace

void reproduce_adsp_figure1(reproduce_options const& options) {
  material data = material::images(options);
  experiment e(data, one_one_three(), options);
  introduce("Figure 1", data, e.here);
  fmt::print("Times of a mini-batch 1 : 1 : 3; an exchange takes as long as the fast ones'.\n\n");
  std::vector<outcome> all;
  for (char const* const name : {"bsp", "ssp:3", "ada_comm:16", "adsp", "adsp:3"})
    all.push_back(e.tuned(e.choice(name)));
  std::vector<std::string> const paper = {"> 50%", "> 50%", "close to 50%", "negligible"};
  std::vector<std::vector<std::string>> more;
  for (std::size_t i = 0; i < all.size(); ++i)
    more.push_back({show_share(share_not_computing(all[i])), i < paper.size() ? paper[i] : "",
                    show_seconds(seconds_per_step(all[i])),
                    show_seconds((1 - share_not_computing(all[i])) * seconds_per_step(all[i]))});
  fmt::print("{}",
             table_of(all, {"both", "paper", "time/step", "of it computing"}, more).to_string());
  judge(all);
}

}  // namespace rubato::bench
