// expect: stable_cut reads commits in any order, which a merge with velocity cannot
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

rb::cluster cluster{rb::in_process{.workers = 3},
                    rb::with(rb::ssp{}, rb::momentum{.mu = 0.9}, rb::stable_cut{}),
                    rb::dense<float>{.rows = 10}};
