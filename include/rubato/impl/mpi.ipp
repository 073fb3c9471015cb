// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/mpi_desk.ipp"
#include "rubato/net/impl/mpi_network.ipp"
#include "rubato/net/impl/mpi_pipe.ipp"
#include "rubato/net/impl/mpi_sum.ipp"
#include "rubato/net/impl/mpi_world.ipp"
#include "rubato/transport/impl/mpi.ipp"
