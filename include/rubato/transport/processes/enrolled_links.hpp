// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/thread_source.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/transport/processes/coordinator_link.hpp"
#include "rubato/transport/processes/network_turn.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::detail {

/// What a process that trains has beside who trains there, a worker process as a peer's: the link to the coordinator,
/// which enrolls it, and the threads that serve links while nobody waits.
///
/// Everything that touches links is done in one's turn. What the coordinator says is passed to
/// `user`, in the turn of whoever heard it.
class enrolled_links : protected coordinator_user {
 public:
  using clock = net::network::clock;

  class user {
   public:
    virtual ~user() = default;
    /// What the coordinator tells, beyond what this class deals with.
    virtual void told(wire::control_message const& message) = 0;
    /// Nothing will work any more.
    virtual void broken(std::string const& sentence) = 0;
  };

  enrolled_links(enrolled_links const&) = delete;
  enrolled_links& operator=(enrolled_links const&) = delete;

  /// By which the coordinator knows this process.
  [[nodiscard]] std::uint32_t number() const noexcept { return welcome_->process; }
  [[nodiscard]] wire::welcome const& welcome() const noexcept { return *welcome_; }
  [[nodiscard]] network_turn& turns() noexcept { return turn_; }
  /// To be used in one's turn.
  [[nodiscard]] net::network& network() noexcept { return *network_; }
  /// The network's time. Any thread.
  [[nodiscard]] clock::time_point now() const { return network_->now(); }

  [[nodiscard]] bool is_broken() const noexcept { return broken_.load(std::memory_order_acquire); }
  /// Why. @pre `is_broken()`
  [[nodiscard]] breakdown const& why_broken() const noexcept { return *why_; }

  /// The process is about to leave, by this failure.
  void leave_by(std::string failure) { failure_ = std::move(failure); }
  /// Says something to the coordinator, unless the process is broken.
  void tell(wire::control_message const& message);
  /// The same in one's turn.
  void tell_in_turn(wire::control_message const& message);
  /// Deals with what has come and nobody has looked at yet, without waiting.
  void hear_what_is_there();
  void send_to_coordinator_in_turn(std::shared_ptr<net::reliable_frame const> frame);

 protected:
  /// @param background links are served by a thread of their own while nobody waits
  enrolled_links(user& of, std::unique_ptr<net::network> network, net::deployment const& place, bool background);
  ~enrolled_links() override;

  /// Joins the run: returns when the coordinator has given this process its number.
  /// @param missing what the coordinator has not done if it does not, as "gave this peer no number"
  /// @throws lost_error, or error with errc::refused
  void enroll(wire::registration self, char const* missing);
  /// Makes the threads, once there is what `keep_up` needs.
  void start_threads();
  void end_threads();
  /// Tells the coordinator that this process goes, and waits until it has heard that.
  void take_leave();
  /// Of the link to the coordinator.
  void close() noexcept { coordinator_->close(); }
  [[nodiscard]] bool is_leaving() const noexcept { return leaving_; }

  /// Serves links while nobody waits for them, until `keeper_stops_`.
  virtual void keep_up() = 0;

  [[nodiscard]] net::deployment const& place() const noexcept { return place_; }
  [[nodiscard]] bool in_background() const noexcept { return in_background_; }
  /// Of a link to such a process. That it is lost is for the coordinator to say, which notices it as fast: only who has
  /// waited longer has lost it alone.
  [[nodiscard]] net::link::options limits_to(net::role other, std::uint32_t number) const;
  /// What it says to a process of this number, to which it shows that it knows what the coordinator has told both.
  [[nodiscard]] net::hello hello_to(std::uint32_t number, wire::secret const& secret);
  /// Nothing works from now on, for this process or its `user`.
  void give_up(errc code, std::string const& sentence);

  std::mutex keeping_;
  std::unique_ptr<condition> keeper_wakes_;
  std::atomic<bool> keeper_stops_ = false;

 private:
  // coordinator_user
  void welcomed(wire::welcome const& w) final { welcome_ = w; }
  void told(wire::control_message const& message) final;
  void coordinator_lost(std::string const& reason, bool expected) final;
  void coordinator_absent(std::string const& sentence) final;
  void coordinator_refused(std::string const& reason) final;

  user& user_;
  net::deployment place_;
  std::unique_ptr<net::network> network_;
  network_turn turn_{*network_};
  std::optional<wire::welcome> welcome_;
  std::atomic<bool> broken_ = false;
  std::optional<breakdown> why_;
  bool leaving_ = false;
  std::string failure_;  ///< by which the process leaves
  std::optional<coordinator_link> coordinator_;
  bool in_background_;
  std::unique_ptr<running_thread> keeper_;
  std::atomic<bool> background_stops_ = false;
  std::unique_ptr<running_thread> background_;  ///< if there is to be one
};

}  // namespace rubato::detail
