// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <string>
#include <system_error>

#include "rubato/core/error.hpp"

namespace rubato::tools {

/// What a program does last, before it claims to have ended well: short output is not written any sooner.
/// @throws error with errc::io when not all that was printed has got where it was to go
inline void flush_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  std::string const why = errno == 0 ? "" : ": " + std::generic_category().message(errno);
  throw error(errc::io, "cannot write to standard output" + why);
}

}  // namespace rubato::tools
