// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/timeline_recorder.hpp"

#include <algorithm>
#include <utility>

namespace rubato::bench {

time_split timeline_recorder::since_last(moment const& m) {
  if (m.worker >= last_.size()) {  // it has joined
    last_.resize(m.worker + 1);
    begun_.resize(m.worker + 1);
  }
  moment& last = last_[m.worker];
  if (last.spent.total() == 0) last.seconds = m.seconds - m.spent.total();  // when it began
  return {.compute = m.spent.compute - last.spent.compute,
          .send = m.spent.send - last.spent.send,
          .wait = m.spent.wait - last.spent.wait};
}

void timeline_recorder::add(moment const& m, activity what, double seconds, bool reading) {
  constexpr double rounding = 1e-12;
  if (seconds <= rounding) return;
  double& now = last_[m.worker].seconds;
  auto const before = std::find_if(spells_.rbegin(), spells_.rend(),
                                   [&](spell const& s) { return s.worker == m.worker; });
  bool const goes_on = before != spells_.rend() && before->what == what && before->clock == m.clock && !reading;
  if (goes_on) {
    before->to = now + seconds;
  } else {
    if (reading) reads_.push_back(spells_.size());
    spells_.push_back({.worker = m.worker, .clock = m.clock, .what = what, .from = now, .to = now + seconds});
  }
  now += seconds;
}

void timeline_recorder::worked(moment const& m) {
  time_split const spent = since_last(m);
  add(m, activity::compute, spent.compute);
  add(m, activity::wait, spent.wait);
  add(m, activity::send, spent.send);
  last_[m.worker] = m;
}

void timeline_recorder::has_read(moment const& m) {
  time_split const spent = since_last(m);
  add(m, activity::compute, spent.compute);
  add(m, activity::send, spent.send / 2);
  add(m, activity::wait, spent.wait, true);
  add(m, activity::send, spent.send / 2);
  last_[m.worker] = m;
}

void timeline_recorder::begins_clock(moment const& m) {
  if (m.worker >= begun_.size()) begun_.resize(m.worker + 1);
  auto& begun = begun_[m.worker];
  begun.resize(std::max(begun.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, m.clock))), m.seconds);
}

/// Of those that came to clock `need` before the wait was over, who came last.
std::optional<std::uint32_t> timeline_recorder::who_came_last(spell const& waiting, std::int64_t need) const {
  std::optional<std::uint32_t> found;
  if (need < 1) return found;
  auto const at = static_cast<std::size_t>(need - 1);
  for (std::uint32_t w = 0; w < begun_.size(); ++w) {
    if (w == waiting.worker || begun_[w].size() <= at || begun_[w][at] > waiting.to) continue;
    if (graph_ && !graph_->has_edge(worker_id{w}, worker_id{waiting.worker})) continue;
    if (!found || begun_[w][at] > begun_[*found][at]) found = w;
  }
  return found;
}

timeline timeline_recorder::finish(std::string label, std::optional<std::int64_t> staleness) {
  timeline t{.label = std::move(label), .workers = static_cast<std::uint32_t>(last_.size())};
  if (staleness)
    for (std::size_t const i : reads_)
      spells_[i].waits_for = who_came_last(spells_[i], spells_[i].clock - *staleness);
  t.spells = std::move(spells_);
  for (std::uint32_t w = 0; w < begun_.size(); ++w)
    for (double const seconds : begun_[w]) t.clocks.push_back({w, seconds});
  return t;
}

}  // namespace rubato::bench
