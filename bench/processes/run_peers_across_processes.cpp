// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/processes/peer_trainer.hpp"
#include "bench/processes/run_processes.hpp"
#include "bench/result/json.hpp"
#include "bench/train/run_peers.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
run_result run_peers_across_processes(peer_rules const& p, graph const& among, training const& job, run_result r) {
  std::vector<float> const start(job.start().begin(), job.start().end());
  seen_by_all all(job.workers, start);
  auto const play = [&](net::deployment const& place, auto const& listens) -> std::string {
    peer_group group{tcp{.place = place, .seed = job.seed}, among, p, plain_step{}, start};
    if (place.as != net::role::worker) {
      listens(group.runtime().bound());
      group.run([](peer<float>&) {});
      return "";
    }
    run_result const found = peer_trainer(job, all, *place.rank == 0).run(group, std::move(r));
    return *place.rank == 0 ? to_json(found).dump() : "";
  };
  return from_json(nlohmann::ordered_json::parse(run_processes({.workers = job.workers, .servers = 0}, play)));
}

}  // namespace rubato::bench
