// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/error.hpp"
#include "rubato/protocol/rate_search.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace rubato {
namespace {

constexpr std::size_t samples_min = 9;
constexpr std::size_t samples_max = 100'000;

void require(bool good, char const* option, char const* expected, auto const& value) {
  if (!good) throw option_error(fmt::format("commit_rate: {} must be {}, but is {}", option, expected, value));
}

void check(commit_rate_options const& o) {
  require(o.check_period > duration::zero(), "check_period", "above 0 ns", o.check_period.count());
  // With less than a nanosecond between commits targets would overflow one day.
  require(o.first_rate >= 1 && o.first_rate <= o.check_period.count(), "first_rate",
          "at least 1, and at most one per nanosecond of check_period", o.first_rate);
  if (!o.search) return;
  require(o.probe_period > duration::zero() && o.probe_period % o.check_period == duration::zero(),
          "probe_period", "a whole number of check periods (in ns)", o.probe_period.count());
  require(o.epoch % o.check_period == duration::zero(), "epoch",
          "a whole number of check periods (in ns)", o.epoch.count());
  require(o.epoch / 2 >= o.probe_period, "epoch", "at least two probe periods (in ns)",
          o.epoch.count());
  require(o.samples >= samples_min && o.samples <= samples_max, "samples",
          "from 9 to 100000 per probe", o.samples);
  // Shorter slots may hold no moment at which to ask for the loss.
  require(o.samples <= static_cast<std::uint64_t>(o.probe_period.count()) / 2, "samples",
          "at most one per 2 ns of probe_period", o.samples);
}

}  // namespace

rate_search::rate_search(commit_rate_options const& options)
    : options_(options), rate_(options.first_rate) {
  check(options);
}

std::int64_t rate_search::checkpoint(time_point now) {
  if (!options_.search) {
    if (changes_.empty()) keep(now, options_.first_rate, "given");
  } else if (now >= epoch_ends_) {
    epoch_ends_ = now + options_.epoch;
    begin_probe(now, phase::first_probe, options_.first_rate, "an epoch begins");
  } else if (phase_ != phase::kept && now >= probe_began_ + options_.probe_period) {
    end_probe(now);
  }
  return rate_;
}

void rate_search::begin_probe(time_point now, phase what, std::int64_t rate, char const* reason) {
  phase_ = what;
  rate_ = rate;
  probe_began_ = now;
  slots_.assign(options_.samples, {});
  filled_ = 0;
  changes_.push_back({now, rate, reason});
}

void rate_search::end_probe(time_point now) {
  std::vector<loss_sample> now_seen = samples();
  if (phase_ == phase::first_probe) {
    if (now_seen.size() < samples_min) return keep(now, rate_, "too few losses are known");
    before_ = std::move(now_seen);
    return begin_probe(now, phase::later_probe, rate_ + 1, "the first step up");
  }
  if (now_seen.size() < samples_min) return keep(now, rate_ - 1, "too few losses are known");
  probe_comparison const found = compare_probes(before_, now_seen, last_good_c_);
  if (!found.first.degenerate && !found.second.degenerate) last_good_c_ = found.first.c;
  if (found.verdict != probe_verdict::faster)
    return keep(now, rate_ - 1,
                found.verdict == probe_verdict::undecided ? "undecided" : "no faster");
  before_ = std::move(now_seen);
  begin_probe(now, phase::later_probe, rate_ + 1, "faster");
}

void rate_search::keep(time_point now, std::int64_t rate, char const* reason) {
  phase_ = phase::kept;
  rate_ = rate;
  changes_.push_back({now, rate, reason});
}

void rate_search::observe(time_point at, double loss) {
  if (phase_ == phase::kept || at < probe_began_) return;
  double const share = to_seconds(at - probe_began_) / to_seconds(options_.probe_period);
  double const place = share * static_cast<double>(options_.samples);
  if (!(place < static_cast<double>(options_.samples))) return;
  auto const i = static_cast<std::size_t>(place);
  filled_ = std::max(filled_, i + 1);  // whatever the loss: it would be the same if asked again
  if (!std::isfinite(loss)) return;
  slot& s = slots_[i];
  ++s.count;
  double const weight = 1.0 / static_cast<double>(s.count);
  s.seconds += weight * (to_seconds(at.since_start()) - s.seconds);
  s.loss += weight * (loss - s.loss);
}

time_point rate_search::next_sample() const noexcept {
  if (phase_ == phase::kept || filled_ >= options_.samples) return time_point::max();
  double const middle =
      (static_cast<double>(filled_) + 0.5) / static_cast<double>(options_.samples);
  return probe_began_ + stretch(options_.probe_period, middle);
}

std::vector<loss_sample> rate_search::samples() const {
  std::vector<loss_sample> all;
  for (slot const& s : slots_)
    if (s.count != 0) all.push_back({s.seconds, s.loss});
  return all;
}

}  // namespace rubato
