// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-bench: which synchronization protocol suits which cluster.

#include <cstdio>
#include <exception>

#include "bench/commands.hpp"

int main(int argc, char** argv) {
  CLI::App program{"Compares synchronization protocols for distributed machine learning."};
  program.require_subcommand(1);
  rubato::bench::add_compare(program);
  rubato::bench::add_micro(program);
  rubato::bench::add_reproduce(program);
  try {
    program.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return program.exit(e);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "rubato-bench: %s\n", e.what());
    return 1;
  }
}
