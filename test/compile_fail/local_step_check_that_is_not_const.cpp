// expect: a policy's check() must be const, or it is never called
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/local_step.hpp>

struct checked_step : rubato::sgd {
  void check() {}
};

rubato::detail::peer_step_of<float, checked_step> const step_of_it(checked_step{});
