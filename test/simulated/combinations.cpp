// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Every admission with every visibility, merge, pace, filter, way to read, codec and kind of table: what nobody has
// published, too.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/adam.hpp>
#include <rubato/protocol/adaptive_period.hpp>
#include <rubato/protocol/async_diloco.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/commit_rate.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/discount.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/fragments.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/lazy_upload.hpp>
#include <rubato/protocol/nesterov.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/read_ahead.hpp>
#include <rubato/protocol/revise.hpp>
#include <rubato/protocol/rounds.hpp>
#include <rubato/protocol/slow_mo.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/codec.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

template <class Rule>
using named = std::vector<std::pair<std::string, Rule>>;

named<admission_rule> admissions(std::uint32_t workers) {
  return {{"barrier", barrier{}},
          {"bounded_staleness", bounded_staleness{staleness(2)}},
          {"unbounded", unbounded{}},
          {"each_round", each_round{}},
          {"sampled", sampled{{}, (workers + 1) / 2, workers, 1}},
          {"sampled_staleness", sampled_staleness{{}, staleness(1), workers / 2, workers, 1}},
          {"predicted_staleness", predicted_staleness{staleness(1), staleness(4)}},
          {"bounded_value", bounded_value{{}, 0.5}}};
}

named<visibility_rule> visibilities(std::uint32_t workers) {
  std::uint32_t const some = (workers + 1) / 2;
  return {{"eager", eager{}},
          {"strict", strict{}},
          {"stable_cut", stable_cut{}},
          {"quorum", quorum{.count = some}},
          {"buffered", buffered{.count = some}}};
}

named<merge_rule> merges() {
  return {{"sum", sum{}},
          {"average", average{}},
          {"scale", scale{.lambda = 0.5}},
          {"momentum", momentum{}},
          {"momentum of all", momentum{.mu = 1}},
          {"slow_momentum", slow_momentum{}},
          {"revise", revise{}},
          {"revise capped", revise{.kept = versions::capped}},
          {"discount", discount{}},
          {"adagrad", adagrad{}},
          {"adam", adam{}},
          {"yogi", yogi{}},
          {"nesterov", nesterov{}},
          {"fragment_nesterov", fragment_nesterov{}},
          {"delayed_nesterov", delayed_nesterov{}},
          {"compensate", compensate{}},
          {"compensate_adaptive", compensate_adaptive{}},
          {"elastic", elastic{}}};
}

named<pace_rule> paces() {
  using namespace std::chrono_literals;
  return {{"every_step", every_step{}},
          {"every", every{.steps = 3}},
          {"staggered", staggered{.steps = 3, .fragments = 2}},
          {"adaptive_period", adaptive_period({.first_steps = 3, .interval = 5ms})},
          {"commit_rate", commit_rate({.check_period = 4ms, .epoch = 40ms, .probe_period = 8ms, .first_rate = 2})}};
}

named<std::optional<filter_rule>> filters() {
  return {{"all", std::nullopt},
          {"one_fragment", one_fragment{.fragments = 2}},
          {"significance", significance{.threshold = 0.3}},
          {"lazy_upload", lazy_upload{.window = 3}}};
}

named<read_rule> reads() {
  return {{"on demand", {}}, {"refreshed", [](read_point at) { return refreshed{}.renews(at); }}};
}

named<table_codec> codecs() {
  return {{"as they lie", {}},
          {"bfloat16", {.updates = bfloat16{}, .answers = bfloat16{}}},
          {"int8_blocks", {.updates = int8_blocks{}, .answers = int8_blocks{}}}};
}

enum class kept { dense, sparse, versions };
constexpr std::size_t table_rows = 5;

/// A protocol of six parts on a kind of table, whose values go over wires in some way.
struct combination {
  rules protocol;
  table_codec codec;
  kept how;
  std::string name;
};

