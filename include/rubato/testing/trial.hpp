// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rubato/core/time.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/testing/findings.hpp"
#include "rubato/testing/world.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::testing {

/// What goes wrong in a trial. Those up to `impostors` cost nobody anything but time: every process must end well.
/// One of the others may end the run, with an error that names who was lost.
enum class fault : std::uint8_t {
  slow_paths,    ///< bytes take their time, more or less of it
  paced_paths,   ///< so many bytes a second and no more
  pieces,        ///< bytes arrive a few at a time
  small_rooms,   ///< a connection takes little before the other end reads it
  clocks,        ///< clocks go at different speeds
  cuts,          ///< connections break
  half_cuts,     ///< connections break, and one end does not notice
  cuts_inside,   ///< connections break after so many bytes: in the middle of a frame
  short_blocks,  ///< nothing gets through for a moment, in one direction or both
  short_pauses,  ///< a process stands still for a moment
  refusals,      ///< a process takes no connections for a moment
  joiners,       ///< workers come late
  impostors,     ///< a process comes with the place of another one
  kills,         ///< a process is killed
  vanishings,    ///< a process is killed with its machine: nobody hears of it
  restarts,      ///< who was killed is started again
  long_blocks,   ///< a partition that outlasts all patience
  long_pauses,   ///< a process stands still for so long that others give it up
  /// A worker is started anew while its last life goes on. Only where `trial_options::with` says so: the next lives may
  /// begin a run of their own, on what the last one left in tables, and a program's own check has to know that.
  twins,
  /// A worker's commits are altered on their way, as by who has its keys, see `lying_network`: servers refuse them, or
  /// cut it off. Only where `trial_options::with` says so.
  liars,
};
/// How many kinds there are.
inline constexpr std::size_t fault_kinds = 20;
/// "slow paths", "cuts".
[[nodiscard]] std::string_view to_string(fault f) noexcept;
/// Whether a process may be lost by it.
[[nodiscard]] constexpr bool is_harmful(fault f) noexcept { return f > fault::impostors; }

/// What a trial may be.
struct trial_options {
  std::uint32_t workers = 2;  ///< processes, of one worker each
  std::uint32_t servers = 1;  ///< the same; 0: workers are peers, and `program` makes a `peer_group`
  /// What the places of all processes are made from: what becomes of the run when a worker is lost, a token, limits.
  net::deployment place{.silence = std::chrono::milliseconds(400),
                        .reconnect = std::chrono::milliseconds(300),
                        .patience = std::chrono::milliseconds(3000)};
  std::vector<fault> with = {};     ///< faults that happen in every trial; else the seed draws
  std::vector<fault> without = {};  ///< faults that are not wanted
  std::uint64_t frame = 3000;       ///< bytes that a commit has, about: where connections break inside of one
  bool harm = true;                 ///< harmful faults, in half of the trials
  /// Faults begin within this time; they may last longer. Where `place.reconnect` is not more than about twice as long,
  /// breaks that follow one another may cost a process, and are counted as harmful.
  duration faults_for = std::chrono::milliseconds(60);
  duration bound = std::chrono::seconds(30);  ///< after that, by which all must have ended
  /// Told of each process to which something is about to happen that may cost it.
  std::function<void(process_number)> endangered = {};
  std::function<void()> after_event = {};  ///< as `world::on_event`: an observer's look
};

/// What a trial came to.
struct trial_result {
  std::uint64_t seed = 0;          ///< that it was drawn from
  sentences found;                 ///< what is wrong; empty: nothing
  bool harmful = false;            ///< something happened that may cost a process
  std::array<std::uint32_t, fault_kinds> faults{};  ///< how often each kind happened; of the first five, whether
  std::vector<process_end> ends;   ///< of all lives of all processes
  std::uint64_t events = 0;        ///< how many there were
  std::uint64_t hash = 0;          ///< of all that happened when
  duration time{};                 ///< until the last one ended, virtual
  std::vector<std::string> story;  ///< the last events, in words

  /// What is wrong, and the end of the story.
  [[nodiscard]] std::string text() const;
};

/// What each process does, whatever its role: makes a cluster on this transport, and runs it.
using trial_program = std::function<void(tcp const& transport, simulated_process& me)>;

/// A run of a coordinator, servers and workers, each a process of a `world`, in which goes wrong what the seed draws: a
/// trial leaves out some kinds of fault altogether (swarm testing). Checks that all end within a bounded time; well,
/// where nothing harmful happened, and else with errors that name somebody who was in danger or had ended; and that
/// of two processes with one place at most one ends well. What a run comes to, `program` checks, by throwing what is
/// not a lost_error or an error with errc::refused, errc::stopped or errc::io. The same for the same seed.
[[nodiscard]] trial_result run_trial(std::uint64_t seed, trial_options const& options, trial_program const& program);

/// Trials of so many seeds. Returns what the first that failed found, how to repeat it, and the end of its story.
///
///     auto const found = testing::check_under_faults({.workers = 3, .servers = 2}, [&](auto& transport, auto& me) {
///       rubato::cluster cluster{transport, rubato::ssp{.staleness = 2}, rubato::dense<float>{.rows = 100, .init = w}};
///       cluster.run(body);
///     });
[[nodiscard]] sentences check_under_faults(trial_options const& options, trial_program const& program,
                                           std::uint64_t seeds = 200, std::uint64_t first = 1);

}  // namespace rubato::testing
