// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/peer/impl/graph.ipp"
#include "rubato/peer/impl/mixing.ipp"
#include "rubato/peer/impl/topologies.ipp"
#include "rubato/peer/impl/local_parameters.ipp"
#include "rubato/peer/impl/peer_agreement.ipp"
#include "rubato/peer/impl/hop_core.ipp"
#include "rubato/peer/impl/hop_node.ipp"
#include "rubato/peer/impl/ad_psgd.ipp"
#include "rubato/peer/impl/all_reduce.ipp"
#include "rubato/peer/impl/exchange.ipp"
#include "rubato/peer/impl/push_node.ipp"
#include "rubato/peer/impl/peer.ipp"
#include "rubato/run/impl/peer_run.ipp"
#include "rubato/transport/threads/impl/peer_threads.ipp"
#include "rubato/transport/fibers/impl/peer_fibers.ipp"
