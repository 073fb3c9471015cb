// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/testing/impl/world_wire.ipp"
#include "rubato/testing/impl/world_network.ipp"
#include "rubato/testing/impl/world.ipp"
#include "rubato/testing/impl/liar.ipp"
#include "rubato/testing/impl/trial.ipp"
