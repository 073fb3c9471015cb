// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/time.hpp"
#include "rubato/net/network.hpp"

namespace rubato::testing {

/// How bytes get from one process to another.
struct path_options {
  duration latency = std::chrono::microseconds(100);  ///< of every piece
  duration jitter = duration::zero();  ///< up to so much more, by chance; what was sent first arrives first
  std::uint64_t bandwidth = 0;         ///< bytes per second of each connection; 0: no limit
  std::size_t room = 256 * 1024;       ///< bytes that a connection takes before the other end reads them
  std::size_t piece_max = 256 * 1024;  ///< most bytes that one read gets: so many, or fewer by chance
};

/// How a process ends that is killed.
enum class death : std::uint8_t {
  closes,    ///< its system closes its connections: what it had sent arrives, or a part of it
  vanishes,  ///< its machine goes with it: others hear nothing more, and what they send gets nowhere
};

/// Number of a process in its world, in the order of `add`.
using process_number = std::uint32_t;

class world;

/// A process of a world, as its main function knows it. Belongs to that function, and the threads that it starts.
class simulated_process {
 public:
  virtual ~simulated_process() = default;
  /// As `world::add` was told.
  [[nodiscard]] virtual std::string const& name() const noexcept = 0;
  /// As `world::add` has given it.
  [[nodiscard]] virtual process_number number() const noexcept = 0;
  /// How often it has been started before.
  [[nodiscard]] virtual std::uint32_t life() const noexcept = 0;
  /// Makes what it talks through, for `tcp::network`.
  [[nodiscard]] virtual net::network_maker network() = 0;
  /// Computes for so long by its own clock: others go on meanwhile.
  virtual void work(duration time) = 0;
  /// The world has killed it. Its code goes on until it notices, which nobody sees: what it does from now on counts
  /// for nothing.
  [[nodiscard]] virtual bool is_killed() const noexcept = 0;
};

/// What became of one life of a process.
struct process_end {
  std::string name;                ///< of the process
  process_number number = 0;       ///< the same
  std::uint32_t life = 0;          ///< which of its lives
  bool started = false;            ///< its main function has been called
  bool ended = false;              ///< its main function has returned or thrown
  bool killed = false;             ///< by the world
  time_point began{};              ///< when its main function was called
  time_point at{};                 ///< when it ended
  std::string failure = {};        ///< what it threw, as text; empty: nothing
  std::optional<errc> code = {};   ///< the same, of an error of Rubato's
};

/// Processes that talk through a network in virtual time: fibers of one thread, decided by a seed alone.
///
/// Each runs the code that runs over TCP: links, handshakes, servers, workers and the coordinator, opened through
/// `tcp{.place = …, .network = process.network()}`. What happens between them, bytes that come late, connections
/// that break, processes that end, is said by whoever holds the world: before `run`, or inside, by `at`.
///
///     world w(seed);
///     auto const server = w.add("server 0", [&](simulated_process& p) { serve(p); });
///     w.at(20ms, [&] { w.kill(server, death::closes); });
///     bool const all_ended = w.run(10s);
///
/// Threads of a process are fibers, too, those of workers and of its links: who held a std::mutex while it waits for
/// something else would stop the world.
/// Lines of the log (`net::log`) go into the world's story while it runs. One world at a time; not thread-safe.
/// Cost: no system call per event; a run of four processes with some hundred messages takes about a millisecond.
class world {
 public:
  /// What a process does from its start on; it ends when this returns or throws.
  using main_function = std::function<void(simulated_process&)>;

  /// @param usual how bytes go where `set_path` says nothing else
  explicit world(std::uint64_t seed, path_options const& usual = {});
  ~world();
  world(world const&) = delete;
  world& operator=(world const&) = delete;

  // ---- who is there

  /// A process that starts at this time. Its address for others is that of loopback; it listens on any port.
  process_number add(std::string name, main_function main, duration starts = duration::zero());
  /// Another life, after it has ended or been killed; at once, or after this time.
  void restart(process_number p, duration after = duration::zero());
  /// Its clock goes so much faster than the world's, from `ahead` on. Before it starts.
  void set_clock(process_number p, double speed, duration ahead = duration::zero());
  /// A network of a process that nobody runs as a fiber: `run_one` lets the world go on. For `check_network`.
  [[nodiscard]] std::unique_ptr<net::network> outside();

  /// Whether its latest life has begun, has not ended and has not been killed.
  [[nodiscard]] bool is_alive(process_number p) const;

  // ---- what happens to them

  /// How bytes go from one to the other, on connections that are made from now on.
  void set_path(process_number from, process_number to, path_options const& how);
  /// As `kill -9`: none of its code has any effect from now on.
  void kill(process_number p, death how = death::closes);
  /// It does nothing for this time; what others send it waits.
  void pause(process_number p, duration time);
  /// Nothing gets from one to the other for this time, and then what was sent does: a partition, or one direction
  /// of it.
  void block(process_number from, process_number to, duration time);
  /// Breaks the connections between them; what is under way is lost. Returns how many.
  std::size_t cut(process_number a, process_number b);
  /// The same, and only who has dialed notices: the other end hears nothing more, and its system takes what it sends.
  std::size_t cut_unnoticed(process_number a, process_number b);
  /// Breaks each of the connections between them when it has brought so many bytes more from one to the other: in the
  /// middle of what it may be. Not those that are made later.
  void cut_after(process_number from, process_number to, std::uint64_t bytes);
  /// Who connects to this one is refused for this time.
  void refuse(process_number p, duration time);

  // ---- time

  /// Calls f once, when the world has come to this time.
  void at(duration when, std::function<void()> f);
  /// Goes on until all have ended, or to this time. Returns whether all have, but for those that were killed, whose
  /// code may not have noticed.
  bool run(duration until);
  /// The world's own clock, from 0 on.
  [[nodiscard]] time_point now() const noexcept;
  /// Called after every event.
  void on_event(std::function<void()> f);
  /// Called with each line that a process logs, and its name.
  void on_log(std::function<void(std::string const& who, std::string const& line)> f);
  /// How many events there were.
  [[nodiscard]] std::uint64_t events() const noexcept;
  /// A hash of what has happened when, and of each byte that was sent: worlds of one seed have the same.
  [[nodiscard]] std::uint64_t hash() const noexcept;

  // ---- what came of it

  /// All lives of all processes.
  [[nodiscard]] std::vector<process_end> ends() const;
  /// One more line of the story.
  void tell(std::string const& sentence);
  /// The last events, in words, each with its time and the process that it happened to.
  [[nodiscard]] std::vector<std::string> story() const;
  /// For whoever draws what is to happen.
  [[nodiscard]] random_stream& random() noexcept;

 private:
  std::shared_ptr<class world_state> state_;
};

}  // namespace rubato::testing
