// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

namespace rubato::bench {

run_result run_notify_ack(training const& job, protocol_parameters const& with) {
  return run_peers(hop(rubato::notify_ack{}, with.peers.order), "notify_ack", staleness{0}, job,
                   with);
}

}  // namespace rubato::bench
