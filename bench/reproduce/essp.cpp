// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// ESSP beside SSP: how old the parameters are that workers read, and what that makes of convergence.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/essp.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench {
namespace {

/// Ages of what the first read of each clock showed, in clocks, as parts of all.
class ages {
 public:
  explicit ages(std::vector<std::uint64_t> const& histogram) {
    double const all = static_cast<double>(std::accumulate(histogram.begin(), histogram.end(), std::uint64_t{0}));
    for (std::uint64_t const n : histogram) parts_.push_back(static_cast<double>(n) / std::max(1.0, all));
  }
  [[nodiscard]] double mean() const {
    double sum = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) sum += static_cast<double>(i) * parts_[i];
    return sum;
  }
  /// So many of those at 1 clock or less.
  [[nodiscard]] double fresh() const { return parts_.size() < 2 ? 1 : parts_[0] + parts_[1]; }

 private:
  std::vector<double> parts_;
};

/// Both at several bounds, each at its best rate.
struct comparison {
  std::vector<finish> plain, eager;
};

std::vector<std::string> described(std::string name, finish const& f) {
  ages const seen(f.run.staleness_histogram);
  double const busy = f.run.compute_seconds, other = f.run.send_seconds + f.run.wait_seconds;
  return {std::move(name),
          fmt::format("{:.3g}", f.run.learning_rate),
          f.arrived() ? show_seconds(f.seconds()) : "-",
          fmt::format("{}", f.run.counted_updates()),
          fmt::format("{:.2f}", seen.mean()),
          fmt::format("{:.0f}%", 100 * seen.fresh()),
          fmt::format("{:.3g} MB", f.bytes() / 1e6),
          fmt::format("{:.0f}%", 100 * other / std::max(1e-30, busy + other))};
}

comparison compare(ground const& g, std::span<std::int64_t const> bounds) {
  text_table table{.head = {"", "rate", "time", "updates", "mean age", "at most 1 old", "bytes", "waiting and sending"},
                   .rows = {}};
  comparison c;
  for (std::int64_t const s : bounds) {
    c.plain.push_back(g.run([s](double) { return ssp{.staleness = s}; }, 1));
    table.rows.push_back(described(fmt::format("SSP({})", s), c.plain.back()));
    c.eager.push_back(g.run([s](double) { return essp{.staleness = s}; }, 1));
    table.rows.push_back(described(fmt::format("ESSP({})", s), c.eager.back()));
  }
  fmt::print("{}\n", table.to_string());
  return c;
}

/// How many times as long the slowest takes as the fastest.
double range(std::vector<finish> const& all) {
  auto const [least, most] = std::ranges::minmax_element(all, {}, &finish::seconds);
  return most->seconds() / least->seconds();
}

}  // namespace

void reproduce_essp(reproduce_options const& options) {
  constexpr std::array<std::int64_t, 4> bounds{1, 3, 7, 15};
  auto const [plain, eager] = compare(ground(options, {.batch = 0.5, .steps = 1'000}), bounds);
  fmt::print("The same with clocks that are shorter than the way to a server and back: a commit waits for what was asked "
             "with the read before it.\n\n");
  auto const hasty = compare(ground(options, {}), std::span(bounds).last(1));

  ages const old(plain.back().run.staleness_histogram), young(eager.back().run.staleness_histogram);
  claims said;
  said.add(young.mean() < 0.5 * old.mean(), "ESSP reduces the staleness of what is read.",
           fmt::format("at s = {} the mean age is {:.2f} clocks, under SSP {:.2f}.", bounds.back(), young.mean(),
                       old.mean()));
  bool faster = true;
  std::vector<std::string> ratios;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    double const ratio = plain[i].seconds() / eager[i].seconds();
    faster = faster && ratio > 1;
    ratios.push_back(fmt::format("{:.2f}", ratio));
  }
  said.add(faster, "It converges faster than SSP (matrix factorization, topics).",
           fmt::format("{} times as fast at s = {}; with short clocks, which compute for {:.0f}% of the time, {:.2f} times.",
                       fmt::join(ratios, ", "), fmt::join(bounds, ", "),
                       100 * hasty.plain[0].run.compute_seconds /
                           (hasty.plain[0].run.compute_seconds + hasty.plain[0].run.send_seconds +
                            hasty.plain[0].run.wait_seconds),
                       hasty.plain[0].seconds() / hasty.eager[0].seconds()));
  said.add(range(eager) < range(plain), "And is robust to the bound.",
           fmt::format("over these bounds time to the target differs {:.2f}-fold, under SSP {:.2f}-fold.", range(eager),
                       range(plain)));
  said.print();
}

}  // namespace rubato::bench
