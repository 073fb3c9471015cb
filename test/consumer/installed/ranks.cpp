// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A program for ranks of MPI, started alone: it says how many there should be.
#include <cstdio>
#include <cstring>
#include <rubato/rubato.hpp>
#include <rubato/transport/mpi.hpp>

int main() try {
  rubato::cluster cluster{rubato::mpi{}, rubato::bsp{}, rubato::dense<float>{.rows = 1}};
  return 1;
} catch (rubato::option_error const& e) {
  std::puts(e.what());
  return std::strstr(e.what(), "started 1 process, expected at least 3") != nullptr ? 0 : 1;
}
