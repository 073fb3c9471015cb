// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Every admission with every visibility, merge, pace and kind of table: what nobody has published, too.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
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
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/nesterov.hpp>
#include <rubato/protocol/revise.hpp>
#include <rubato/protocol/rounds.hpp>
#include <rubato/protocol/slow_mo.hpp>
#include <rubato/storage/dense.hpp>
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
          {"sampled", sampled{{}, (workers + 1) / 2, workers, 1}}};
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
          {"slow_momentum", slow_momentum{}},
          {"revise", revise{}},
          {"revise capped", revise{.kept = versions::capped}},
          {"discount", discount{}},
          {"adagrad", adagrad{}},
          {"adam", adam{}},
          {"yogi", yogi{}},
          {"nesterov", nesterov{}},
          {"delayed_nesterov", delayed_nesterov{}},
          {"compensate", compensate{}},
          {"compensate_adaptive", compensate_adaptive{}},
          {"elastic", elastic{}}};
}

named<pace_rule> paces() {
  using namespace std::chrono_literals;
  return {{"every_step", every_step{}},
          {"every", every{.steps = 3}},
          {"adaptive_period", adaptive_period({.first_steps = 3, .interval = 5ms})},
          {"commit_rate", commit_rate({.check_period = 4ms, .epoch = 40ms, .probe_period = 8ms, .first_rate = 2})}};
}

enum class kept { dense, sparse, versions };
constexpr std::size_t rows = 5;

/// A protocol of four parts on a kind of table.
struct combination {
  rules protocol;
  kept how;
  std::string name;
};

/// The n-th of them, or nothing past the last one. By n the admission changes fastest.
std::optional<combination> nth(std::size_t n, std::uint32_t workers) {
  combination c{bsp{}, kept::dense, ""};
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
  c.how = take(named<kept>{{"dense", kept::dense}, {"sparse", kept::sparse}, {"multi_version", kept::versions}});
  return n == 0 ? std::optional(std::move(c)) : std::nullopt;
}

/// Whether it means something: written down a second time, apart from the library's checks.
bool makes_sense(rules const& p, kept how) {
  bool const in_rounds = p.visibility.rounds().has_value();
  bool const by_element = p.merge.elements() != nullptr;
  if (p.admission.by_round() && !in_rounds) return false;                    // waits for what never comes
  if (in_rounds && p.admission.bound() != staleness::infinite()) return false;  // promises what rounds leave out
  if (in_rounds && p.merge.versioned()) return false;                        // two ways to count versions
  if (p.merge.versioned() && how != kept::versions) return false;            // nowhere to keep them
  if (by_element && how == kept::versions) return false;                     // steps have no parts
  if (p.merge.keeps_copies() && how != kept::dense) return false;            // copies of all rows
  return !p.visibility.synchronized() || !(by_element || p.merge.decay());   // steps have an order
}

/// Whoever reads it is told what to do.
bool names_a_way_out(std::string const& sentence) {
  for (char const* const word : {": use ", "wrap the table in multi_version", "write dense"})
    if (sentence.find(word) != std::string::npos) return true;
  return false;
}

struct ending {
  std::vector<double> w;
  run_report report;
  std::uint64_t steps = 0;  ///< that were finished
};

/// Workers move the parameters to 1; each step adds 1 to the last row.
template <class Table>
ending train(combination const& c, testing::schedule const& s, Table table) {
  cluster group{simulated{.workers = s.workers, .servers = s.servers, .scenario = s.scenario}, c.protocol,
                std::move(table)};
  ending end;
  end.report = group.run([&](auto& worker) {
    std::vector<key> keys;
    for (std::size_t i = 0; i < rows; ++i) keys.push_back(key{i});
    std::vector<double> w(rows), delta(rows, 1);
    for (std::int64_t i = 0; i < s.manners[worker.rank()].clocks; ++i) {
      worker.pull(keys, w);
      for (std::size_t j = 0; j + 1 < rows; ++j) delta[j] = 0.1 * (1 - w[j]);
      worker.push(keys, delta);
      worker.step();
      ++end.steps;
    }
  });
  auto const all = group.parameters();
  if constexpr (Table::bounded) end.w.assign(all.begin(), all.end());
  else end.w = all.values;
  return end;
}

ending train(combination const& c, testing::schedule const& s) {
  switch (c.how) {
    case kept::dense:
      return train(c, s, dense<double>{.rows = rows});
    case kept::sparse:
      return train(c, s, sparse<double>{.rows = rows});
    case kept::versions:
      break;
  }
  return train(c, s, multi_version{dense<double>{.rows = rows}});
}

/// Where every update counts as much, and none is lost or left out, nothing but the count of steps can come out.
std::optional<double> weight_of_all(combination const& c, testing::schedule const& s) {
  if (!s.scenario.crashes.empty()) return std::nullopt;
  if (auto const& r = c.protocol.visibility.rounds(); r && r->late == late_commit::drop) return std::nullopt;
  if (c.protocol.merge.type() == typeid(sum)) return 1;
  if (c.protocol.merge.type() == typeid(scale)) return 0.5;
  return std::nullopt;
}

/// What is wrong with it, or nothing. Counts those that ran, and those that were refused.
std::string trouble(combination const& c, testing::schedule const& s, std::pair<int, int>& count) {
  bool const sensible = makes_sense(c.protocol, c.how);
  try {
    ending const end = train(c, s);
    ++count.first;
    if (!sensible) return "runs, though it means nothing";
    for (double const w : end.w)
      if (!std::isfinite(w)) return "ends with parameters that are not finite";
    if (end.report.elapsed > std::chrono::minutes(10)) return "takes long";
    auto const weight = weight_of_all(c, s);
    double const counted = end.w.empty() ? 0 : end.w.back();
    if (weight && std::abs(counted - *weight * static_cast<double>(end.steps)) > 1e-6)
      return "counts " + std::to_string(counted) + " of " + std::to_string(end.steps) + " steps";
    return "";
  } catch (option_error const& e) {
    ++count.second;
    if (sensible) return std::string("is refused: ") + e.what();
    return names_a_way_out(e.what()) ? "" : std::string("is refused without a way out: ") + e.what();
  } catch (std::exception const& e) {
    return std::string("fails: ") + e.what();
  }
}

}  // namespace

TEST_CASE("All combinations of what the library ships train to their end, or are refused with a way out",
          "[simulated][combinations]") {
  for (std::uint64_t i = 0; i < test::seed_count(4); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    std::pair<int, int> count;
    for (std::size_t n = 0;; ++n) {
      auto const s = testing::random_schedule(seed * 10'000 + n, {.workers_max = 6});
      auto const c = nth(n, s.workers);
      if (!c) break;
      INFO("repeat with --seed " << seed << ": " << c->name);
      CHECK(trouble(*c, s, count) == "");
    }
    CHECK(count.first > 1000);
    CHECK(count.second > 1000);
  }
}
