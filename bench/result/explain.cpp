// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/result/ranking.hpp"

namespace rubato::bench {
namespace {

/// Below this a difference is not worth a word.
constexpr double notable = 1.1;

/// How `slow` compares with `fast`, above 1 where `slow` needs more.
struct comparison {
  double updates;
  double per_update;
  char const* unit;
};

/// Updates of workers are commits of several local steps, those of peers are one each: side by side
/// they are counted in local steps.
comparison compare_efficiency(run_result const& slow, run_result const& fast) {
  bool const steps = (slow.servers == 0) != (fast.servers == 0);
  auto const count = [&](run_result const& r) {
    return static_cast<double>(steps ? r.counted_steps() : r.counted_updates());
  };
  double const updates = count(slow) / count(fast);
  return {updates, slow.counted_seconds() / fast.counted_seconds() / updates,
          steps ? "local steps" : "updates"};
}

/// What lies behind a difference in the time per update: where the workers' time goes.
std::string where_time_goes(run_result const& slow, run_result const& fast) {
  auto const [slow_send, slow_wait] = std::pair(slow.counted_split.share(slow.counted_split.send),
                                                slow.counted_split.share(slow.counted_split.wait));
  auto const [fast_send, fast_wait] = std::pair(fast.counted_split.share(fast.counted_split.send),
                                                fast.counted_split.share(fast.counted_split.wait));
  constexpr double notable_share = 0.04;
  bool const waits = slow_wait - fast_wait >= slow_send - fast_send;
  if ((waits ? slow_wait - fast_wait : slow_send - fast_send) < notable_share) return "";
  return fmt::format(" (its workers {} {} of their time, those of {} {})",
                     waits ? "wait" : "send and fetch for",
                     show_share(waits ? slow_wait : slow_send), fast.label,
                     show_share(waits ? fast_wait : fast_send));
}

/// Why more updates are needed, as far as it shows in the rates that suited each.
std::string what_rates_say(run_result const& slow, run_result const& fast) {
  constexpr double notable_rate = 3;
  double const ratio = fast.learning_rate / slow.learning_rate;
  if (slow.trials.empty() || fast.trials.empty() || ratio < notable_rate) return "";
  return fmt::format(" (the best rate it bears, {}, is {:.0f} times smaller)",
                     show_number(slow.learning_rate), ratio);
}

/// A phrase with `slow` as its subject: "needs 1.3x the updates and …".
std::string why_slower(run_result const& slow, run_result const& fast) {
  auto const [updates, per_update, unit] = compare_efficiency(slow, fast);
  bool const more = updates > notable;
  bool const longer = per_update > notable;
  std::string const count =
      show_ratio(updates) + " the " + unit + (more ? what_rates_say(slow, fast) : "");
  std::string const time =
      show_ratio(per_update) + " the time for each" + (longer ? where_time_goes(slow, fast) : "");
  if (more && longer) return "needs " + count + " and " + time;
  if (more && per_update < 1 / notable) return "needs " + count + ", if only " + time;
  if (more) return "needs " + count + ", at about the same time for each";
  if (longer && updates < 1 / notable) return "needs only " + count + ", but " + time;
  if (longer) return fmt::format("needs about as many {}, but {}", unit, time);
  return fmt::format("hardly differs, neither in the number of {} nor in the time for each", unit);
}

std::string against_next(run_result const& next, run_result const& best) {
  if (!next.seconds_to_target) return ". No other protocol gets there";
  return fmt::format(", {} sooner than {}, which {}",
                     show_ratio(*next.seconds_to_target / *best.seconds_to_target), next.label,
                     why_slower(next, best));
}

std::string against_last(run_result const& last, run_result const& best) {
  if (last.seconds_to_target)
    return fmt::format(" {} comes last, at {} the time: it {}.", last.label,
                       show_ratio(*last.seconds_to_target / *best.seconds_to_target),
                       why_slower(last, best));
  if (!std::isfinite(last.final_loss)) return " " + last.label + " diverges.";
  return fmt::format(" {} does not get there in {} updates and {} the time; it ends at {:.4g}.",
                     last.label, last.updates, show_ratio(last.seconds / *best.seconds_to_target),
                     last.final_loss);
}

/// How the best of each family does whose best is not the winner: "k_sync(6) (rounds) 1.2x".
std::string other_families(std::span<run_result const> best_first) {
  run_result const& best = best_first.front();
  std::vector<std::string_view> seen = {best.family};
  std::string there, not_there;
  for (run_result const& r : best_first) {
    if (std::ranges::find(seen, r.family) != seen.end()) continue;
    seen.push_back(r.family);
    if (r.seconds_to_target)
      there += fmt::format("{}{} ({}) {}", there.empty() ? "" : ", ", r.label, r.family,
                           show_ratio(*r.seconds_to_target / *best.seconds_to_target));
    else
      not_there += (not_there.empty() ? "" : ", ") + r.family;
  }
  if (seen.size() < 3) return "";
  std::string text = there.empty() ? "" : " The best of other families, by its time: " + there + ".";
  return text + (not_there.empty() ? "" : " None gets there of " + not_there + ".");
}

std::string without_target(std::span<run_result const> best_first) {
  run_result const& best = best_first.front();
  std::string text = best.target ? fmt::format("No protocol reaches {:.4g}. ", *best.target) : "";
  if (!std::isfinite(best.final_loss)) return text + "All of them diverge: the rate is too high.";
  text += fmt::format("{} ends lowest, at {:.5f} after {} updates in {}.", best.label,
                      best.final_loss, best.updates, show_seconds(best.seconds));
  if (best_first.size() > 1 && std::isfinite(best_first[1].final_loss))
    text += fmt::format(" {} ends at {:.5f} after {} updates in {}.", best_first[1].label,
                        best_first[1].final_loss, best_first[1].updates,
                        show_seconds(best_first[1].seconds));
  return text;
}

}  // namespace

std::string explain(std::span<run_result const> best_first) {
  if (best_first.empty()) return "";
  run_result const& best = best_first.front();
  if (!best.seconds_to_target) return without_target(best_first);
  std::string text = fmt::format("{} wins: it reaches {:.4g} in {}", best.label, *best.target,
                                 show_seconds(*best.seconds_to_target));
  if (best_first.size() > 1) text += against_next(best_first[1], best);
  text += '.';
  text += other_families(best_first);
  if (best_first.size() > 2 || (best_first.size() == 2 && !best_first[1].seconds_to_target))
    text += against_last(best_first.back(), best);
  return text;
}

}  // namespace rubato::bench
