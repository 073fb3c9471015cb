// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/transport/processes/arriving_control.hpp"
#include "rubato/transport/processes/reminder.hpp"
#include "rubato/wire/control.hpp"

namespace rubato::detail {

[[nodiscard]] net::connection_options connection_limits(net::deployment const& place);
[[nodiscard]] net::link::options link_limits(net::deployment const& place);
[[nodiscard]] net::listener_options listener_limits(net::deployment const& place);
/// `o` for an end that is this in the run, and talks to such others only; nothing: to any.
template <class Options>
[[nodiscard]] Options between(net::role mine, std::optional<net::role> other, Options o) {
  o.as = mine;
  o.expected = other;
  return o;
}
/// For a doorkeeper.
[[nodiscard]] std::size_t guests_limit(net::deployment const& place);
/// Where the coordinator listens: by its number there, by a name on all networks, since on the machine
/// itself its name often means the loopback network.
[[nodiscard]] net::address listening_as_coordinator(net::deployment const& place);
/// Where others reach a server that listens at `bound`: as the place says, or else there. Who listens
/// on all addresses is reached by the one from which it reaches the coordinator, or where that is on
/// the same machine by the machine's name.
[[nodiscard]] net::address announced(net::deployment const& place, net::network const& network,
                                     net::address const& bound);
/// Names a link; drawn at random, so that no two are alike.
[[nodiscard]] std::uint64_t fresh_session(net::network& by);

class network_turn;

/// Why a process cannot go on.
class breakdown {
 public:
  breakdown(errc code, std::string sentence) : code_(code), sentence_(std::move(sentence)) {}
  /// What has been thrown, in words.
  [[nodiscard]] static breakdown by(std::exception_ptr const& thrown);

  [[nodiscard]] errc code() const noexcept { return code_; }
  [[nodiscard]] std::string const& sentence() const noexcept { return sentence_; }
  /// @throws lost_error, or error (errc::refused)
  [[noreturn]] void raise() const {
    if (code_ == errc::lost) throw lost_error(sentence_);
    throw error(code_, sentence_);
  }

 private:
  errc code_;
  std::string sentence_;
};

/// Another process has ended the run. @throws lost_error, or error
[[noreturn]] void raise(wire::stop_run const& by);

/// What the coordinator tells a process.
class coordinator_user {
 public:
  virtual ~coordinator_user() = default;
  /// The process has its number; what is told later comes after it.
  virtual void welcomed(wire::welcome const& w) = 0;
  virtual void told(wire::control_message const& message) = 0;
  /// A frame of parameters begins to arrive from it, perhaps once more: where its body goes.
  /// @throws wire::frame_error for one that is not awaited, before memory is taken for it
  [[nodiscard]] virtual std::span<std::byte> room_for(wire::frame_header const& header,
                                                      std::span<std::byte const> meta);
  /// It is there.
  virtual void frame_arrived() {}
  /// @param expected the coordinator has ended, because all is over
  virtual void coordinator_lost(std::string const& reason, bool expected) = 0;
  /// It was never there. @param sentence says what was waited for, how long, and what to do; it needs nothing before it
  virtual void coordinator_absent(std::string const& sentence) = 0;
  /// It does not let this process in.
  virtual void coordinator_refused(std::string const& reason) = 0;
};

/// A process's link to the coordinator. Logs for whom it waits until it is let in.
class coordinator_link final : net::link_user {
 public:
  /// @throws option_error when what all must agree on is longer in words than a coordinator reads
  coordinator_link(net::network& where, coordinator_user& user, net::deployment const& place,
                   wire::registration self);

  void send(wire::control_message const& message);
  void send(std::shared_ptr<net::reliable_frame const> frame);
  void close() noexcept;
  /// Tells the coordinator why this process ends.
  void refuse(std::string const& reason) noexcept;
  /// Says that this process has ended, well or by this failure, and waits until the coordinator has heard it, as long
  /// as that is there. For the last thread that uses the network.
  void take_leave(network_turn& turns, std::string const& failure = {});
  [[nodiscard]] std::size_t unacknowledged() const noexcept { return link_->unacknowledged(); }

 private:
  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override;
  void more(net::link&, wire::frame_header const&, std::vector<std::span<std::byte>>& body) override;
  void end(net::link&, wire::frame_header const& header) override;
  void lost(net::link&, std::string const& reason, bool expected) override;
  void resumed(net::link&) override { was_there_ = true; }
  void dial();
  void come_again();
  void remind();
  [[nodiscard]] std::string absence(std::string const& reason) const;

  net::network& network_;
  coordinator_user& user_;
  net::deployment place_;
  wire::registration self_;
  reminder says_;
  std::shared_ptr<void> timer_;
  std::shared_ptr<void> anew_;  ///< until another link is made
  std::optional<net::link> link_;
  net::network::clock::time_point began_ = network_.now();
  bool was_there_ = false;  ///< the coordinator has answered
  bool is_in_ = false;      ///< and has welcomed this process
  bool is_early_ = false;   ///< and says that this process is to come again
  arriving_control arriving_;
};

}  // namespace rubato::detail
