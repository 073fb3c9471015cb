// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/command.hpp"

#include <fstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/advise/advice.hpp"
#include "bench/advise/check.hpp"
#include "bench/advise/problem.hpp"
#include "bench/compare/compare.hpp"
#include "bench/compare/progress_bar.hpp"
#include "bench/result/json.hpp"
#include "bench/result/write_and_print.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

void write(std::string const& file, nlohmann::ordered_json const& json) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << json.dump(1) << '\n';
  if (!out.flush()) throw option_error("--json: cannot write " + file);
}

std::string headline(problem const& p) {
  advise_settings const& s = p.settings();
  training const& job = s.base.job;
  std::string text = fmt::format("{}; {} workers, {} servers, {}, HL {}, seed {}\n", p.description(), job.workers,
                                 job.servers, s.base.scenario_name, job.scenario.speed.heterogeneity.level, job.seed);
  for (std::string const& why : s.base.left_out) text += fmt::format("left out: {}\n", why);
  return text + fmt::format("candidates: {}, rates: {}; target {:.4g}, at most {} clocks{} each\n",
                            p.candidates().size(),
                            s.rates.size(), job.target.value_or(0), commits_of(job), clock_of(s.base));
}

void give_advice(advise_settings const& settings) {
  problem const p(settings);
  search_options options = p.search_settings();
  search_result const found = [&] {
    progress_bar progress(1);
    options.progress = [&](std::string const& what) { progress.show(what); };
    return search(p.candidates(), options);
  }();
  write_and_print([&] { write(settings.base.json_file, advice_json(found, p.candidates(), options)); },
                  fmt::format("{}\n{}", headline(p), advice_text(found, p.candidates(), options)));
}

}  // namespace

void run_advise(advise_options const& options) {
  advise_settings const settings = interpret(options);
  check_json_is_possible(settings.base.json_file);
  if (settings.check == 0) return give_advice(settings);
  auto const all = check_on_random_scenarios(settings);
  write_and_print([&] { write(settings.base.json_file, check_json(all)); }, check_text(all));
}

}  // namespace rubato::bench
