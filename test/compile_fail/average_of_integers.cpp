// expect: a table of integers needs an exact merge: write dense<T, sum> or sparse<T, sum>
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

// BSP averages, and the third part of a count is no count.
rb::cluster cluster{rb::in_process{.workers = 3}, rb::bsp{}, rb::dense<std::int64_t>{.rows = 10}};
