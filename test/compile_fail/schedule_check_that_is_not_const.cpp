// expect: a policy's check() must be const, or it is never called
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/ids.hpp>
#include <rubato/peer/exchange.hpp>
#include <string>
#include <vector>

struct no_one {
  using those = std::vector<rubato::worker_id>;
  void check() {}
  static those out(rubato::graph const&, rubato::worker_id, rubato::iteration_index) { return {}; }
  static those in(rubato::graph const&, rubato::worker_id, rubato::iteration_index) { return {}; }
  static std::string text() { return "no one"; }
};

rubato::exchange_rules const no_rules = no_one{};