/// The n-th of them, or nothing past the last one. By n the admission changes fastest.
std::optional<combination> nth(std::size_t n, std::uint32_t workers) {
  combination c{bsp{}, {}, kept::dense, ""};
  auto const take = [&](auto const& all) {
    auto const& [name, part] = all[n % all.size()];
    n /= all.size();
    c.name += (c.name.empty() ? "" : " x ") + name;
    return part;
  };
  c.protocol.admission = take(admissions(workers));
  c.protocol.visibility = take(visibilities(workers));
  c.protocol.merge = take(merges());
  c.protocol.pace = take(paces());
  c.protocol.filter = take(filters());
  c.protocol.renews = take(reads());
  c.codec = take(codecs());
  c.how = take(named<kept>{{"dense", kept::dense}, {"sparse", kept::sparse}, {"multi_version", kept::versions}});
  return n == 0 ? std::optional(std::move(c)) : std::nullopt;
}

/// Whether the filter means something with the rest of it.
bool filter_makes_sense(filter_rule const& f, rules const& p, kept how) {
  if (f.by_element() && how == kept::sparse) return false;  // compares with all rows
  if (f.type() != typeid(lazy_upload)) return true;
  if (!p.merge.keeps_sum()) return false;  // differences add up to what was sent last
  return !p.visibility.rounds() || p.visibility.rounds()->late != late_commit::drop;
}

/// Whether it means something: written down a second time, apart from the library's checks.
bool makes_sense(combination const& c, std::uint32_t servers) {
  rules const& p = c.protocol;
  kept const how = c.how;
  bool const in_rounds = p.visibility.rounds().has_value();
  bool const by_element = p.merge.elements() != nullptr;
  bool const by_weight = !by_element && !p.merge.versioned() && !p.merge.decay();
  if (p.admission.by_round() && !in_rounds) return false;                    // waits for what never comes
  if (in_rounds && p.admission.bound() != staleness::infinite()) return false;  // promises what rounds leave out
  if (p.admission.heeds_some() && p.visibility.holds_back()) return false;   // holds back what it waits for
  if (p.admission.extends() && p.visibility.synchronized()) return false;    // two that let workers in
  if (p.admission.limits() && (p.visibility.holds_back() || !by_weight)) return false;  // counts what is folded
  if (p.admission.limits() && servers != 1) return false;                    // servers that wait for each other
  if (p.renews && (in_rounds || p.visibility.synchronized())) return false;  // reads of a cut or a round
  if (p.renews && (p.admission.heeds_some() || p.admission.extends() || p.admission.limits())) return false;
  if (p.renews && (p.merge.versioned() || (by_element && p.merge.elements()->copy() == worker_copy::as_read)))
    return false;                                                            // what was read last is not what counts
  if (in_rounds && p.merge.versioned()) return false;                        // two ways to count versions
  if (p.merge.versioned() && how != kept::versions) return false;            // nowhere to keep them
  if (by_element && how == kept::versions) return false;                     // steps have no parts
  if (p.merge.keeps_copies() && how != kept::dense) return false;            // copies of all rows
  if ((c.codec.updates || p.filter) && p.admission.limits()) return false;   // counts what has been pushed
  if (c.codec.updates && p.filter && p.filter->type() == typeid(lazy_upload)) return false;  // as do differences
  if (p.filter && !filter_makes_sense(*p.filter, p, how)) return false;
  return !p.visibility.synchronized() || !(by_element || p.merge.decay());   // steps have an order
}

/// Whoever reads it is told what to do.
bool names_a_way_out(std::string const& sentence) {
  for (char const* const word :
       {": use ", ", expected 1", ": leave reads() out", ": leave .codec.updates out",
        "wrap the table in multi_version", "write dense"})
    if (sentence.find(word) != std::string::npos) return true;
  return false;
}

/// What workers see of each other, against what the protocol promises.
class witness {
 public:
  witness(combination const& c, testing::schedule const& s)
      : protocol_(c.protocol), rounds_updates_(c.codec.updates), schedule_(s), of_(s.workers_ever()) {
    for (std::uint32_t w = 0; w < s.workers; ++w) of_[w].there = true;
  }

