// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/server/commit_log.hpp"

namespace rubato {

/// The commits that a shard has received for rounds that are not over, in the order of their arrival.
///
/// Adding costs O(log rounds), ending a round O(its commits, sorted). Not synchronized.
class commit_rounds {
 public:
  /// The round under way; as many are over.
  [[nodiscard]] version_index open() const noexcept { return open_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// Of all rounds.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Of the one under way.
  [[nodiscard]] std::size_t ready() const noexcept;

  /// @pre the round is not over
  void add(version_index round, held_commit commit);
  /// Ends the round under way: takes out its first `most` commits, in the order (worker, stamp). What it has more of is
  /// added to the next round if `carry`, and left out else; `left_out` is raised by how many were.
  [[nodiscard]] std::vector<held_commit> end_round(std::size_t most, bool carry, std::uint64_t& left_out);
  /// Nobody is there who could make the rounds before this one: goes on to the first that has commits.
  void skip_empty() noexcept;
  /// Forgets a worker's commits with stamps from `cut` on; returns how many.
  std::size_t drop(worker_id from, clock_index cut);

  /// Calls `f(commit)` for all commits here.
  template <class F>
  void for_each(F f) const {
    for (auto const& [round, commits] : rounds_)
      for (held_commit const& commit : commits) f(commit);
  }

 private:
  std::map<version_index, std::vector<held_commit>> rounds_;
  version_index open_{0};
  std::size_t size_ = 0;
};

}  // namespace rubato
