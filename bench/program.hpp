// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>

namespace rubato::bench {

/// What main() of each of the bench's programs does: parses, which runs what was asked for, and says what
/// went wrong. Returns the program's exit code.
inline int run_program(CLI::App& program, int argc, char** argv) {
  try {
    program.parse(argc, argv);
    return 0;
  } catch (CLI::ParseError const& e) {
    return program.exit(e);
  } catch (std::bad_alloc const&) {
    std::fprintf(stderr, "%s: there is not enough memory for what was asked\n", program.get_name().c_str());
    return 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s: %s\n", program.get_name().c_str(), e.what());
    return 1;
  }
}

}  // namespace rubato::bench
