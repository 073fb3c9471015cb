// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/thread_source.hpp"
#include "rubato/net/impl/stream_host.hpp"
#include "rubato/net/network.hpp"
#include "rubato/sim/event_queue.hpp"
#include "rubato/sim/fibers.hpp"
#include "rubato/testing/world.hpp"

namespace rubato::testing {

namespace world_parts {

struct one_life;
struct wire;
class node;
struct listening;

/// A fiber of a process.
struct strand {
  one_life* of;
  std::function<void()> body;
  sim::fiber_id fiber = 0;
  std::uint64_t waits = 0;  ///< so often it has begun to wait: who wakes it says for which time
  bool waiting = true;      ///< before it starts, too
  bool over = false;
  std::vector<std::pair<strand*, std::uint64_t>> joining = {};
};

/// Threads of a simulated process.
class strands final : public thread_source {
 public:
  strands(world_state& world, one_life& of) : world_(world), of_(of) {}
  std::unique_ptr<condition> make_condition() override;
  std::unique_ptr<running_thread> start(std::function<void()> body) override;

 private:
  world_state& world_;
  one_life& of_;
};

struct slot {
  std::string name;
  world::main_function main;
  process_number number = 0;
  std::int64_t speed = 4096;  ///< of its clock, in 4096ths
  duration ahead{};
  time_point paused_until{};
  time_point refuses_until{};
  std::vector<std::unique_ptr<one_life>> lives = {};
};

/// A process from its start to its end.
struct one_life final : simulated_process {
  one_life(world_state& in, slot& of) : world(in), at(of), threads(in, *this) {
    end.name = of.name;
    end.number = of.number;
    end.life = static_cast<std::uint32_t>(of.lives.size());
  }
  [[nodiscard]] std::string const& name() const noexcept override { return at.name; }
  [[nodiscard]] process_number number() const noexcept override { return at.number; }
  [[nodiscard]] std::uint32_t life() const noexcept override { return end.life; }
  [[nodiscard]] net::network_maker network() override;
  void work(duration time) override;
  [[nodiscard]] bool is_killed() const noexcept override { return end.killed; }

  world_state& world;
  slot& at;
  strands threads;
  process_end end;
};

/// What a network of a process is behind its handle.
class node final : public net::stream_host, public std::enable_shared_from_this<node> {
 public:
  node(world_state& world, one_life& of) : world_(world), of_(of) {}

  [[nodiscard]] clock::time_point now() const override;
  [[nodiscard]] std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override;
  void post(std::function<void()> f) override;
  [[nodiscard]] net::proof secret() override;
  /// It has happened now, and is handled when somebody runs the network.
  void deliver(std::function<void()> f);
  void run_one(clock::time_point deadline);
  void poll();
  void interrupt() noexcept;
  /// Its network goes: what has not been handled never will be.
  void close() noexcept;

  [[nodiscard]] world_state& world() const noexcept { return world_; }
  [[nodiscard]] one_life& of() const noexcept { return of_; }

 private:
  [[nodiscard]] bool handle_one();
  void wait_as(strand& s, clock::time_point deadline);
  void wait_outside(clock::time_point deadline);

  world_state& world_;
  one_life& of_;
  std::deque<std::function<void()>> happened_;
  strand* waiter_ = nullptr;
  std::uint64_t waits_ = 0;
  std::atomic<bool> interrupted_ = false;
  bool closed_ = false;
};

}  // namespace world_parts

class world_state : public std::enable_shared_from_this<world_state> {
 public:
  using clock = net::network::clock;
  using strand = world_parts::strand;

  world_state(std::uint64_t seed, path_options const& usual)
      : random(seed, 0x3017), secrets(seed, 0x5ec7), usual_path(usual) {}

