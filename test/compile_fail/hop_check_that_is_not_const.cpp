// expect: a policy's check() must be const, or it is never called
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>
#include <rubato/peer/hop_rules.hpp>

struct evenly {
  void check() {}
  static double weight(rubato::update_info) noexcept { return 1; }
};
static_assert(rubato::reduce_policy<evenly>);

rubato::hop_rules const rules_of_evenly = rubato::hop(rubato::token_queues{8}, evenly{});
