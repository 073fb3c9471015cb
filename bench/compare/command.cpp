// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/command.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/compare/compare.hpp"
#include "bench/compare/subject.hpp"
#include "bench/compare/watch.hpp"
#include "bench/report/page.hpp"
#include "bench/result/json.hpp"
#include "bench/result/ranking.hpp"
#include "bench/result/repeated.hpp"
#include "bench/result/write_and_print.hpp"
#include "bench/train/run_peers.hpp"

namespace rubato::bench {
namespace {

/// "10 servers", "peers on ring-based", "10 servers or peers on ring-based"
std::string who_holds(compare_settings const& s) {
  auto const peers = std::ranges::find_if(s.protocols,
                                          [](auto const& p) { return !p.has_servers(); });
  bool const servers = std::ranges::any_of(s.protocols, &protocol_choice::has_servers);
  std::string text = servers ? fmt::format("{} servers", s.job.servers) : "";
  if (peers == s.protocols.end()) return text;
  std::uint32_t const count = job_of_peers(s.job).workers;
  return text + (servers ? " or " : "") + (count != s.job.workers ? fmt::format("{} ", count) : "") + "peers on " +
         peers->with.peers.graph;
}

std::string where(compare_settings const& s) {
  switch (s.job.transport) {
    case transport_kind::simulated:
      return "simulated (" + s.scenario_name + ")";
    case transport_kind::in_process:
      return "in process";
    case transport_kind::mpi:
      return "between ranks of MPI";
    case transport_kind::tcp:
      break;
  }
  return "across processes";
}

/// Of the target.
std::string where_from(compare_settings const& s) {
  if (s.target != compare_settings::target_kind::automatic) return "";
  return std::string(" (98% of the way from the start to what ") +
         (s.app ? "one worker finds in half as many clocks)" : "serial SGD finds)");
}

/// How the rows are dealt out, where it is not at random.
std::string shards_of(compare_settings const& s) {
  return s.data.shards == row_order{} ? "" : ", shards " + name_of(s.data.shards);
}

std::string headline(compare_settings const& s, subject const& what) {
  training const& job = s.job;
  std::string text =
      fmt::format("{}{}; {} workers, {}, {}, HL {}, seed {}\n", what.description(), shards_of(s), job.workers,
                  who_holds(s), where(s), job.scenario.speed.heterogeneity.level, job.seed);
  for (std::string const& why : s.left_out) text += fmt::format("left out: {}\n", why);
  std::int64_t const clocks = commits_of(job);
  if (!job.target) return text + fmt::format("no target: {} clocks{} each\n", clocks, clock_of(s));
  return text + fmt::format("target {:.4g}{}, at most {} clocks{} each\n", *job.target, where_from(s), clocks,
                            clock_of(s));
}

/// What `--timeline` asks for.
std::optional<timeline> watched(compare_settings const& s, std::vector<repeated> const& results) {
  if (!s.timeline) return std::nullopt;
  auto const of = std::ranges::find(results, s.timeline->label(), &repeated::label);
  return watch(*s.timeline, s.job, of->middle().learning_rate);
}

}  // namespace

void run_compare(compare_options const& options) {
  compare_settings settings = interpret(options);
  check_json_is_possible(settings.json_file);
  if (!settings.report_dir.empty()) check_report_is_possible(settings.report_dir);
  subject const what(settings);
  what.put_into(settings.job);
  set_target(settings);
  std::string const head = headline(settings, what);
  auto const results = ranked(compare_rounds(settings, what));
  std::string const why = verdict(results);
  std::string text = fmt::format("{}\n{}\n{}\n", head, comparison_table(results).to_string(), why);
  if (settings.profile)
    for (repeated const& p : results) text += fmt::format("{}\n", profile_table(p.middle()).to_string());
  std::string page;
  auto const write = [&] {
    if (!settings.json_file.empty()) write_json(all_rounds(results), settings.json_file);
    if (!settings.report_dir.empty())
      page = write_report({head, why, results, watched(settings, results)}, settings.report_dir);
  };
  write_and_print(write, text);
  if (!page.empty()) fmt::print("report: {}\n", page);
}

}  // namespace rubato::bench
