// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-bench-micro, which is `rubato-bench micro`.
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <regex>
#include <string>
#include <vector>

#include "bench/micro/table.hpp"
#include "bench/micro/tcp_server.hpp"
#include "bench/program.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

struct micro_options {
  int repetitions = 9;
  double min_time = 0.05;
  std::string filter = ".";
  std::vector<std::string> serve;
};

void add_options(CLI::App& program, micro_options& o) {
  program.footer(after_the_options);
  program.add_option("--repetitions", o.repetitions, "how often each is measured; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  program.add_option("--min-time", o.min_time, "seconds per repetition")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  program.add_option("--filter", o.filter, "regular expression, up to 1000 characters: only benchmarks whose name matches")
      ->capture_default_str();
  // Measurements with two processes start this program as the other one.
  program.add_option("--serve", o.serve)->group("");
}

void check(micro_options const& o) {
  if (std::isnan(o.min_time)) throw option_error("--min-time: must be from 0 to 60 seconds");
  constexpr std::size_t longest = 1000;  // std::regex goes a call deeper by each character, and a stack has an end
  if (o.filter.size() > longest)
    throw option_error(fmt::format("--filter: has {} characters, expected at most {}", o.filter.size(), longest));
  try {
    std::regex const wanted(o.filter);
  } catch (std::regex_error const& e) {
    throw option_error("--filter: \"" + o.filter + "\" is no regular expression: " + e.what());
  }
}

void run(micro_options const& o) {
  if (!o.serve.empty()) throw CLI::RuntimeError(serve(o.serve));
  check(o);
  std::vector<micro_row> rows;
  for (auto&& part : {register_memory(), register_rows(), register_keys(), register_tables(), register_caches(),
                      register_topics(), register_versions(), register_peers(), register_waits(), register_stages(),
                      register_simulator(), register_tcp(), register_tcp_peers(), register_tcp_averages(),
                      register_tcp_training()})
    rows.insert(rows.end(), part.begin(), part.end());
  run_micro(rows, o.repetitions, o.min_time, o.filter);
  print_simulator_memory();
  print_server_memory(o.filter);
}

}  // namespace
}  // namespace rubato::bench

int main(int argc, char** argv) {
  CLI::App program{"Measures the hot paths, each beside its physical limit in the same run.", "rubato-bench micro"};
  rubato::bench::micro_options options;
  rubato::bench::add_options(program, options);
  program.callback([&options] { rubato::bench::run(options); });
  return rubato::bench::run_program(program, argc, argv);
}
