// expect alone: a table's store must have elements of the table's own type
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct halves : rb::dense<float> {
  using store = rb::dense_store<double>;
};

rb::cluster cluster{rb::in_process{.workers = 3}, rb::ssp{}, halves{{.rows = 10}}};
