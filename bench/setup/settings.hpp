// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/application/application.hpp"
#include "bench/compare/tune.hpp"
#include "bench/train/load_data.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/training.hpp"

namespace CLI {
class App;
}

namespace rubato::bench {

/// The options of `compare` as they are typed.
struct compare_options {
  std::vector<std::string> protocols{"all"};
  std::string workload = "lr";
  std::vector<std::size_t> hidden{32};
  double epsilon = 0.1;
  std::size_t rank = 8, topics = 20, clusters = 10;
  std::optional<double> lambda{}, damping{};
  std::int64_t kkt_passes = 0;
  std::optional<std::size_t> evaluated_rows{};
  data_source data{};
  std::string shards = "shuffled";
  std::string transport = "simulated";
  std::optional<std::uint32_t> workers{}, servers{};
  std::optional<std::int64_t> staleness{};
  bool partition_sync = false;
  std::string versions = "exact";
  std::optional<std::int64_t> local_steps{}, commit_rate{};
  std::string check_period{}, epoch{}, probe_period{};
  double momentum = 0;
  std::optional<double> global_momentum{};
  bool batch_tune = false;
  std::string graph = "ring-based";
  std::optional<std::int64_t> gap_max{};
  std::int64_t backups = 1;
  std::int64_t jump_trigger = 2, jump_max = 10;
  std::string order = "parallel";
  std::optional<double> heterogeneity{};
  std::string scenario = "paper-cluster";
  std::string extra_delay{};
  std::optional<std::uint64_t> bandwidth{};
  std::string learning_rate = "tune";
  double decay = 0.2;
  std::optional<double> l2{};
  double batch = 0.1;
  std::string clock = "batch";
  std::optional<std::int64_t> steps_per_commit{};
  std::string codec = "none";
  double top_k = 1;
  std::optional<std::int64_t> clocks{};
  std::string target = "auto";
  bool stop_at_target = false;
  std::size_t points = 400;
  std::size_t repeat = 1;
  std::optional<std::uint64_t> seed{};
  std::optional<double> tune_budget{};
  bool profile = false;
  std::string timeline{};
  std::string json_file{};
  std::string report_dir{};

  /// Adds the options to a command; they are written here when it is parsed.
  void add_to(CLI::App& command);
};

/// What they mean, checked.
struct compare_settings {
  std::vector<protocol_choice> protocols;
  std::vector<std::string> left_out;  ///< of "all", and why
  training job;  ///< of each run; the workload, learning rate and target are still to be filled in
  workload_options model;                 ///< of a model on rows
  std::optional<application_options> app; ///< in its place
  data_source data;
  std::string scenario_name;
  std::optional<double> learning_rate;  ///< empty: to be tuned
  enum class target_kind { none, given, automatic } target = target_kind::automatic;
  tune_options tuning;
  std::size_t repeat;  ///< rounds
  bool profile;                             ///< is printed
  std::optional<protocol_choice> timeline;  ///< whose timeline the report has
  std::string json_file;
  std::string report_dir;
};

/// What workers do between commits, behind the word "clocks": " of a mini-batch"; "" for an application.
[[nodiscard]] std::string clock_of(compare_settings const& s);

/// Whether a `--workload` is an application.
[[nodiscard]] bool is_application(std::string const& workload);

/// Checks the options against each other. @throws option_error that names the option
[[nodiscard]] compare_settings interpret(compare_options const& options);

}  // namespace rubato::bench
