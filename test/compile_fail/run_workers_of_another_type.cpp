// expect: run_workers() must be const and noexcept, and give a std::uint32_t
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct of_two : rb::unbounded {
  int run_workers() const noexcept { return 2; }
};
rb::rules all = with(rb::rules(rb::asp{}), of_two{});
