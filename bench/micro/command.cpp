// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/commands.hpp"
#include "bench/micro/table.hpp"
#include "bench/micro/tcp_server.hpp"

namespace rubato::bench {

void add_micro(CLI::App& program) {
  struct options {
    int repetitions = 9;
    double min_time = 0.05;
    std::string filter = ".";
    std::vector<std::string> serve;
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
  // Measurements with two processes start this program as the other one.
  micro->add_option("--serve", o->serve)->group("");
  micro->callback([o] {
    if (!o->serve.empty()) throw CLI::RuntimeError(serve(o->serve));
    std::vector<micro_row> rows;
    for (auto&& part : {register_memory(), register_rows(), register_versions(), register_peers(),
                        register_stages(), register_simulator(), register_tcp()})
      rows.insert(rows.end(), part.begin(), part.end());
    run_micro(rows, o->repetitions, o->min_time, o->filter);
    print_server_memory(o->filter);
  });
}

}  // namespace rubato::bench
