// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/server_stats.hpp"

namespace rubato {

/// What a coordinator counts of itself, for whoever watches it from another thread.
struct coordinator_stats {
  using number = server_stats::number;

  number servers_here = 0;   ///< enrolled, and not gone
  number workers_here = 0;   ///< processes
  number connected = 0;      ///< of both, those whose connection is up
  number handshakes = 0;     ///< connections that have said whose they are
  number reconnects = 0;     ///< of these, of a process that had been there
  number refused = 0;        ///< processes that were told why they cannot take part
  number lost = 0;           ///< processes that went without a goodbye
  number stage = 0;          ///< the run under way, or the last one
  number running = 0;        ///< 1 while a run is under way
  number ready = 0;          ///< 1 once all have been there that the first run needs
};

}  // namespace rubato
