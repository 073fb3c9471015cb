// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/testing/impl/check_codec.ipp"
#include "rubato/testing/impl/check_network.ipp"
#include "rubato/testing/impl/check_partition.ipp"
#include "rubato/testing/impl/check_policies.ipp"
#include "rubato/testing/impl/check_store.ipp"
#include "rubato/testing/impl/check_transport.ipp"
#include "rubato/testing/impl/observed_run.ipp"
#include "rubato/testing/impl/observer.ipp"
#include "rubato/testing/impl/peer_observer.ipp"
#include "rubato/testing/impl/peer_schedule.ipp"
#include "rubato/testing/impl/schedule.ipp"
