// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "bench/processes/run_processes.hpp"
#include "bench/processes/shared_progress.hpp"
#include "bench/processes/worker_process.hpp"
#include "bench/result/json.hpp"
#include "bench/train/run.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

template <class Table>
run_result train_across_processes(server_run const& what, Table const& table, run_result r) {
  training const& job = what.job;
  shared_progress all(job.workers);
  auto const play = [&](net::deployment const& place, auto const& listens) -> std::string {
    cluster group{tcp{.place = place, .seed = job.seed}, what.protocol, table};
    if (place.as != net::role::worker) {
      listens(group.runtime().bound());
      group.run([](training_worker&) {});
      return "";
    }
    return train_here(group, *place.rank, job, what.length, all, r);
  };
  return from_json(nlohmann::ordered_json::parse(
      run_processes({.workers = job.workers, .servers = job.servers}, play)));
}

}  // namespace

run_result run_across_processes(server_run const& what, run_result r) {
  dense<float> const table = dense_table(what.job);
  if (what.storage == storage_kind::multi_version)
    return train_across_processes(what, multi_version{table}, std::move(r));
  return train_across_processes(what, table, std::move(r));
}

}  // namespace rubato::bench
