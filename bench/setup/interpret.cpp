// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "bench/setup/peers.hpp"
#include "bench/setup/scenario_file.hpp"
#include "bench/setup/settings.hpp"
#include "bench/train/pacing.hpp"
#include "bench/train/run.hpp"
#include "rubato/core/error.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/storage/bfloat16.hpp"
#include "rubato/storage/int8_blocks.hpp"

namespace rubato::bench {
namespace {

void require(bool ok, std::string const& sentence) {
  if (!ok) throw option_error(sentence);
}

std::optional<application_kind> application_of(std::string const& name) {
  for (auto const kind :
       {application_kind::mf, application_kind::lda, application_kind::lasso, application_kind::k_means})
    if (name == name_of(kind)) return kind;
  return std::nullopt;
}

model_kind model_of(std::string const& name) {
  for (auto const kind : {model_kind::lr, model_kind::svm, model_kind::mlp, model_kind::svr})
    if (name == name_of(kind)) return kind;
  throw option_error("--workload: there is no workload \"" + name +
                     "\", expected one of lr, svm, mlp, svr, mf, lda, lasso, kmeans");
}

transport_kind transport_of(std::string const& name) {
  std::string known;
  for (auto const kind :
       {transport_kind::simulated, transport_kind::in_process, transport_kind::tcp, transport_kind::mpi}) {
    if (name == name_of(kind)) return kind;
    known += (known.empty() ? "" : ", ") + std::string(name_of(kind));
  }
  throw option_error("--transport: there is no transport \"" + name + "\", expected one of " +
                     known);
}

bool keeps_versions(std::vector<protocol_choice> const& protocols) {
  return std::ranges::any_of(protocols, [](protocol_choice const& p) { return p.entry->keeps_versions; });
}

versions versions_of(std::string const& name) {
  if (name == "exact") return versions::exact;
  require(name == "capped",
          "--versions: there is no rule \"" + name + "\", expected exact or capped");
  return versions::capped;
}

iteration_order order_of(std::string const& name) {
  if (name == "parallel") return iteration_order::parallel;
  require(name == "serial",
          "--order: there is no order \"" + name + "\", expected parallel or serial");
  return iteration_order::serial;
}

/// A positive number, or nothing where the text is `word`.
std::optional<double> number_or(std::string const& option, std::string const& text,
                                std::string const& word) {
  if (text == word) return std::nullopt;
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (std::exception const&) {
  }
  require(used == text.size() && used > 0 && std::isfinite(value) && value > 0,
          option + ": \"" + text + "\" is neither a number above 0 nor " + word);
  return value;
}

workload_options workload_of(compare_options const& o, std::uint64_t seed) {
  constexpr std::size_t rows_of_a_network = 5'000;
  constexpr double usual_l2 = 1e-4;
  workload_options w{.model = model_of(o.workload),
                     .l2 = o.l2.value_or(usual_l2),
                     .hidden = o.hidden,
                     .epsilon = o.epsilon,
                     .seed = seed};
  if (w.model == model_kind::mlp) w.evaluated_rows = rows_of_a_network;
  if (o.evaluated_rows) w.evaluated_rows = *o.evaluated_rows;
  return w;
}

application_options application_options_of(compare_options const& o, application_kind kind,
                                           std::uint64_t seed) {
  application_options a{.kind = kind,
                        .rank = o.rank,
                        .topics = o.topics,
                        .lambda = o.lambda,
                        .damping = o.damping,
                        .kkt_passes = o.kkt_passes,
                        .clusters = o.clusters,
                        .seed = seed};
  if (o.l2) a.l2 = *o.l2;
  if (o.evaluated_rows) a.evaluated_rows = *o.evaluated_rows;
  return a;
}

sim::scenario scenario_of(compare_options const& o, std::size_t workers) {
  sim::scenario s = load_scenario(o.scenario, workers);
  sim::link_options& link = s.network.worker_link;
  if (!o.extra_delay.empty()) {
    auto const extra = parse_time(o.extra_delay);
    require(extra && *extra >= duration::zero() && *extra <= longest_time,
            "--extra-delay: \"" + o.extra_delay + "\" is no time from 0 to 10^8 seconds, such as 20ms or 0.02");
    link.latency = (time_point(link.latency) + *extra).since_start();  // of which a file may have the longest
  }
  if (o.bandwidth) link.bandwidth = *o.bandwidth;
  if (o.heterogeneity) s.speed.heterogeneity.level = *o.heterogeneity;
  if (o.seed) s.seed = *o.seed;
  return s;
}

std::optional<duration> period_of(std::string const& option, std::string const& text) {
  if (text.empty()) return std::nullopt;
  auto const t = parse_time(text);
  require(t && *t > duration::zero() && *t <= longest_time,
          option + ": \"" + text + "\" is no time above 0 and up to 10^8 seconds, such as 60s or 0.5");
  return t;
}

peer_parameters peers_of(compare_options const& o) {
  peer_parameters p{.graph = o.graph,
                    .gap_max = o.gap_max,
                    .backups = o.backups,
                    .jump_trigger = o.jump_trigger,
                    .jump_max = o.jump_max,
                    .order = order_of(o.order)};
  if (o.staleness) p.staleness = *o.staleness;
  return p;
}

protocol_parameters parameters_of(compare_options const& o) {
  constexpr std::int64_t usual_staleness = 3;
  return {.staleness = o.staleness.value_or(usual_staleness),
          .global_rate = application_of(o.workload) ? std::nullopt : o.lambda,
          .partition_sync = o.partition_sync,
          .kept = versions_of(o.versions),
          .local_steps = o.local_steps,
          .check_period = period_of("--check-period", o.check_period),
          .epoch = period_of("--epoch", o.epoch),
          .probe_period = period_of("--probe-period", o.probe_period),
          .commit_rate = o.commit_rate,
          .global_momentum = o.global_momentum,
          .batch_tune = o.batch_tune,
          .peers = peers_of(o)};
}

/// Beside the servers and a coordinator.
std::uint32_t workers_of_ranks(compare_options const& o, std::uint32_t servers) {
  std::uint32_t const ranks = over_mpi().ranks;
  require(ranks != 0, "--transport mpi: needs ranks: mpirun -n 7 rubato-bench compare --transport mpi");
  std::uint64_t const others = std::uint64_t{1} + servers;
  require(ranks > others,
          fmt::format("--transport mpi: there are {} ranks, expected at least {}: a coordinator, --servers {} and a "
                      "worker", ranks, others + 1, servers));
  auto const workers = static_cast<std::uint32_t>(ranks - others);
  require(!o.workers || *o.workers == workers,
          fmt::format("--workers: of {} ranks {} are workers, beside --servers {} and a coordinator", ranks, workers,
                      servers));
  return workers;
}

/// What a clock is, how many there are, and how many of them make a pass, for which a curve that has arrived stays.
void set_clocks(training& job, compare_options const& o) {
  constexpr std::int64_t usual_passes = 100, usual_clocks_of_application = 100;
  require(o.clock == "batch" || o.clock == "pass",
          "--clock: there is no clock \"" + o.clock + "\", expected batch or pass");
  std::int64_t const pass = job.steps_of_a_pass();
  job.steps_per_commit = o.steps_per_commit.value_or(o.clock == "pass" ? pass : 1);
  bool const app = application_of(o.workload).has_value();
  std::int64_t const in_a_pass = (pass + job.steps_per_commit - 1) / job.steps_per_commit;
  std::int64_t const usual = (usual_passes * pass + job.steps_per_commit - 1) / job.steps_per_commit;
  job.clocks = o.clocks.value_or(app ? usual_clocks_of_application : usual);
  if (!app) job.clocks_at_target = in_a_pass;
}

table_codec codec_of(std::string const& name) {
  if (name == "none") return {};
  if (name == "bfloat16") return {.updates = bfloat16{}, .answers = bfloat16{}};
  require(name == "int8", "--codec: there is no codec \"" + name + "\", expected none, bfloat16 or int8");
  return {.updates = int8_blocks{}, .answers = int8_blocks{}};
}

training job_of(compare_options const& o) {
  training job;
  job.transport = transport_of(o.transport);
  bool const simulating = job.transport == transport_kind::simulated;
  job.servers = o.servers.value_or(simulating ? 10 : 1);
  job.workers = o.workers.value_or(simulating ? 30 : 4);
  if (job.transport == transport_kind::mpi) job.workers = workers_of_ranks(o, job.servers);
  require(job.workers >= 1, "--workers: must be 1 or more");
  require(job.servers >= 1, "--servers: must be 1 or more");
  job.scenario = scenario_of(o, job.workers);
  job.scenario.validate(job.workers, job.servers);
  job.seed = job.scenario.seed;
  job.decay = o.decay;
  job.batch = o.batch;
  job.momentum = o.momentum;
  set_clocks(job, o);
  job.shards = parse_row_order(o.shards);
  job.codec = codec_of(o.codec);
  if (o.top_k != 1) job.filter = {.threshold = 0, .largest = o.top_k, .small = small_entries::carry};
  job.points = o.points;
  job.stop.at_target = o.stop_at_target;
  return job;
}

/// And no infinity.
bool is_from(double least, double value) { return value >= least && std::isfinite(value); }

void check_numbers(compare_options const& o) {
  constexpr std::size_t units_max = 1'000'000;
  constexpr std::int64_t clocks_max = 1'000'000'000'000, steps_max = 1'000'000;  // their product is a number
  require(!o.staleness || *o.staleness >= 0, "--staleness: must be 0 or more");
  require(!o.heterogeneity || is_from(1, *o.heterogeneity), "--heterogeneity: must be 1 or more, and finite");
  require(is_from(0, o.decay), "--decay: must be 0 or more, and finite");
  require(!o.l2 || is_from(0, *o.l2), "--l2: must be 0 or more, and finite");
  require(o.rank >= 1, "--rank: must be 1 or more");
  require(o.topics >= 1, "--topics: must be 1 or more");
  require(o.clusters >= 1, "--clusters: must be 1 or more");
  require(is_from(0, o.epsilon), "--epsilon: must be 0 or more, and finite");
  require(std::ranges::all_of(o.hidden, [](std::size_t units) { return units >= 1 && units <= units_max; }),
          "--hidden: each layer must have from 1 to 10^6 units");
  require(!o.evaluated_rows || *o.evaluated_rows >= 1, "--evaluate-rows: must be 1 or more");
  require(o.data.pool >= 1, "--pool: must be 1 or more");
  require(o.batch > 1e-12 && o.batch <= 1, "--batch: must be a fraction above 0 and at most 1");
  require(!o.steps_per_commit || (*o.steps_per_commit >= 1 && *o.steps_per_commit <= steps_max),
          "--steps-per-commit: must be from 1 to 10^6");
  require(o.top_k > 0 && o.top_k <= 1, "--top-k: must be a fraction above 0 and at most 1");
  require(!o.local_steps || (*o.local_steps >= 1 && *o.local_steps <= steps_max),
          "--local-steps: must be from 1 to 10^6");
  require(!o.commit_rate || (*o.commit_rate >= 1 && *o.commit_rate <= steps_max),
          "--commit-rate: must be from 1 to 10^6");
  require(!o.gap_max || *o.gap_max >= 1, "--max-gap: must be 1 or more");
  require(o.backups >= 0, "--backups: must be 0 or more");
  require(o.jump_trigger >= 2,
          "--jump-trigger: must be 2 or more, for by 1 every peer goes anyway");
  require(o.jump_max >= 2, "--jump-max: must be 2 or more, for by 1 every peer goes anyway");
  require(o.momentum >= 0 && o.momentum < 1, "--momentum: must be 0 or more and below 1");
  require(!o.global_momentum || (*o.global_momentum >= 0 && *o.global_momentum < 1),
          "--global-momentum: must be 0 or more and below 1");
  require(!o.clocks || (*o.clocks >= 1 && *o.clocks <= clocks_max), "--clocks: must be from 1 to 10^12");
  require(o.points >= 1, "--points: must be 1 or more");
  require(o.repeat >= 1 && o.repeat <= 10'000, "--repeat: must be from 1 to 10^4");
  require(!o.tune_budget || *o.tune_budget > 0, "--tune-budget: must be above 0 seconds");
  require(!o.protocols.empty(), "--protocols: names at least one protocol, or all");
}

/// What is said of data that is not used.
void check_data(data_source const& d) {
  require(d.test_file.empty() || !d.file.empty(), "--test: is held out of --data, and there is none");
  std::string const with_data = ": is for synthetic data, not with --data";
  require(d.file.empty() || d.synthetic.empty(), "--synthetic" + with_data);
  require(d.file.empty() || !d.rows, "--rows" + with_data);
  require(d.file.empty() || !d.features, "--features" + with_data);
  require(d.file.empty() || !d.nonzeros, "--nonzeros" + with_data);
}

/// Also where no protocol asks for it.
void check_graph(compare_options const& o, std::uint32_t workers) {
  try {
    (void)parse_graph(o.graph, workers);
  } catch (option_error const& e) {
    throw option_error(std::string("--graph: ") + e.what());
  }
}

/// What makes no sense for an application, which has bodies, merges and data of its own.
void check_application(compare_options const& o, compare_settings const& s) {
  if (!s.app) return;
  std::string const only = ": is for --workload lr, svm, mlp and svr, not " + o.workload;
  require(o.momentum == 0, "--momentum" + only);
  require(o.codec == "none", "--codec" + only);
  require(o.top_k == 1, "--top-k" + only);
  require(!o.global_momentum, "--global-momentum" + only);
  row_order::kind const shards = s.data.shards.how;
  bool const has_order = s.app->kind == application_kind::lasso || s.app->kind == application_kind::k_means;
  require(shards == row_order::kind::shuffled || (has_order && shards != row_order::kind::all),
          "--shards: --workload " + o.workload + (has_order ? " takes all but all" : " has shards of its own"));
  for (protocol_choice const& p : s.protocols)
    require(!p.with.merge || p.with.merge->how == named_merge::kind::sum,
            "--protocols: " + p.label() + ": the servers of --workload " + o.workload + " add up");
  require(!o.batch_tune, "--batch-tune" + only);
  require(!has_processes(s.job.transport),
          "--transport: --workload " + o.workload +
              " runs simulated or in-process, for its workers keep what is their own");
  require(s.job.scenario.joins.empty(),
          "--scenario: workers join, but those of --workload " + o.workload + " share the data by their number");
  bool const on_rows = s.app->kind == application_kind::lasso || s.app->kind == application_kind::k_means;
  require(on_rows || o.data.synthetic.empty(), "--synthetic: " + o.workload + " has synthetic data of its own");
  require(on_rows || o.data.test_file.empty(),
          "--test: --workload " + o.workload + " takes none: mf holds out a fifth of the ratings, lda nothing");
  require(s.app->kind == application_kind::mf || o.learning_rate == "tune",
          "--learning-rate: " + o.workload + " has none");
}

/// The one of the protocols that `--timeline` names.
std::optional<protocol_choice> timeline_of(compare_options const& o, compare_settings const& s) {
  if (o.timeline.empty()) return std::nullopt;
  require(!o.report_dir.empty(), "--timeline: is a picture of the --report, and there is none");
  require(s.job.transport == transport_kind::simulated, "--timeline: needs --transport simulated");
  require(!s.app, "--timeline: is for --workload lr, svm, mlp and svr, not " + o.workload);
  auto const named = parse_protocols(std::array{o.timeline}, parameters_of(o));
  std::string const label = named.front().label();
  auto const found = std::ranges::find(s.protocols, label, &protocol_choice::label);
  require(named.size() == 1 && found != s.protocols.end(),
          "--timeline: \"" + o.timeline + "\" is not one of --protocols");
  return *found;
}

}  // namespace

std::string clock_of(compare_settings const& s) {
  if (s.app) return "";
  std::int64_t const steps = s.job.steps_per_commit;
  if (steps == 1) return " of a mini-batch";
  return steps == s.job.steps_of_a_pass() ? " of a pass" : fmt::format(" of {} mini-batches", steps);
}

bool is_application(std::string const& workload) { return application_of(workload).has_value(); }

compare_settings interpret(compare_options const& o) {
  check_numbers(o);
  check_data(o.data);
  compare_settings s;
  s.protocols = parse_protocols(o.protocols, parameters_of(o));
  require((!o.partition_sync && o.versions == compare_options{}.versions) || keeps_versions(s.protocols),
          "--partition-sync, --versions: of dyn_sgd, which --protocols does not name");
  s.job = job_of(o);
  check_graph(o, s.job.workers);
  s.data = o.data;
  s.data.shards = s.job.shards;
  if (auto const kind = application_of(o.workload)) {
    s.app = application_options_of(o, *kind, s.job.seed);
  } else {
    s.model = workload_of(o, s.job.seed);
    s.data.labels = labels_of(s.model.model);
  }
  require(!o.lambda || s.app || (*o.lambda > 0 && *o.lambda <= 1), "--lambda: must be above 0 and at most 1");
  require(s.job.shards.how != row_order::kind::all || !o.batch_tune,
          "--batch-tune: needs shards that differ, not --shards all");
  check_application(o, s);
  s.left_out = leave_out_impossible(s.protocols, s.job, s.app);
  s.scenario_name = o.scenario;
  s.repeat = o.repeat;
  s.learning_rate = number_or("--learning-rate", o.learning_rate, "tune");
  if (o.target == "none") {
    s.target = compare_settings::target_kind::none;
  } else if (auto const loss = number_or("--target", o.target, "auto")) {
    s.target = compare_settings::target_kind::given;
    s.job.target = loss;
  }
  bool const simulating = s.job.transport == transport_kind::simulated;
  require(simulating || !o.stop_at_target,
          "--stop-at-target: needs --transport simulated, for elsewhere evaluation takes time");
  require(simulating || (o.extra_delay.empty() && !o.bandwidth),
          "--extra-delay, --bandwidth: need --transport simulated");
  require(!has_processes(s.job.transport) || (!o.global_momentum && !o.partition_sync),
          "--global-momentum, --partition-sync: need --transport simulated or in-process");
  require(!o.stop_at_target || s.target != compare_settings::target_kind::none,
          "--stop-at-target: needs a --target");
  if (o.tune_budget)
    s.tuning.budget_seconds = *o.tune_budget;
  else if (!simulating)
    s.tuning.budget_seconds = 60;
  s.profile = o.profile;
  s.timeline = timeline_of(o, s);
  s.json_file = o.json_file;
  s.report_dir = o.report_dir;
  return s;
}

}  // namespace rubato::bench
