// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

/// Everything but the network: all protocols, storage and partitions, in process and simulated.

#include "rubato/cluster/cluster.hpp"
#include "rubato/core/clock.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/partition/by_function.hpp"
#include "rubato/partition/hash.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/partition/range_hash.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/simulated.hpp"
#include "rubato/version.hpp"
