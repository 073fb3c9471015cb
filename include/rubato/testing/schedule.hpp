// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/partition/concepts.hpp"
#include "rubato/sim/scenario.hpp"

namespace rubato::testing {

/// How one worker of a random schedule behaves.
struct manner {
  std::int64_t clocks = 8;     ///< it ends after so many commits
  std::uint64_t steps = 1;     ///< at most so many local steps in a clock, where it commits by hand
  double pushing = 0.8;        ///< the chance that a step pushes; 0 is a reader
  double reading = 0.8;        ///< the chance that it reads, before and after; 0 is a pusher
  double own_staleness = 0.3;  ///< the chance that a read asks for less staleness
  std::uint64_t tables = 31;   ///< a bit for each way to push and read, see `way`
  bool marks = false;          ///< it pushes all rows of the first table in every step
};

/// The ways to push and to read of which a manner uses some.
enum class way : std::uint8_t { dense_whole, dense_keyed, sparse_whole, sparse_keyed, weights };

/// A cluster, what goes wrong in it, and how its workers behave: all that decides a run.
struct schedule {
  std::uint64_t seed = 1;  ///< of the workers' behavior
  std::uint32_t workers = 3;  ///< that the run begins with
  std::uint32_t servers = 2;  ///< over which tables are spread
  sim::scenario scenario{};  ///< how fast they are, and what goes wrong
  std::vector<manner> manners{};  ///< by rank, joiners included
  bool commits_by_hand = true;    ///< else as the protocol's pace says
  /// No message takes longer than noticing a loss: what was sent in full then counts.
  bool prompt = false;

  /// With those that join.
  [[nodiscard]] std::uint32_t workers_ever() const noexcept {
    return workers + static_cast<std::uint32_t>(scenario.joins.size());
  }
};

/// What schedules may contain.
struct schedule_limits {
  std::uint32_t workers_max = 12;  ///< that a run begins with
  std::uint32_t workers = 0;  ///< so many and no others, where it is not 0
  std::int64_t clocks_max = 10;  ///< of each worker
  bool joins = true;  ///< workers come later
  bool leaves = true;  ///< workers end at different clocks
  bool crashes = true;  ///< workers are lost
  bool processes = false;  ///< in most, workers of one machine are threads of one process
};

/// Gives every server at least one row, and deals out the others by chance.
struct scattered {
  std::uint64_t seed = 0;  ///< by which they are dealt out

  [[nodiscard]] constexpr server_id server_of(key k, table_shape shape) const noexcept {
    std::uint64_t const at =
        k.value() < shape.servers ? k.value() : rubato::detail::mix64(k.value() ^ seed);
    return server_id{static_cast<std::uint32_t>(at % shape.servers)};
  }
};
static_assert(partition_policy<scattered>);

namespace detail {

template <class T, std::size_t N>
[[nodiscard]] T one_of(random_stream& random, std::array<T, N> const& choices) {
  return choices[static_cast<std::size_t>(random.below(N))];
}

[[nodiscard]] sim::distribution random_jitter(random_stream& random);
[[nodiscard]] sim::speed_options random_speed(random_stream& random, std::uint32_t workers);
[[nodiscard]] sim::network_options random_network(random_stream& random);

}  // namespace detail

/// A schedule in the manner of a swarm: each one leaves out some kinds of trouble altogether and
/// exaggerates others. The same for the same seed, everywhere.
[[nodiscard]] schedule random_schedule(std::uint64_t seed, schedule_limits const& limits = {});

}  // namespace rubato::testing
