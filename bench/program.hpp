// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>

#include "rubato/core/error.hpp"
#include "src/tools/empty_values.hpp"
#include "src/tools/standard_output.hpp"
#include "src/tools/whole_numbers.hpp"

namespace rubato::bench {

/// What `--help` ends with, of each of the bench's programs and commands.
constexpr char const* after_the_options =
    R"(Environment:
  RUBATO_DATA  of reproduce: folder of the real data sets, where --data-dir is not given
  TMPDIR       folder for temporary files: sockets of processes [/tmp]

Exit code:
  0            what was asked for has been done
  1            it could not be done: data that cannot be read, a run that failed, too little memory, or what is
               printed cannot be written
  2            the options cannot be meant, or a file that they name cannot be written)";

/// Returns the exit code.
inline int parse_and_run(CLI::App& program, int argc, char** argv) {
  try {
    tools::refuse_empty_values(program);
    tools::check_whole_numbers(program);
    program.parse(argc, argv);
    return 0;
  } catch (CLI::RuntimeError const& e) {  // of a command that knows its exit code
    return program.exit(e);
  } catch (CLI::ParseError const& e) {
    return program.exit(e) == 0 ? 0 : 2;
  }
}

/// What main() of each of the bench's programs does: parses, which runs what was asked for, and says what
/// went wrong. Returns the program's exit code.
inline int run_program(CLI::App& program, int argc, char** argv) {
  try {
    int const exit_code = parse_and_run(program, argc, argv);
    if (exit_code == 0) tools::flush_output();
    return exit_code;
  } catch (option_error const& e) {
    std::fprintf(stderr, "%s: %s\n", program.get_name().c_str(), e.what());
    return 2;
  } catch (std::bad_alloc const&) {
    std::fprintf(stderr, "%s: there is not enough memory for what was asked\n", program.get_name().c_str());
    return 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s: %s\n", program.get_name().c_str(), e.what());
    return 1;
  }
}

}  // namespace rubato::bench
