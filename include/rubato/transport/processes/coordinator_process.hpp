// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/net/refusal_log.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/transport/processes/coordination.hpp"
#include "rubato/transport/processes/coordinator_stats.hpp"
#include "rubato/transport/processes/past_sessions.hpp"
#include "rubato/transport/processes/reminder.hpp"
#include "rubato/transport/processes/wait_watch.hpp"

namespace rubato::detail {

/// The coordinator's process: `process_control`, or `peer_control`, behind links to all others.
class coordinator_process final {
 public:
  /// `agreed` and `moves_tables`: see `process_control::options`.
  coordinator_process(std::unique_ptr<net::network> network, net::deployment const& place,
                      std::span<rules const> protocols, std::string agreed = {},
                      std::vector<bool> moves_tables = {});
  /// @pre `control` is one of peers, or of as many workers and servers as `place` says
  coordinator_process(std::unique_ptr<net::network> network, net::deployment const& place,
                      std::unique_ptr<coordination> control);
  ~coordinator_process();

  /// Where it listens.
  [[nodiscard]] net::address bound() const { return listener_->bound(); }
  /// Counts there from now on; from before `run` until after it.
  void count_in(coordinator_stats& stats) { stats_ = &stats; }
  /// Coordinates until all have left, or `stop` is called. @throws lost_error when it could not go on
  void run();
  /// Makes `run` return. Any thread.
  void stop() noexcept;
  /// Processes that it keeps a link for: those that are here or may come back, not those that were.
  [[nodiscard]] std::size_t links() const noexcept { return guests_.size(); }

 private:
  struct guest;

  void welcome(std::unique_ptr<net::connection> fresh, net::hello const& said);
  void begin(guest& g, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body);
  void end(guest& g, wire::frame_header const& header);
  void note_connection(guest const& g, bool is_up);

  void note_absence();
  [[nodiscard]] bool is_time_to_look() const;
  void look_after_guests();
  void enroll_or_refuse(guest& g, wire::registration const& r);
  void enroll(guest& g, wire::registration const& r);
  void put_off(guest& g);
  void send_away();
  [[nodiscard]] bool may_come_back(wire::registration const& r) const;
  [[nodiscard]] bool is_same_place(wire::registration const& r) const;
  void wait_for_place(guest& g, wire::registration const& r);
  void enroll_waiting();
  void forget_unconnected(wire::registration const& r);
  void replace(coordination::place who, std::string const& reason);
  void deliver();
  void count_guests();
  void count_stage();
  void check_patience();
  [[nodiscard]] bool takes_too_little(guest const& g) const;
  void forget_strangers();
  void forget_dead();
  [[nodiscard]] bool is_enrolled(guest const& g) const;
  void dismiss(guest& g, std::string const& reason);
  /// It will not be heard of any more.
  void miss(guest& g, std::string const& reason, bool expected);
  [[nodiscard]] time_point now() const;
  [[nodiscard]] std::optional<net::network::clock::time_point> waits_since() const;

  net::deployment place_;
  std::unique_ptr<coordination> owned_;
  coordination& control_ = *owned_;
  std::unique_ptr<net::network> network_;
  net::network::clock::time_point began_ = network_->now();
  std::map<std::uint64_t, std::unique_ptr<guest>> guests_;  ///< by session
  past_sessions past_;
  std::map<coordination::place, guest*> at_;
  net::network::clock::time_point turned_ = began_;  ///< when its last turn began
  bool was_away_ = false;                            ///< it has stood still since it looked
  net::network::clock::time_point looked_ = began_;  ///< at the guests
  bool guests_changed_ = true;                       ///< since then
  bool someone_waits_ = false;                       ///< for a place that may become free
  std::atomic<bool> stop_asked_ = false;
  coordinator_stats own_stats_;
  coordinator_stats* stats_ = &own_stats_;
  /// A wait before the first run.
  struct wait {
    net::network::clock::time_point ends;
    reminder says;
  };
  std::optional<wait> wait_;
  net::network::clock::duration patience_left_ = place_.patience;  ///< for the next one
  bool was_complete_ = false;
  std::size_t largest_message_ = 0;  ///< that somebody has been told, in bytes
  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
  net::refusal_log refusals_{bound().text()};
  wait_watch watch_;
};

}  // namespace rubato::detail
