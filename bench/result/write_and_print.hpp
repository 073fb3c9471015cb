// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

#include <fmt/format.h>

namespace rubato::bench {

/// Results, which took minutes, go to whoever can take them. Calls `write`, for files, first: where nobody reads what
/// is printed any more, the first line that is ends this process. Prints `text` also where `write` throws.
template <class Write>
void write_and_print(Write const& write, std::string const& text) {
  try {
    write();
  } catch (...) {
    fmt::print("{}", text);
    throw;
  }
  fmt::print("{}", text);
}

}  // namespace rubato::bench
