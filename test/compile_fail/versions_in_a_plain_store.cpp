// expect alone: a table that keeps versions needs a store that does, see versioned_store
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct forgetful : rb::multi_version<rb::dense<float>> {
  using store = rb::dense_store<float>;
};

rb::cluster cluster{rb::in_process{.workers = 3}, rb::dyn_sgd{},
                    forgetful{rb::multi_version{rb::dense<float>{.rows = 10}}}};
