// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/scenario_file.hpp"
#include "bench/setup/settings.hpp"

#include <CLI/CLI.hpp>

#include "rubato/peer/topologies.hpp"

namespace rubato::bench {
namespace {

void add_data_options(CLI::App& command, compare_options& o) {
  auto* const group = "What is trained";
  command
      .add_option("--workload", o.workload,
                  "a model on rows: lr, svm, mlp (classes, not convex) or svr (regression), regularised by --l2; or "
                  "an application with tables of its own, under bsp, ssp and asp: mf (matrix factorization), lda "
                  "(topics; the loss is minus the log-likelihood of a token), lasso or kmeans")
      ->group(group);
  command.add_option("--rank", o.rank, "mf only: factors of each user and item")->group(group);
  command.add_option("--topics", o.topics, "lda only")->group(group);
  command.add_option("--clusters", o.clusters, "kmeans only")->group(group);
  command
      .add_option("--kkt-passes", o.kkt_passes,
                  "lasso only: features that safely stay at 0 are left out for so many passes; 0 leaves none out")
      ->group(group);
  command
      .add_option("--lambda", o.lambda,
                  "con_sgd, adsp: what a commit counts, 1 over the number of workers unless given; lasso: weight of "
                  "|w|, a tenth of the least with which all weights are 0 unless given")
      ->group(group);
  command
      .add_option("--damping", o.damping,
                  "lasso only: shortens moves, up to 1; what is safe for the protocol unless given")
      ->group(group);
  command
      .add_option("--hidden", o.hidden, "mlp only: units of each hidden layer, with commas between")
      ->delimiter(',')
      ->group(group);
  command.add_option("--epsilon", o.epsilon, "svr only: errors up to this are free")->group(group);
  command
      .add_option("--evaluate-rows", o.evaluated_rows,
                  "rows, drawn at random, that the objective is computed on; mlp and kmeans 5000, else all")
      ->group(group);
  command
      .add_option("--data", o.data.file,
                  "training data: LIBSVM, or images in idx format (train-images-idx3-ubyte.gz, the "
                  "labels beside it) or the directory they are in; for mf ratings as MovieLens writes them; for lda "
                  "bag-of-words as UCI writes it; plain or gzip")
      ->group(group);
  command
      .add_option("--test", o.data.test_file,
                  "held-out data; else FILE.t or t10k-images…, or a fifth of the data")
      ->group(group);
  command
      .add_option("--pool", o.data.pool, "images only: squares of so many pixels a side become one")
      ->group(group);
  command
      .add_option("--synthetic", o.data.synthetic,
                  "without --data: url or ctr (lr, svm, lasso), digits (mlp, kmeans) or chiller (svr)")
      ->group(group);
  command
      .add_option("--shards", o.shards,
                  "which rows a worker gets: shuffled; ordered, as the file has them; by-label:FRACTION, so many of "
                  "them in the order of their labels; or all, each worker goes over all rows")
      ->group(group);
  command.add_option("--rows", o.data.rows, "of synthetic data: also users of mf, documents of lda")->group(group);
  command
      .add_option("--features", o.data.features, "of synthetic url and ctr; items of mf, the vocabulary of lda")
      ->group(group);
  command
      .add_option("--nonzeros", o.data.nonzeros,
                  "of a row of synthetic url and ctr; ratings of a user, tokens of a document")
      ->group(group);
  command.add_option("--l2", o.l2, "weight of the regulariser; 1e-4 unless given, of mf 0.05")->group(group);
}

void add_training_options(CLI::App& command, compare_options& o) {
  auto* const group = "How";
  command
      .add_option("--protocols", o.protocols,
                  "bsp, ssp, asp, con_sgd, dyn_sgd, fixed_ada_comm, ada_comm, adsp; with optimizers on the servers "
                  "fed_adam, slow_mo, diloco, async_diloco, dc_asgd, easgd; by rounds k_sync, k_async, fed_avg, "
                  "fed_buff; staleness_aware; essp, whose copies are renewed; dssp, psp and vap, whose workers wait "
                  "for something else; with filters gaia, streaming_diloco, lag; "
                  "without servers hop, hop_backup, hop_stale, hop_hybrid, hop_skip, notify_ack, ad_psgd, "
                  "all_reduce, push_sum, gossip, prague; "
                  "ssp:STALENESS, fixed_ada_comm:STEPS, adsp:RATE, hop_backup:BACKUPS, prague:MEMBERS, …; bsp, ssp, asp, "
                  "con_sgd with what an update counts: ssp+average:3, ssp+sum, con_sgd+0.1; or all")
      ->delimiter(',')
      ->group(group);
  command
      .add_option("--staleness", o.staleness,
                  "of the protocols that have one; 3 unless given, of hop_stale and hop_hybrid 5")
      ->group(group);
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
  command
      .add_option("--decay", o.decay,
                  "A of the rate SIGMA/sqrt(A*p + 1) after p passes over a worker's data; 0: a fixed rate")
      ->group(group);
  command.add_option("--batch", o.batch, "fraction of a worker's data in a mini-batch")
      ->group(group);
  command
      .add_option("--clock", o.clock,
                  "what a worker does between commits: a mini-batch (batch), or a pass over its data in mini-batches "
                  "(pass)")
      ->group(group);
  command
      .add_option("--steps-per-commit", o.steps_per_commit, "mini-batches from commit to commit, in place of --clock")
      ->group(group);
  command
      .add_option("--codec", o.codec,
                  "how servers and workers, where there are servers, write parameters and updates: none, as they are; "
                  "bfloat16, in 2 bytes each; int8, in 33 for 32; what rounding takes from an update goes with the next")
      ->group(group);
  command
      .add_option("--top-k", o.top_k,
                  "where there are servers, the share of a commit's entries that is sent, the largest; the others are "
                  "carried to the next")
      ->group(group);
  command
      .add_option("--clocks", o.clocks,
                  "commits of each worker, and a fast one then leaves; as many as 100 passes over its data unless "
                  "given, of an application 100, of mf and lda rounded up to whole sweeps over the data; "
                  "with ada_comm and adsp all go on until the slowest has made as many local "
                  "steps; peers, who send after each local step, make as many iterations")
      ->group(group);
  command
      .add_option("--target", o.target,
                  "a loss; auto: 98% of the way from the start to what serial SGD finds, or of an application one "
                  "worker in half as many clocks; or none")
      ->group(group);
  command.add_flag("--stop-at-target", o.stop_at_target, "end a simulated run when it gets there")
      ->group(group);
  command.add_option("--seed", o.seed, "of the shuffle and of all draws")->group(group);
  command
      .add_option("--tune-budget", o.tune_budget,
                  "seconds of tuning for each protocol (60 unless given, but in the simulator)")
      ->group(group);
}

void add_pace_options(CLI::App& command, compare_options& o) {
  auto* const group = "Pace";
  command
      .add_option("--local-steps", o.local_steps,
                  "between commits: of fixed_ada_comm, fed_adam, fed_avg, fed_buff, slow_mo, diloco, async_diloco, "
                  "streaming_diloco and easgd, and of ada_comm in the beginning; unless given a pass over the data, or "
                  "twice as many as a clock's where that is more, for with as many fixed_ada_comm is bsp")
      ->group(group);
  command
      .add_option("--check-period", o.check_period,
                  "of adsp, such as 60s or 0.5 (seconds); ada_comm looks at the loss every fifth. "
                  "Unless given what the slowest worker takes for --local-steps and an exchange")
      ->group(group);
  command
      .add_option("--epoch", o.epoch,
                  "how often adsp searches for its commit rate; 20 check periods unless given")
      ->group(group);
  command
      .add_option("--probe-period", o.probe_period,
                  "how long adsp tries a rate; two check periods unless given")
      ->group(group);
  command
      .add_option("--commit-rate", o.commit_rate,
                  "adsp: so many commits per check period, without a search")
      ->group(group);
  command
      .add_option("--momentum", o.momentum, "of each worker's own steps, with any protocol; below 1")
      ->group(group);
  command
      .add_option("--global-momentum", o.global_momentum,
                  "of the servers' steps, with bsp, fixed_ada_comm and adsp; below 1")
      ->group(group);
  command
      .add_flag("--batch-tune", o.batch_tune,
                "bsp and fixed_ada_comm: batches in proportion to the workers' speeds, those of all "
                "workers together as large as before")
      ->group(group);
}

void add_peer_options(CLI::App& command, compare_options& o) {
  auto* const group = "Without servers";
  command.add_option("--graph", o.graph, "who sends to whom: " + graph_names())->group(group);
  command
      .add_option("--max-gap", o.gap_max,
                  "iterations that a peer may be ahead of one that it sends to, by token queues: 8 "
                  "unless given; hop has them only if it is given, notify_ack never")
      ->group(group);
  command
      .add_option("--backups", o.backups,
                  "updates of an iteration that hop_backup, hop_skip and hop_hybrid do not wait "
                  "for")
      ->group(group);
  command
      .add_option("--jump-trigger", o.jump_trigger,
                  "hop_skip: iterations that a peer must lag behind to jump")
      ->group(group);
  command.add_option("--jump-max", o.jump_max, "hop_skip: iterations that it goes forward at most")
      ->group(group);
  command
      .add_option("--order", o.order,
                  "of hop's iterations and notify_ack's: parallel (sends, and computes meanwhile) "
                  "or serial (computes, then sends)")
      ->group(group);
}

void add_cluster_options(CLI::App& command, compare_options& o) {
  auto* const group = "On what";
  command
      .add_option("--transport", o.transport,
                  "simulated; in-process: workers are threads; tcp: a coordinator, servers "
                  "and workers are processes of this machine, which the program starts itself; or mpi: "
                  "they are the ranks that mpirun has started this program as")
      ->group(group);
  command
      .add_option("--workers", o.workers, "30 in the simulator, else 4, unless given; of mpi all ranks that are left")
      ->group(group);
  command.add_option("--servers", o.servers, "10 in the simulator, else 1, unless given")
      ->group(group);
  command
      .add_option("--heterogeneity", o.heterogeneity,
                  "a fifth of the workers are so many times slower; 1 unless given")
      ->group(group);
  command.add_option("--scenario", o.scenario, built_in_scenario_names() + ", or a JSON file")
      ->group(group);
  command
      .add_option("--extra-delay", o.extra_delay,
                  "added to the scenario's latency of each message, each way: 20ms, 0.02 (seconds)")
      ->group(group);
  command
      .add_option("--bandwidth", o.bandwidth,
                  "of each worker's link, in bytes per second each way, instead of the scenario's; "
                  "0: infinite")
      ->group(group);
}

void add_output_options(CLI::App& command, compare_options& o) {
  auto* const group = "Output";
  command
      .add_option("--repeat", o.repeat,
                  "rounds of all protocols in turn, by which the verdict says how sure it is: in virtual time on so "
                  "many seeds, in wall time after one round that does not count; 7 are enough to say something")
      ->group(group);
  command.add_option("--points", o.points, "of a loss curve, about")->group(group);
  command
      .add_flag("--profile", o.profile,
                "print where the time of each worker went, a table for each protocol; the JSON has it anyway")
      ->group(group);
  command
      .add_option("--timeline", o.timeline,
                  "one of --protocols: the report also shows what its workers do, and who waits for whom, in the first "
                  "clocks of a run; simulator only")
      ->group(group);
  command.add_option("--json", o.json_file, "write the results to this file")->group(group);
  command.add_option("--report", o.report_dir, "write an HTML page with plots into this directory")
      ->group(group);
}

}  // namespace

void compare_options::add_to(CLI::App& command) {
  command.option_defaults()->always_capture_default();
  add_data_options(command, *this);
  add_training_options(command, *this);
  add_pace_options(command, *this);
  add_peer_options(command, *this);
  add_cluster_options(command, *this);
  add_output_options(command, *this);
}

}  // namespace rubato::bench
