// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What tests of lost and broken processes ask of those that are left.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "process/runs.hpp"

namespace rubato::test {

/// Where a lost process is noticed soon, by its connection: that somebody is silent would take too
/// long for a test.
inline variables notices_losses(std::string const& on_loss) {
  return {{"RUBATO_ON_LOSS", on_loss}, {"RUBATO_RECONNECT", "0.3"}, {"RUBATO_SILENCE", "300"}};
}

/// Waits for a process that has to end with an error that says so.
inline void check_error(child& c, std::string const& sentence) {
  INFO(c.errors());
  CHECK(c.wait() == 3);
  CHECK_THAT(c.errors(), Catch::Contains("error: ") && Catch::Contains(sentence));
}

/// Waits until it is known that somebody was lost. A run that others end before has not gone on without it.
inline void await_loss(process_run& run) {
  bool const known = comes_true([&] { return run.coordinator().errors().find(" was lost") != std::string::npos; });
  INFO(run.errors());
  REQUIRE(known);
}

/// A run that does not begin, since somebody does not come in time.
struct vain_run {
  std::function<run_plan(std::string const& seconds)> plan;  ///< with so much patience
  words coordinator_says;
};

/// Side by side, for most of the time they wait. Where the coordinator ended without having said what it is to say, for
/// others were late as well on a machine with other work, all get more time.
inline std::vector<std::unique_ptr<process_run>> ended_runs(std::vector<vain_run> const& all) {
  std::vector<std::unique_ptr<process_run>> runs(all.size());
  auto const is_told = [&](std::size_t i) {
    (void)runs[i]->failures();
    std::string const said = runs[i]->coordinator().errors();
    return std::ranges::all_of(all[i].coordinator_says, [&](auto const& s) { return said.find(s) != said.npos; });
  };
  for (char const* const seconds : {"2.5", "10", "30"}) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!runs[i] || !is_told(i)) runs[i] = std::make_unique<process_run>(all[i].plan(seconds));
  }
  for (auto const& run : runs) (void)run->failures();
  return runs;
}

/// By row: how many steps of this worker count.
inline std::vector<std::int64_t> column(child const& w, std::size_t worker, std::size_t columns) {
  std::istringstream in(w.value("counts"));
  std::vector<std::int64_t> all;
  std::int64_t x = 0;
  for (std::size_t i = 0; in >> x; ++i)
    if (i % columns == worker) all.push_back(x);
  return all;
}

/// How many steps of a worker count that was not lost: the same in every row.
inline std::int64_t whole(child const& w, std::size_t worker, std::size_t columns) {
  auto const all = column(w, worker, columns);
  REQUIRE(!all.empty());
  for (std::int64_t const x : all) CHECK(x == all.front());
  return all.front();
}

/// That so many steps of a lost worker count. Returns by how much rows differ: its last commit may
/// be on one of two servers only.
inline std::int64_t spread_of_lost(child const& w, std::size_t worker, std::size_t columns,
                                   std::int64_t least, std::int64_t most) {
  auto const all = column(w, worker, columns);
  REQUIRE(!all.empty());
  auto const [fewest, greatest] = std::minmax_element(all.begin(), all.end());
  CHECK(*fewest >= least);
  CHECK(*greatest <= most);
  return *greatest - *fewest;
}

/// Of a run of two processes of so many threads each, whose connections were cut so many times:
/// that what they have made is there, once.
inline void check_exact_after_cuts(process_run& run, std::size_t threads, int cuts) {
  constexpr std::size_t processes = 2;
  constexpr int rows = 8;
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  std::int64_t heavy = 0;
  std::string row;
  for (std::size_t rank = 0; rank < processes * threads; ++rank) {
    child const& w = run.worker(rank / threads);
    row += " " + w.value("made " + std::to_string(rank));
    heavy += std::stoll(w.value("heavy " + std::to_string(rank)));
  }
  std::string counts;
  for (int i = 0; i < rows; ++i) counts += row;
  for (std::size_t i = 0; i < processes; ++i) {
    CHECK(run.worker(i).value("cuts") == std::to_string(cuts));
    CHECK(" " + run.worker(i).value("counts") == counts);
    CHECK(run.worker(i).value("ballast") == std::to_string(heavy));
  }
}

}  // namespace rubato::test
