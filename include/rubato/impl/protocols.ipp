// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/protocol/impl/adaptive_period.ipp"
#include "rubato/protocol/impl/convergence_fit.ipp"
#include "rubato/protocol/impl/rate_conductor.ipp"
#include "rubato/protocol/impl/rate_search.ipp"
