// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/settings.hpp"

namespace rubato::bench {
namespace {

void add_data_options(CLI::App& command, compare_options& o) {
  auto* const group = "What is trained";
  command.add_option("--workload", o.workload, "lr or svm, regularised by --l2")->group(group);
  command.add_option("--data", o.data.file, "training data in LIBSVM format, plain or gzip")
      ->group(group);
  command
      .add_option("--test", o.data.test_file, "held-out data; else FILE.t, or a fifth of the data")
      ->group(group);
  command.add_option("--synthetic", o.data.synthetic, "without --data: url or ctr")->group(group);
  command.add_option("--rows", o.data.rows, "of synthetic data")->group(group);
  command.add_option("--features", o.data.features, "of synthetic data")->group(group);
  command.add_option("--nonzeros", o.data.nonzeros, "of a row of synthetic data")->group(group);
  command.add_option("--l2", o.l2, "weight of the regulariser")->group(group);
}

void add_training_options(CLI::App& command, compare_options& o) {
  auto* const group = "How";
  command
      .add_option("--protocols", o.protocols,
                  "bsp, ssp, asp, con_sgd, dyn_sgd, ssp:STALENESS, … or all")
      ->delimiter(',')
      ->group(group);
  command.add_option("--staleness", o.staleness, "of the protocols that have one")->group(group);
  command
      .add_flag("--partition-sync", o.partition_sync,
                "dyn_sgd only: a pull sees the same commits on all servers")
      ->group(group);
  command
      .add_option("--versions", o.versions,
                  "dyn_sgd only: exact, or capped at 2(s + 1) versions alive at a time")
      ->group(group);
  command
      .add_option("--learning-rate", o.learning_rate,
                  "a number, or tune: a grid search for each protocol")
      ->group(group);
  command.add_option("--decay", o.decay, "A of the rate SIGMA/sqrt(A*clock + 1); 0: a fixed rate")
      ->group(group);
  command.add_option("--batch", o.batch, "fraction of a worker's data in a mini-batch")
      ->group(group);
  command
      .add_option("--steps-per-commit", o.steps_per_commit,
                  "mini-batches from commit to commit; one pass over the data unless given")
      ->group(group);
  command.add_option("--clocks", o.clocks, "commits of each worker; a fast one then leaves")
      ->group(group);
  command
      .add_option("--target", o.target,
                  "a loss; auto: 98% of the way from the start to what serial SGD finds; or none")
      ->group(group);
  command.add_flag("--stop-at-target", o.stop_at_target, "end a simulated run when it gets there")
      ->group(group);
  command.add_option("--seed", o.seed, "of the shuffle and of all draws")->group(group);
  command
      .add_option("--tune-budget", o.tune_budget,
                  "seconds of tuning for each protocol (in process 60 unless given)")
      ->group(group);
}

void add_cluster_options(CLI::App& command, compare_options& o) {
  auto* const group = "On what";
  command.add_option("--transport", o.transport, "simulated or in-process")->group(group);
  command.add_option("--workers", o.workers, "30 unless given, in process 4")->group(group);
  command.add_option("--servers", o.servers, "10 unless given, in process 1")->group(group);
  command
      .add_option("--heterogeneity", o.heterogeneity,
                  "a fifth of the workers are so many times slower; 1 unless given")
      ->group(group);
  command.add_option("--scenario", o.scenario, "paper-cluster, homogeneous, flaky, or a JSON file")
      ->group(group);
}

void add_output_options(CLI::App& command, compare_options& o) {
  auto* const group = "Output";
  command.add_option("--points", o.points, "of a loss curve, about")->group(group);
  command.add_option("--json", o.json_file, "write the results to this file")->group(group);
  command.add_option("--report", o.report_dir, "write an HTML page with plots into this directory")
      ->group(group);
}

}  // namespace

void compare_options::add_to(CLI::App& command) {
  command.option_defaults()->always_capture_default();
  add_data_options(command, *this);
  add_training_options(command, *this);
  add_cluster_options(command, *this);
  add_output_options(command, *this);
}

}  // namespace rubato::bench
