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

/// Unless others are asked for, all that an application can run under.
advise_options for_application(advise_options o) {
  if (is_application(o.base.workload) && o.base.protocols == usual_protocols()) o.base.protocols = {"all"};
  return o;
}

bool takes_staleness(protocol_choice const& p) {
  return p.entry->number == protocol_number::staleness ||
         p.entry->number == protocol_number::peer_staleness;
}

/// Each protocol once for each staleness that it is to be tried at, none twice.
std::vector<protocol_choice> spread(std::vector<protocol_choice> const& protocols,
                                    advise_options const& o) {
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
      if (s >= o.base.clocks && s != least) continue;
      p.with.staleness = p.with.peers.staleness = s;
      add(p);
    }
  }
  return all;
}

}  // namespace

advise_options::advise_options() { base.protocols = usual_protocols(); }

void advise_options::add_to(CLI::App& command) {
  base.add_to(command);
  // What only other transports need, what advise does itself, and what it has not.
  for (char const* const name :
       {"--transport", "--tune-budget", "--stop-at-target", "--report", "--staleness"})
    command.remove_option(command.get_option(name));
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
  advise_options const o = for_application(options);
  if (o.seeds < 1 || o.seeds > seeds_max)
    throw option_error("--seeds: must be from 1 to " + std::to_string(seeds_max));
  if (o.check > check_max) throw option_error("--check: must be from 0 to " + std::to_string(check_max));
  if (o.staleness.empty() || std::ranges::min(o.staleness) < 0)
    throw option_error("--staleness: expected one number or more, each 0 or more");
  advise_settings s{.base = interpret(o.base), .rates = {}, .seeds = o.seeds, .check = o.check};
  if (s.base.target == compare_settings::target_kind::none)
    throw option_error("--target: advise goes by the time to a target, expected a loss or auto");
  s.base.job.stop.at_target = true;
  s.base.protocols = spread(s.base.protocols, o);
  s.rates = s.base.learning_rate                               ? std::vector{*s.base.learning_rate}
            : s.base.app && !has_rate(s.base.app->kind) ? std::vector{0.0}
                                                        : rate_grid();
  return s;
}

}  // namespace rubato::bench
