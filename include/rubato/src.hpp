// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

/// The bodies of the library, for programs that have the include folder and do not link `rubato::rubato`:
/// to be included in one file of the program.
///
/// What it then links: Boost.Context and fmt; for the network OpenSSL, for files of data zlib. Who needs
/// none of these defines `RUBATO_NO_NETWORK` or `RUBATO_NO_FILES` before. `RUBATO_NO_TESTING` leaves out what is in
/// `rubato/testing`, which links nothing more. Who defines `RUBATO_MPI` has `rb::mpi`, too, and compiles and links with
/// MPI.
#include "rubato/impl/engine.ipp"
#include "rubato/impl/peers.ipp"
#include "rubato/impl/protocols.ipp"
#include "rubato/impl/simulated.ipp"
#include "rubato/impl/stores.ipp"
#include "rubato/impl/tasks.ipp"
#ifndef RUBATO_NO_FILES
#include "rubato/impl/data.ipp"
#endif
#ifndef RUBATO_NO_NETWORK
#include "rubato/impl/network.ipp"
#include "rubato/impl/processes.ipp"
#ifdef RUBATO_MPI
#include "rubato/impl/mpi.ipp"
#endif
#endif
#ifndef RUBATO_NO_TESTING
#include "rubato/impl/testing.ipp"
#ifndef RUBATO_NO_NETWORK
#include "rubato/impl/testing_processes.ipp"
#endif
#endif
