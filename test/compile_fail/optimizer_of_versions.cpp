// expect: this merge moves the parameters element by element, which multi_version{
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

rb::cluster cluster{rb::in_process{.workers = 3}, rb::fed_adam{}, rb::multi_version{rb::dense<float>{.rows = 10}}};