  // time
  [[nodiscard]] time_point now() const noexcept { return queue.now(); }
  void push(time_point when, std::function<void()> f) { queue.push(std::max(when, now()), std::move(f)); }
  void push_now(std::function<void()> f) { queue.push(now(), std::move(f)); }
  void step();
  [[nodiscard]] clock::time_point local(world_parts::slot const& s, time_point t) const noexcept;
  [[nodiscard]] time_point global(world_parts::slot const& s, clock::time_point t) const noexcept;

  // strands
  [[nodiscard]] strand* current() const noexcept;
  strand& spawn(world_parts::one_life& of, std::function<void()> body);
  /// Stops the running strand until it is woken. What is to wake it is to say this number.
  [[nodiscard]] std::uint64_t prepare_to_wait(strand& s) noexcept { return ++s.waits; }
  void wait(strand& s);
  void wake(strand& s, std::uint64_t number);
  void wake_soon(strand& s, std::uint64_t number) { push_now([this, &s, number] { wake(s, number); }); }
  void wake_at(time_point t, strand& s, std::uint64_t number) { push(t, [this, &s, number] { wake(s, number); }); }

  // processes
  void start(process_number p);
  void kill(process_number p, death how);
  [[nodiscard]] bool all_ended() const noexcept;
  [[nodiscard]] bool all_ended_or_killed() const noexcept;
  [[nodiscard]] world_parts::one_life* latest(process_number p) const noexcept;

  // paths
  [[nodiscard]] path_options const& path(process_number from, process_number to) const;
  /// When something that arrives now may get through: now, or later.
  [[nodiscard]] time_point opens(process_number from, process_number to) const;
  /// When a piece arrives that leaves now, without bandwidth.
  [[nodiscard]] duration travel(path_options const& p);
  std::vector<std::shared_ptr<world_parts::wire>> wires();

  void tell(std::string const& who, std::string const& sentence);
  void log(std::string const& who, std::string const& line);
  void mix(std::uint64_t word) noexcept;
  void mix(std::span<std::byte const> bytes) noexcept;

  random_stream random;
  random_stream secrets;  ///< of handshakes: their number moves nothing else
  path_options usual_path;
  sim::event_queue<std::function<void()>> queue;
  std::vector<std::unique_ptr<strand>> strands;
  std::vector<std::unique_ptr<world_parts::slot>> slots;
  std::map<std::pair<process_number, process_number>, path_options> paths;
  std::map<std::pair<process_number, process_number>, time_point> blocked;
  std::map<std::string, std::weak_ptr<world_parts::listening>> places;  ///< where somebody listens
  std::set<std::string> deserted;  ///< places whose machine is gone
  std::vector<std::weak_ptr<world_parts::wire>> wires_ever;
  std::uint16_t next_port = 40000;
  std::size_t running = 0;  ///< lives that have not ended
  std::deque<std::string> lines;
  std::function<void()> after_event;
  std::function<void(std::string const& who, std::string const& line)> on_log;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;
  sim::fiber_pool fibers;  ///< last: what has not ended is unwound first, and may look at all else
};

namespace world_parts {

/// As `net::network::dial` and `listen`.
[[nodiscard]] std::shared_ptr<void> dial(std::shared_ptr<node> const& by, net::address const& to,
                                         net::security const& keys, net::connection_options const& options,
                                         net::network::dialed done);
[[nodiscard]] std::unique_ptr<net::listener> listen(std::shared_ptr<node> const& by, net::address const& at,
                                                    net::security const& keys,
                                                    net::listener_options const& options,
                                                    net::network::accepted f);
[[nodiscard]] std::unique_ptr<net::network> make_network(std::shared_ptr<world_state> world, one_life& of);
/// Its connections end, and nobody listens any more.
void cut_off(world_state& world, one_life& of, death how);
/// Whether its process has been killed.
[[nodiscard]] bool is_of_the_dead(listening const& l) noexcept;
/// Breaks the connections between two processes. Returns how many.
std::size_t cut(world_state& world, process_number a, process_number b, bool is_noticed);

}  // namespace world_parts
}  // namespace rubato::testing