  template <class Worker>
  void begins(Worker const& w) {
    of_[w.rank()] = {.there = true, .clock = w.clock()};
  }
  /// A step that may end the clock: servers may have its commit before the worker goes on.
  template <class Worker>
  void steps(Worker& w) {
    seen& me = of_[w.rank()];
    me.clock = w.clock() + 1;
    me.fresh = w.step();
    me.clock = w.clock();
  }
  void ends(std::uint32_t w) { of_[w].there = false; }

  void reads(std::uint32_t reader, std::span<double const> w) {
    if (!schedule_.scenario.crashes.empty()) return;
    clock_index const clock = of_[reader].clock;
    for (std::uint32_t other = 0; other < of_.size(); ++other)
      if (other != reader && of_[other].there && waits_for(reader, other, clock) && of_[other].clock < must(clock))
        broken = "worker " + std::to_string(reader) + " is too far ahead of worker " + std::to_string(other);
    if (of_[reader].fresh && all_read_alike()) {
      auto const [first, is_new] = at_.try_emplace(clock, w.begin(), w.end());
      if (!is_new && !std::ranges::equal(first->second, w)) broken = "workers do not see the same at one clock";
    }
    of_[reader].fresh = false;
  }

  std::string broken;  ///< a promise, if any

 private:
  struct seen {
    bool there = false;
    clock_index clock{};  ///< it has committed no more
    bool fresh = true;    ///< nothing was pushed since its last commit
  };

  [[nodiscard]] clock_index must(clock_index clock) const {
    return protocol_.admission.heeds_some() ? protocol_.admission.need(clock, staleness::infinite(), {})
                                            : clock - protocol_.admission.bound();
  }
  [[nodiscard]] bool waits_for(std::uint32_t reader, std::uint32_t other, clock_index clock) const {
    if (!protocol_.admission.heeds_some()) return protocol_.admission.bound() != staleness::infinite();
    return schedule_.scenario.joins.empty() && protocol_.admission.heeds(worker_id{reader}, worker_id{other}, clock);
  }
  /// Who waits for all, and sees complete clocks only, sees what the others see.
  [[nodiscard]] bool all_read_alike() const {
    return protocol_.admission.bound() == staleness(0) && protocol_.visibility.type() == typeid(strict) &&
           !protocol_.merge.keeps_copies() && !protocol_.filter && !rounds_updates_;
  }

  rules const& protocol_;
  bool rounds_updates_;  ///< what rounding has left is for its worker to see
  testing::schedule const& schedule_;
  std::vector<seen> of_;
  std::map<clock_index, std::vector<double>> at_;
};

struct combined_ending {
  std::vector<double> w;
  run_report report;
  std::uint64_t steps = 0;  ///< that were begun and, but for a worker's last one, finished
  std::string broken;       ///< a promise, if any
};

/// Workers move the parameters to 1; each step adds 1 to the last row.
template <class Table>
combined_ending train(combination const& c, testing::schedule const& s, Table table) {
  cluster group{simulated{.workers = s.workers, .servers = s.servers, .scenario = s.scenario}, c.protocol,
                std::move(table)};
  combined_ending end;
  witness sees(c, s);
  end.report = group.run([&](auto& worker) {
    std::vector<key> keys;
    for (std::size_t i = 0; i < table_rows; ++i) keys.push_back(key{i});
    std::vector<double> w(table_rows), delta(table_rows, 1);
    sees.begins(worker);
    for (std::int64_t i = 0; i < s.manners[worker.rank()].clocks; ++i) {
      worker.pull(keys, w);
      sees.reads(worker.rank(), w);
      for (std::size_t j = 0; j + 1 < table_rows; ++j) delta[j] = 0.1 * (1 - w[j]);
      worker.push(keys, delta);
      ++end.steps;
      if (c.protocol.filter && i + 1 == s.manners[worker.rank()].clocks) break;  // its last commit carries nothing
      sees.steps(worker);
    }
    sees.ends(worker.rank());
  });
  end.broken = sees.broken;
  auto const all = group.parameters();
  if constexpr (Table::bounded) end.w.assign(all.begin(), all.end());
  else end.w = all.values;
  return end;
}

