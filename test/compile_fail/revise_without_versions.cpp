// expect: this merge keeps versions of the parameters: wrap the table in multi_version
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

// Late updates revise a version, and a dense table has none.
rb::cluster cluster{rb::in_process{.workers = 3}, rb::dyn_sgd{}, rb::dense<float>{.rows = 10}};
