// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-bench: which synchronization protocol suits which cluster.

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "bench/advise/command.hpp"
#include "bench/compare/command.hpp"
#include "bench/program.hpp"

namespace {

/// A command that is a program of its own, `rubato-bench-NAME` beside this one, so that who only compares
/// builds no more than that takes.
struct command {
  char const* name;
  char const* description;
};

constexpr std::array<command, 3> commands = {{
    {"mpi", "Measures pulls over MPI beside MPI's own messages, as the ranks of `mpirun -n 3 rubato-bench mpi`"},
    {"micro", "Measures the hot paths, each beside its physical limit in the same run"},
    {"reproduce", "Reruns a figure or table of the papers and prints ours beside theirs, or one of our own"},
}};

/// With `--transport mpi`, for which there is a program, too.
bool is_between_ranks(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view const word = argv[i];
    if (word == "--transport=mpi" || (word == "--transport" && i + 1 < argc && std::string_view(argv[i + 1]) == "mpi"))
      return true;
  }
  return false;
}

/// Goes on as that program; returns an exit code only where that cannot be done.
int become(command const& c, char** argv) {
  std::filesystem::path const own = std::filesystem::read_symlink("/proc/self/exe");
  std::string const name = std::string("rubato-bench-") + c.name;
  std::string const path = own.parent_path() / name;
  ::execv(path.c_str(), argv);
  std::fprintf(stderr, "rubato-bench %s: %s: %s; `cmake --build` makes it with its target %s\n", c.name,
               path.c_str(), std::strerror(errno), name.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const first = argc > 1 ? argv[1] : "";
  if (first == "compare" && is_between_ranks(argc, argv)) return become(commands[0], argv);
  for (command const& c : commands)
    if (first == c.name) return become(c, first == "mpi" ? argv : argv + 1);

  CLI::App program{"Compares synchronization protocols for distributed machine learning.", "rubato-bench"};
  program.require_subcommand(1);
  program.footer(rubato::bench::after_the_options);  // of its commands as well
  rubato::bench::compare_options options;
  CLI::App* const compare = program.add_subcommand(
      "compare", "Runs protocols on one workload and says which wins, by how much, and why");
  options.add_to(*compare);
  compare->callback([&options] { rubato::bench::run_compare(options); });
  rubato::bench::advise_options wanted;
  CLI::App* const advise = program.add_subcommand(
      "advise", "Finds the protocol, staleness and rate for a scenario in the simulator, and says how sure it is");
  wanted.add_to(*advise);
  advise->callback([&wanted] { rubato::bench::run_advise(wanted); });
  for (command const& c : commands) program.add_subcommand(c.name, c.description);
  return rubato::bench::run_program(program, argc, argv);
}
