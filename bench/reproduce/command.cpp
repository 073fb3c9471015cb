// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "bench/commands.hpp"
#include "bench/reproduce/registry.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

void print_list() {
  for (reproduction const& r : reproductions()) fmt::print("{:<18} {}\n", r.name, r.title);
}

void run_reproduction(std::string const& name, reproduce_options const& options) {
  if (name == "list") return print_list();
  auto const all = reproductions();
  auto const found = std::ranges::find(all, name, &reproduction::name);
  if (found == all.end())
    throw option_error("reproduce: there is no \"" + name + "\"; see rubato-bench reproduce list");
  found->run(options);
}

}  // namespace

void add_reproduce(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "reproduce",
      "Reruns a figure or table of the papers and prints ours beside theirs, or one of our own");
  auto const name = std::make_shared<std::string>("list");
  auto const options = std::make_shared<reproduce_options>();
  command->option_defaults()->always_capture_default();
  command->add_option("name", *name, "what to rerun, or list");
  command->add_option("--data-dir", options->data_dir,
                      "of the real data sets; else $RUBATO_DATA, else ../shared/data");
  command
      ->add_option("--clocks", options->clocks,
                   "commits of each worker; 100 in tables of run times, 50 in figures, 30 in "
                   "wide-area")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", options->seed, "of the shuffle and of all draws");
  command->callback([name, options] { run_reproduction(*name, *options); });
}

}  // namespace rubato::bench
