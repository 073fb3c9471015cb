// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "bench/advise/advice.hpp"
#include "bench/advise/certainty.hpp"
#include "bench/advise/runs.hpp"
#include "bench/result/ranking.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

constexpr double settled = 0.1;  ///< the p-value below which one is said to be faster than the other

/// "; bsp did not get there on 2 of 5", or nothing.
std::string missed(std::string const& who, std::size_t n, std::size_t seeds) {
  return n == 0 ? "" : fmt::format("; {} did not get there on {} of {}", who, n, seeds);
}

/// "; the margin's median is 1.2x, between 1.1x and 1.3x …", as far as these are numbers.
std::string margin_of(certainty const& c) {
  if (!std::isfinite(c.margin) || c.margin == 0) return "";
  std::string text = "; the margin's median is " + show_ratio(c.margin);
  if (c.seeds > 1 && c.least > 0 && std::isfinite(c.greatest))
    text += fmt::format(", between {} and {} with {:.3g}% confidence", show_ratio(c.least), show_ratio(c.greatest),
                        100 * c.interval_level);
  return text;
}

/// "Sure? On 5 new seeds it is faster than bsp on 5 …"
std::string how_sure(certainty const& c, std::string const& next) {
  if (!c.seeds_differ) return "Sure? Runs do not differ by seed here, so nothing is known of chance.\n";
  std::string text = fmt::format("Sure? On {} new seeds it is faster than {} on {}", c.seeds, next, c.wins);
  if (c.ties > 0) text += fmt::format(" and as fast on {}", c.ties);
  text += fmt::format(" (sign test: p = {:.2g})", c.p_value) + missed("it", c.winner_missed, c.seeds) +
          missed(next, c.runner_up_missed, c.seeds) + margin_of(c);
  if (c.margin < 1) return text + ". So they do not confirm the choice; more --seeds may settle it.\n";
  if (c.p_value > settled)
    return text + (c.margin < 1.02 ? ". Between these two it hardly matters.\n"
                                   : ". That does not settle it; more --seeds may.\n");
  return text + ".\n";
}

/// "ssp(3) at rate 0.5"; what is trained may have no rate, which is 0 then.
std::string name_of(std::string const& label, double learning_rate) {
  return learning_rate == 0 ? label : fmt::format("{} at rate {}", label, show_number(learning_rate));
}
std::string name_of(arm const& a, std::span<candidate const> candidates) {
  return name_of(candidates[a.candidate].label, a.learning_rate);
}

std::size_t arrivals(finalist const& f) {
  return static_cast<std::size_t>(
      std::ranges::count_if(f.runs, [](run_result const& r) { return r.seconds_to_target.has_value(); }));
}

std::string versus(finalist const& best, finalist const& next, std::string const& name, double slack) {
  double const ours = best.median_seconds(), theirs = next.median_seconds();
  if (!std::isfinite(ours)) return fmt::format("; the runner-up is {}.\n", name);
  if (ours == theirs) return fmt::format("; the runner-up, {}, takes as long.\n", name);
  if (!std::isfinite(theirs))
    return fmt::format("; the runner-up, {}, did not get there in {} the time on {} of {}.\n", name, show_ratio(slack),
                       next.runs.size() - arrivals(next), next.runs.size());
  if (ours == 0) return fmt::format("; the runner-up, {}, takes {}.\n", name, show_seconds(theirs));
  return fmt::format("; {} less than the runner-up, {} ({}).\n", show_share(1 - ours / theirs), name,
                     show_ratio(theirs / ours));
}

std::string recommendation(search_result const& found, std::span<candidate const> candidates,
                           search_options const& o) {
  finalist const& best = found.finalists.front();
  double const seconds = best.median_seconds();
  std::string text = fmt::format("Take {}: ", name_of(best.what, candidates));
  text += std::isfinite(seconds)
              ? fmt::format("{} to the target, the median of {} seeds", show_seconds(seconds), best.runs.size())
              : fmt::format("it got to the target on {} of {} seeds", arrivals(best), best.runs.size());
  if (found.finalists.size() == 1) {
    text += candidates.size() > 1 ? ". No other candidate gets there in four times the time.\n" : ".\n";
  } else {
    finalist const& next = found.finalists[1];
    text += versus(best, next, name_of(next.what, candidates), o.slack);
    text += how_sure(certainty_of(found.last), candidates[next.what.candidate].label);
  }
  if (o.rates.size() > 1 && (best.what.learning_rate == o.rates.front() || best.what.learning_rate == o.rates.back()))
    text += "Its rate is at an end of those tried: one beyond may be better still.\n";
  return text;
}

std::string nobody(search_result const& found, search_options const& o) {
  std::string text = fmt::format(
      "No candidate reaches the target{} in so many clocks: there is nothing to recommend.\n",
      o.rates.size() > 1 ? " at any rate" : "");
  if (found.lowest && std::isfinite(found.lowest->final_loss))
    text += fmt::format("{} comes lowest, to {:.5g} in {}. More --clocks or a higher --target may help.\n",
                        name_of(found.lowest->label, found.lowest->learning_rate), found.lowest->final_loss,
                        show_seconds(found.lowest->seconds));
  return text;
}

std::string dropped(search_round const& r) {
  std::string text;
  auto const add = [&](std::size_t n, char const* what) {
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, what);
  };
  add(r.arrived, "arrived");
  add(r.behind, "dropped behind others");
  add(r.late, "dropped as too late");
  add(r.diverged, "dropped as diverged");
  add(r.ended, "dropped as ended above the target");
  add(r.readmitted, "let in again");
  if (text.empty()) text = "all go on";
  for (std::size_t i = 0; i < r.gone.size(); ++i) text += (i == 0 ? "; out: " : ", ") + r.gone[i];
  return text;
}

std::string seeds_of(search_round const& r) {
  if (r.seeds == 1) return fmt::format("seed {}", r.seed + 1);
  return fmt::format("seeds {} to {}", r.seed + 1, r.seed + r.seeds);
}

std::string course(search_result const& found) {
  std::string text = "What was run, and what was dropped:\n";
  std::size_t n = 0;
  for (search_round const& r : found.rounds)
    text += fmt::format("{:>3}. {} runs on {}, {}, {} steps: {}\n", ++n, r.runs, seeds_of(r),
                        std::isfinite(r.deadline) ? "up to " + show_seconds(r.deadline) : "to the target", r.cost,
                        dropped(r));
  return text + fmt::format("Cost: {} local steps\n", found.cost());
}

}  // namespace

std::string advice_text(search_result const& found, std::span<candidate const> candidates,
                        search_options const& o) {
  if (found.finalists.empty()) return nobody(found, o) + '\n' + course(found);
  auto const best_first = summaries(found);
  return recommendation(found, candidates, o) + "Why? " + explain(best_first) + "\n\n" +
         comparison_table(best_first).to_string() + '\n' + course(found);
}

}  // namespace rubato::bench