combined_ending train(combination const& c, testing::schedule const& s) {
  switch (c.how) {
    case kept::dense:
      return train(c, s, dense<double>{.rows = table_rows, .codec = c.codec});
    case kept::sparse:
      return train(c, s, sparse<double>{.rows = table_rows, .codec = c.codec});
    case kept::versions:
      break;
  }
  dense<double> base{.rows = table_rows, .codec = c.codec};
  if (c.protocol.filter) base.filter.threshold = 0;  // that of the table is on unless something is said
  return train(c, s, multi_version{base});
}

/// Where every update counts as much, and none is lost or left out, nothing but the count of steps can come out.
std::optional<double> weight_of_all(combination const& c, testing::schedule const& s) {
  if (!s.scenario.crashes.empty()) return std::nullopt;
  if (auto const& r = c.protocol.visibility.rounds(); r && r->late == late_commit::drop) return std::nullopt;
  if (c.protocol.merge.type() == typeid(sum)) return 1;
  if (c.protocol.merge.type() == typeid(scale)) return 0.5;
  return std::nullopt;
}

/// What is wrong with what a run ends with, or nothing.
std::string trouble_of(combined_ending const& end, combination const& c, testing::schedule const& s) {
  for (double const w : end.w)
    if (!std::isfinite(w)) return "ends with parameters that are not finite";
  if (end.report.elapsed > std::chrono::minutes(10)) return "takes long";
  auto const weight = weight_of_all(c, s);
  double const counted = end.w.empty() ? 0 : end.w.back();
  if (weight && std::abs(counted - *weight * static_cast<double>(end.steps)) > 1e-6)
    return "counts " + std::to_string(counted) + " of " + std::to_string(end.steps) + " steps";
  return end.broken;
}

/// What is wrong with it, or nothing. Counts those that ran, and those that were refused.
std::string trouble(combination const& c, testing::schedule const& s, std::pair<std::uint64_t, std::uint64_t>& count) {
  bool const sensible = makes_sense(c, s.servers);
  try {
    combined_ending const end = train(c, s);
    ++count.first;
    return sensible ? trouble_of(end, c, s) : "runs, though it means nothing";
  } catch (option_error const& e) {
    ++count.second;
    if (sensible) return std::string("is refused: ") + e.what();
    return names_a_way_out(e.what()) ? "" : std::string("is refused without a way out: ") + e.what();
  } catch (std::exception const& e) {
    return std::string("fails: ") + e.what();
  }
}

/// A seed tries each so-manieth of them: that many seeds in a row, `--seeds 89`, try all.
constexpr std::size_t share = 89;

}  // namespace

TEST_CASE("All combinations of what the library ships train to their end, or are refused with a way out",
          "[simulated][combinations]") {
  std::uint64_t const seeds = test::seed_count(12);
  std::pair<std::uint64_t, std::uint64_t> count;  // that train, and that are refused
  for (std::uint64_t i = 0; i < seeds; ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    for (std::size_t n = static_cast<std::size_t>(seed % share);; n += share) {
      auto s = testing::random_schedule(seed * 100'000 + n, {.workers_max = 6});
      auto const c = nth(n, s.workers);
      if (!c) break;
      if (c->protocol.admission.limits() && seed % 2 == 0) s.servers = 1;
      INFO(test::repeat_by(seed) << ": " << c->name);
      CHECK(trouble(*c, s, count) == "");
    }
  }
  UNSCOPED_INFO(count.first << " trained, " << count.second << " refused");
  CHECK((count.first > 100 * seeds && count.second > 1000 * seeds));
}
