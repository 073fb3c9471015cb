// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/result/curve.hpp"
#include "bench/result/timeline.hpp"
#include "rubato/peer/graph.hpp"

namespace rubato::bench {

/// Where a worker is when it says how it has spent its time.
struct moment {
  std::uint32_t worker = 0;
  std::int64_t clock = 0;
  double seconds = 0;   ///< since the run began
  time_split spent{};   ///< so far
};

/// Writes down what the workers of a simulated run do.
/// Thread safety: none; all workers of the simulator live in one thread.
class timeline_recorder {
 public:
  explicit timeline_recorder(std::uint32_t workers) : last_(workers), begun_(workers) {}

  /// Peers wait for those that send to them alone, and not for all.
  void among(graph const& g) { graph_ = g; }

  /// The worker computed, then waited for nobody (its pace made it, or a token), then sent.
  void worked(moment const& m);
  /// It has read. What it did meanwhile was sending the question, waiting to be let in, and fetching the answer.
  void has_read(moment const& m);
  /// It begins this clock, and has sent what others need who wait for it to come there.
  void begins_clock(moment const& m);

  /// @param staleness how many clocks behind a reader others may be; empty: any, so that nobody is waited for
  [[nodiscard]] timeline finish(std::string label, std::optional<std::int64_t> staleness);

 private:
  [[nodiscard]] time_split since_last(moment const& m);
  void add(moment const& m, activity what, double seconds, bool reading = false);
  [[nodiscard]] std::optional<std::uint32_t> who_came_last(spell const& waiting, std::int64_t need) const;

  std::vector<moment> last_;                 ///< by worker
  std::vector<std::vector<double>> begun_;   ///< by worker, when it came to clocks 1, 2, …
  std::vector<spell> spells_;
  std::vector<std::size_t> reads_;           ///< which of them are waits of reads
  std::optional<graph> graph_;
};

}  // namespace rubato::bench
