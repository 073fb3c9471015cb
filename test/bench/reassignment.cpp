// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/reassignment.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <vector>

#include "bench/reproduce/sigmod17.hpp"
#include "bench/train/load_data.hpp"
#include "rubato/core/error.hpp"

using namespace rubato;
using namespace rubato::bench;
using namespace std::chrono_literals;

namespace {

workload const& rows_to_reassign() {
  static loaded_data const data = load_data({.rows = 5'000, .features = 60, .nonzeros = 10}, 1);
  static workload const work(model_kind::lr, 1e-4, data.train, data.test);
  return work;
}

training job_of_five() {
  training job;
  job.work = &rows_to_reassign();
  job.workers = 5;
  job.servers = 2;
  job.steps_per_commit = 1;
  job.clocks = 80;
  return job;
}

std::vector<std::size_t> all_rows_of(reassignment const& rows) {
  std::vector<std::size_t> counts;
  for (std::size_t i = 0; i < 5; ++i) counts.push_back(rows.rows_of(i));
  return counts;
}

}  // namespace

TEST_CASE("rows: who is slower than the fastest by more than a fifth gives it a twentieth of its rows") {
  training const job = job_of_five();
  reassignment rows(job);
  CHECK(all_rows_of(rows) == std::vector<std::size_t>(5, 800));
  rows.ends_clock(4, 3.0);  // nobody else has ended a clock
  rows.ends_clock(0, 1.0);
  rows.ends_clock(1, 1.1);
  rows.ends_clock(2, 1.19);
  CHECK(rows.times() == 0);
  rows.ends_clock(3, 1.21);
  CHECK(all_rows_of(rows) == std::vector<std::size_t>{840, 800, 800, 760, 800});
  rows.ends_clock(4, 4.19);  // it is this clock's time that counts, not that of all
  CHECK(rows.times() == 1);
  rows.ends_clock(4, 5.5);
  CHECK(all_rows_of(rows) == std::vector<std::size_t>{880, 800, 800, 760, 760});
}

TEST_CASE("rows: who stays slow whatever it computes goes on giving, down to 19 rows") {
  training const job = job_of_five();
  reassignment rows(job);
  rows.ends_clock(0, 1);
  for (int k = 1; k < 300; ++k) rows.ends_clock(4, 2.0 * k);
  CHECK(rows.rows_of(4) == 19);
  CHECK(rows.rows_of(0) == 800 + 800 - 19);
  CHECK(rows.at_step(4, 0).size() == 2);
}

TEST_CASE("rows: a worker's mini-batches are of the rows that it has now, and no row is lost") {
  training const job = job_of_five();
  reassignment rows(job);
  data::dataset_view const before = rows.at_step(3, 0);
  data::dataset_view const shard = job.work->train().shard(3, 5);
  CHECK(before.size() == 80);
  CHECK(before[5].values.size() == shard[5].values.size());
  CHECK(before.nonzeros() == shard.slice(0, 80).nonzeros());
  rows.ends_clock(0, 1);
  rows.ends_clock(3, 2);
  CHECK(rows.at_step(3, 0).size() == 76);
  CHECK(rows.at_step(0, 0).size() == 84);
  std::size_t values = 0;
  for (std::size_t rank = 0; rank < 5; ++rank)
    for (std::size_t step = 0; step < 10; ++step) values += rows.at_step(rank, step).nonzeros();
  CHECK(values == job.work->train().nonzeros());
}

TEST_CASE("FlexRR takes less time than SSP where computing differs, and is for the simulator") {
  training job = job_of_five();
  job.scenario.speed.heterogeneity = {.level = 3};
  job.scenario.speed.work_cost = 1us;
  protocol_choice const ssp = sigmod17::three()[0], flex = sigmod17::flex_rr();
  CHECK(flex.label() == "flex_rr(3)");
  run_result const slow = ssp.run(job), fast = flex.run(job);
  CHECK(fast.protocol == "flex_rr");
  CHECK(fast.updates == slow.updates);
  CHECK(fast.seconds < 0.7 * slow.seconds);
  job.transport = transport_kind::in_process;
  CHECK_THROWS_AS(flex.run(job), option_error);
}
