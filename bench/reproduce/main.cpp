// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-bench-reproduce, which is `rubato-bench reproduce`.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "bench/program.hpp"
#include "bench/reproduce/registry.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

void add_options(CLI::App& program, std::string& name, std::string& shards, reproduce_options& o) {
  program.footer(after_the_options);
  program.option_defaults()->always_capture_default();
  program.add_option("name", name, "what to rerun, or list");
  program.add_option("--data-dir", o.data_dir, "of the real data sets; else $RUBATO_DATA, else ../shared/data");
  program
      .add_option("--clocks", o.clocks,
                  "commits of each worker; 100 in tables of run times (there passes), 50 in figures (80 in "
                  "ssp-figure3, 3000 in ssp-sweet-spot), 30 in wide-area, 122880 over the workers in ssp-theorem1")
      ->check(CLI::PositiveNumber);
  program.add_option("--seed", o.seed, "of the shuffle and of all draws");
  program.add_option("--shards", shards,
                     "which rows a worker gets: shuffled, ordered, by-label:FRACTION or all, as compare has it");
}

void print_list() {
  for (reproduction const& r : reproductions()) fmt::print("{:<22} {}\n", r.name, r.title);
}

void run(std::string const& name, reproduce_options const& options) {
  if (name == "list") return print_list();
  auto const all = reproductions();
  auto const found = std::ranges::find(all, name, &reproduction::name);
  if (found == all.end())
    throw option_error("there is no \"" + name + "\"; see rubato-bench reproduce list");
  if (!found->takes_shards() && options.shards != row_order{})
    throw option_error("--shards: is for sigmod17 and hop, not " + name);
  found->run(options);
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) {
  CLI::App program{"Reruns a figure or table of the papers and prints ours beside theirs, or one of our own.",
                   "rubato-bench reproduce"};
  std::string name = "list";
  rubato::bench::reproduce_options options;
  std::string shards = "shuffled";
  rubato::bench::add_options(program, name, shards, options);
  program.callback([&] {
    options.shards = rubato::bench::parse_row_order(shards);
    rubato::bench::run(name, options);
  });
  return rubato::bench::run_program(program, argc, argv);
}
