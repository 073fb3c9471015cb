// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/sim/impl/distribution.ipp"
#include "rubato/sim/impl/fibers.ipp"
#include "rubato/sim/impl/network.ipp"
#include "rubato/sim/impl/scenario.ipp"
#include "rubato/sim/impl/speed.ipp"
#include "rubato/transport/fibers/impl/local_tables.ipp"
#include "rubato/transport/fibers/impl/fiber_endpoint.ipp"
#include "rubato/transport/fibers/impl/worker_fibers.ipp"
#include "rubato/transport/fibers/impl/worker_fibers_events.ipp"
#include "rubato/transport/impl/simulated.ipp"
