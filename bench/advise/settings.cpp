// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/settings.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "bench/advise/runs.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

constexpr std::size_t seeds_max = 100;
constexpr std::size_t check_max = 1000;

std::vector<std::string> usual_protocols() {
  return {"bsp", "ssp", "asp", "con_sgd", "dyn_sgd", "fixed_ada_comm", "ada_comm", "adsp"};
}

/// Unless others are asked for, the usual ones, or all that an application can run under.
advise_options with_protocols(advise_options o) {
  if (is_application(o.base.workload) && o.base.protocols.empty()) o.base.protocols = {"all"};
  if (o.base.protocols.empty()) o.base.protocols = usual_protocols();
  return o;
}

/// What --check draws itself.
void check_drawn_are_not_given(compare_options const& o) {
  compare_options const unset;
  auto const refuse = [](bool given, char const* option) {
    if (given) throw option_error(std::string(option) + ": --check draws it, expected one of the two only");
  };
  refuse(o.scenario != unset.scenario, "--scenario");
  refuse(o.workers.has_value(), "--workers");
  refuse(o.servers.has_value(), "--servers");
  refuse(o.heterogeneity.has_value(), "--heterogeneity");
  refuse(o.bandwidth.has_value(), "--bandwidth");
  refuse(!o.extra_delay.empty(), "--extra-delay");
  refuse(o.data.rows.has_value(), "--rows");
  refuse(o.data.features.has_value(), "--features");
  refuse(o.data.nonzeros.has_value(), "--nonzeros");
}

/// Graphs have been checked against one number of workers, and others are drawn.
void check_all_have_servers(std::vector<protocol_choice> const& protocols) {
  for (protocol_choice const& p : protocols)
    if (!p.has_servers())
      throw option_error("--protocols: --check draws the number of workers, expected protocols with servers, not " +
                         p.label());
}

bool takes_staleness(protocol_choice const& p) {
  return p.entry->number == protocol_number::staleness ||
         p.entry->number == protocol_number::peer_staleness;
}

/// Each protocol once for each staleness that it is to be tried at, none twice.
std::vector<protocol_choice> spread(std::vector<protocol_choice> const& protocols,
                                    advise_options const& o, std::int64_t clocks) {
  std::vector<protocol_choice> all;
  auto const add = [&](protocol_choice const& p) {
    if (std::ranges::find(all, p.label(), &protocol_choice::label) == all.end()) all.push_back(p);
  };
  auto typed = o.base.protocols.begin();  // of those chosen by name, which are in the order of the names
  for (protocol_choice p : protocols) {
    if (p.by_name) typed = std::find_if(typed, o.base.protocols.end(), [](auto const& t) { return t != "all"; });
    bool const has_number = p.by_name && (typed++)->find(':') != std::string::npos;
    if (!takes_staleness(p) || has_number) {
      add(p);
      continue;
    }
    std::int64_t const least = std::ranges::min(o.staleness);
    for (std::int64_t const s : o.staleness) {
      if (s >= clocks && s != least) continue;
      p.with.staleness = p.with.peers.staleness = s;
      add(p);
    }
  }
  return all;
}

}  // namespace

advise_options::advise_options() { base.protocols.clear(); }

void advise_options::add_to(CLI::App& command) {
  base.add_to(command);
  // What only other transports need, what advise does itself, and what it has not.
  for (char const* const name :
       {"--transport", "--tune-budget", "--stop-at-target", "--report", "--staleness"})
    command.remove_option(command.get_option(name));
  std::string usual;
  for (std::string const& name : usual_protocols()) usual += (usual.empty() ? "" : ",") + name;
  command.get_option("--protocols")->default_str(usual + "; of an application all");
  auto* const group = "Choosing";
  command
      .add_option("--staleness", staleness,
                  "with commas between: each protocol that has one and is named without is tried at all of them")
      ->delimiter(',')
      ->group(group);
  command
      .add_option("--seeds", seeds, "so many decide, and as many others tell how sure the decision is")
      ->group(group);
  command
      .add_option("--check", check,
                  "instead of advice: so many random scenarios, each also searched exhaustively; says how often both "
                  "agree and what each cost")
      ->group(group);
}

advise_settings interpret(advise_options const& options) {
  advise_options const o = with_protocols(options);
  if (o.seeds < 1 || o.seeds > seeds_max)
    throw option_error("--seeds: must be from 1 to " + std::to_string(seeds_max));
  if (o.check > check_max) throw option_error("--check: must be from 0 to " + std::to_string(check_max));
  if (o.staleness.empty() || std::ranges::min(o.staleness) < 0)
    throw option_error("--staleness: expected one number or more, each 0 or more");
  if (o.check > 0) check_drawn_are_not_given(o.base);
  advise_settings s{.base = interpret(o.base), .rates = {}, .seeds = o.seeds, .check = o.check};
  if (s.base.target == compare_settings::target_kind::none)
    throw option_error("--target: advise goes by the time to a target, expected a loss or auto");
  if (s.check > 0) check_all_have_servers(s.base.protocols);
  s.base.job.stop.at_target = true;
  s.base.protocols = spread(s.base.protocols, o, s.base.job.clocks);
  s.rates = s.base.learning_rate                               ? std::vector{*s.base.learning_rate}
            : s.base.app && !has_rate(s.base.app->kind) ? std::vector{0.0}
                                                        : rate_grid();
  return s;
}

}  // namespace rubato::bench
