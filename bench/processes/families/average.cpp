// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/processes/on_tcp.hpp"

namespace rubato::bench {

std::unique_ptr<process_cluster> make_process_cluster(net::deployment const& place,
                                                      std::uint64_t seed,
                                                      rules<strict, average, every> const& p,
                                                      dense<float> const& table) {
  return put_on_tcp(place, seed, p, table);
}

}  // namespace rubato::bench
