// expect: a policy's check() must be const, or it is never called
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct halves {
  double weight(rb::commit_info const&) const noexcept { return 0.5; }
  void check() {}
};
rb::rules all = with(rb::rules(rb::asp{}), halves{});
