// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rubato::bench {

void claims::add(bool holds, std::string const& paper, std::string const& ours) {
  (holds ? agreeing_ : differing_).push_back("  " + paper + " Here: " + ours + '\n');
}

void claims::print() const {
  if (!agreeing_.empty()) fmt::print("\nAs in the paper:\n{}", fmt::join(agreeing_, ""));
  if (!differing_.empty()) fmt::print("\nOther than in the paper:\n{}", fmt::join(differing_, ""));
}

}  // namespace rubato::bench
