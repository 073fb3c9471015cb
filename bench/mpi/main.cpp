// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-bench-mpi, a rank of an MPI job: what `rubato-bench compare --transport mpi` and `rubato-bench mpi` become.
#include "bench/compare/command.hpp"
#include "bench/mpi/messages.hpp"
#include "bench/mpi/run_over_mpi.hpp"
#include "bench/program.hpp"

int main(int argc, char** argv) {
  CLI::App program{"Compares and measures between the ranks of an MPI job.", "rubato-bench"};
  program.require_subcommand(1);
  program.footer(rubato::bench::after_the_options);
  rubato::bench::compare_options options;
  CLI::App* const compare = program.add_subcommand("compare", "As rubato-bench compare, with --transport mpi");
  options.add_to(*compare);
  compare->callback([&options] { rubato::bench::run_compare_over_mpi(options); });
  rubato::bench::message_options wanted;
  CLI::App* const messages =
      program.add_subcommand("mpi", "Pulls over MPI beside MPI's own messages of the same sizes, as three ranks");
  wanted.add_to(*messages);
  messages->callback([&wanted] { rubato::bench::measure_messages(wanted); });
  return rubato::bench::run_program(program, argc, argv);
}
