// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/algorithm/impl/normal_equations.ipp"
#include "rubato/task/impl/engine.ipp"
#include "rubato/task/impl/parallelism_search.ipp"
#include "rubato/task/impl/stage_scheduler.ipp"
#include "rubato/task/impl/task.ipp"
#include "rubato/task/impl/task_run.ipp"
