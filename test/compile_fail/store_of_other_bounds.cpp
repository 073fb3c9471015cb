// expect alone: a table and its store must both be bounded, or both not
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct touched : rb::dense<float> {
  using store = rb::sparse_store<float>;
};

rb::cluster cluster{rb::in_process{.workers = 3}, rb::ssp{}, touched{{.rows = 10}}};
