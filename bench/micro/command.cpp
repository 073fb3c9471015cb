// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/commands.hpp"
#include "bench/micro/table.hpp"

namespace rubato::bench {

void add_micro(CLI::App& program) {
  struct options {
    int repetitions = 9;
    double min_time = 0.05;
    std::string filter = ".";
  };
  auto const o = std::make_shared<options>();
  CLI::App* const micro = program.add_subcommand(
      "micro", "measures the hot paths, each beside its physical limit in the same run");
  micro->add_option("--repetitions", o->repetitions, "how often each is measured; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  micro->add_option("--min-time", o->min_time, "seconds per repetition")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  micro->add_option("--filter", o->filter, "regular expression: only benchmarks whose name matches")
      ->capture_default_str();
  micro->callback([o] {
    std::vector<micro_row> rows;
    for (auto&& part : {register_memory(), register_rows(), register_versions(), register_peers(),
                        register_simulator()})
      rows.insert(rows.end(), part.begin(), part.end());
    run_micro(rows, o->repetitions, o->min_time, o->filter);
  });
}

}  // namespace rubato::bench
