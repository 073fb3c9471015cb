// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/repeated.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "bench/result/ranking.hpp"
#include "bench/result/sign_test.hpp"

namespace rubato::bench {
namespace {

bool is_same(run_result const& a, run_result const& b) {
  return !beats(a, b) && !beats(b, a) && a.seconds == b.seconds && a.updates == b.updates;
}

/// "21 to 23 ms", or "21 ms to never"
std::string quartiles(repeated const& p) {
  auto const near = p.at(0.25).seconds_to_target, far = p.at(0.75).seconds_to_target;
  if (!near) return "-";
  std::string from = show_seconds(*near);
  std::string const to = far ? show_seconds(*far) : "never";
  auto const unit = from.find(' ');
  if (from.substr(unit) == to.substr(std::min(to.find(' '), to.size()))) from.resize(unit);
  return from + " to " + to;
}

std::string show_p(double p) { return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.2g}", p); }

std::string behind_first(repeated const& p, repeated const& first) {
  if (&p == &first) return "";
  lead const l = lead_of(first, p);
  std::string const rounds = fmt::format("{} of {}", l.wins, p.rounds.size());
  return l.p_value == 0 ? rounds : rounds + ", " + show_p(l.p_value);
}

std::string listed(std::vector<std::string> const& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

/// What is compared, in one word for the better one.
char const* better_word(repeated const& best) {
  return best.middle().seconds_to_target ? "faster" : "lower at the end";
}

/// "4 to 6"
std::string range_of(std::size_t least, std::size_t most) {
  return least == most ? std::to_string(least) : fmt::format("{} to {}", least, most);
}

std::string no_difference(repeated const& best, std::vector<repeated const*> const& equals) {
  std::vector<std::string> names = {best.label()};
  std::size_t least = best.rounds.size(), most = 0;
  double p_value = 1;
  for (repeated const* other : equals) {
    names.push_back(other->label());
    lead const l = lead_of(best, *other);
    least = std::min(least, l.wins);
    most = std::max(most, l.wins);
    p_value = std::min(p_value, l.p_value);
  }
  return fmt::format("No difference between {}: {}, whose median is best, is {} than the other{} in {} of {} rounds "
                     "(sign test, {}{}).",
                     listed(names), best.label(), better_word(best), equals.size() == 1 ? "" : "s",
                     range_of(least, most), best.rounds.size(), show_p(p_value),
                     equals.size() == 1 || p_value == 1 ? "" : " at least");
}

std::string sureness(std::span<repeated const> best_first) {
  repeated const& best = best_first.front();
  double greatest = 0;
  for (repeated const& other : best_first.subspan(1)) greatest = std::max(greatest, lead_of(best, other).p_value);
  if (greatest == 0) return " All rounds are the same, for nothing in them is drawn.";
  return fmt::format(" Over {} rounds it is {} than {} with {:.1f}% confidence (sign test, {}).", best.rounds.size(),
                     better_word(best), best_first.size() == 2 ? best_first[1].label() : "each of the others",
                     std::floor(1000 * (1 - greatest)) / 10, show_p(greatest));
}

}  // namespace

run_result const& repeated::at(double share) const {
  std::vector<run_result const*> order;
  for (run_result const& r : rounds) order.push_back(&r);
  std::ranges::stable_sort(order, [](run_result const* a, run_result const* b) { return beats(*a, *b); });
  auto const place = std::ceil(share * static_cast<double>(rounds.size())) - 1;
  return *order[static_cast<std::size_t>(std::clamp(place, 0.0, static_cast<double>(rounds.size() - 1)))];
}

bool repeated::is_always_the_same() const {
  return rounds.size() > 1 &&
         std::ranges::all_of(rounds, [&](run_result const& r) { return is_same(r, rounds.front()); });
}

lead lead_of(repeated const& a, repeated const& b) {
  lead l;
  for (std::size_t i = 0; i < std::min(a.rounds.size(), b.rounds.size()); ++i) {
    if (beats(a.rounds[i], b.rounds[i])) ++l.wins;
    if (beats(b.rounds[i], a.rounds[i])) ++l.losses;
  }
  bool const drawn = !a.is_always_the_same() || !b.is_always_the_same();
  if (l.wins > l.losses) l.p_value = drawn ? sign_test(l.wins, l.wins + l.losses) : 0;
  return l;
}

std::vector<repeated> ranked(std::vector<repeated> protocols) {
  std::ranges::stable_sort(protocols,
                           [](repeated const& a, repeated const& b) { return beats(a.middle(), b.middle()); });
  return protocols;
}

std::vector<run_result> middle_runs(std::span<repeated const> protocols) {
  std::vector<run_result> runs;
  std::ranges::transform(protocols, std::back_inserter(runs), &repeated::middle);
  return runs;
}

std::vector<run_result> all_rounds(std::span<repeated const> protocols) {
  std::vector<run_result> runs;
  for (repeated const& p : protocols) runs.insert(runs.end(), p.rounds.begin(), p.rounds.end());
  return runs;
}

text_table comparison_table(std::span<repeated const> best_first) {
  text_table t = comparison_table(middle_runs(best_first));
  if (best_first.empty() || best_first.front().rounds.size() == 1) return t;
  auto const after_the_time = std::ranges::find(t.head, "time to target") - t.head.begin() + 1;
  auto const put = [&](std::vector<std::string>& row, std::string between, std::string last) {
    row.insert(row.begin() + after_the_time, std::move(between));
    row.push_back(std::move(last));
  };
  put(t.head, "quartiles", "behind in");
  for (std::size_t i = 0; i < best_first.size(); ++i)
    put(t.rows[i], quartiles(best_first[i]), behind_first(best_first[i], best_first.front()));
  return t;
}

std::string verdict(std::span<repeated const> best_first) {
  if (best_first.empty()) return "";
  std::string const of_the_middle = explain(middle_runs(best_first));
  repeated const& best = best_first.front();
  if (best_first.size() == 1) return of_the_middle;
  if (best.rounds.size() == 1) {
    bool const measured = best.rounds.front().time_kind == "wall";
    return of_the_middle + (measured ? " One run each, of wall time, is chance: --repeat 7 says how sure it is." : "");
  }
  if (best.rounds.size() < rounds_min)
    return fmt::format("No difference can be told with fewer than {} rounds: --repeat 7. In the middle runs {}",
                       rounds_min, of_the_middle);
  std::vector<repeated const*> equals;
  for (repeated const& other : best_first.subspan(1))
    if (lead_of(best, other).p_value > p_value_max) equals.push_back(&other);
  return equals.empty() ? of_the_middle + sureness(best_first) : no_difference(best, equals);
}

}  // namespace rubato::bench
