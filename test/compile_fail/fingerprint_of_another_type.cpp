// expect within 15: a policy's fingerprint() must be a const noexcept member function that gives std::uint64_t
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/rules.hpp>

namespace rb = rubato;

struct named : rb::scale {
  int fingerprint() const { return 7; }
};

rb::merge_rule const m = named{};
