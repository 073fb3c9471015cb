// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The program of both consumer tests: what a user's first project would hold.
#include <cstdio>
#include <rubato/version.hpp>

int main() {
  std::printf("rubato %d.%d.%d\n", rubato::version.major_number, rubato::version.minor_number,
              rubato::version.patch_number);
}
