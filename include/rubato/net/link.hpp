// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/net/connection.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/network.hpp"
#include "rubato/net/proof.hpp"
#include "rubato/net/refusal_log.hpp"
#include "rubato/wire/frame.hpp"

namespace rubato::net {

using wire::first_user_kind;
using wire::reliable_bit;

/// Who dials: sent first on every connection of a link.
struct hello {
  role as = role::worker;
  std::uint32_t number = 0;       ///< of the process, among those of its role
  std::uint32_t incarnation = 0;
  std::uint64_t session = 0;      ///< names the link: the same on all its connections, and on no other
  std::uint64_t received = 0;     ///< the reliable frames that have arrived there
  proof credential = {};          ///< that this is a session of that process: for whoever the other end is to check

  friend bool operator==(hello const&, hello const&) = default;
};

/// A frame that is kept until it has been acknowledged. Immutable once sent.
class reliable_frame {
 public:
  virtual ~reliable_frame() = default;
  [[nodiscard]] virtual wire::frame_header header() const = 0;
  [[nodiscard]] virtual std::span<std::byte const> meta() const = 0;
  /// Appends where the body lies; it stays there as long as the frame lives.
  virtual void gather(std::vector<std::span<std::byte const>>& body) const = 0;
  /// Bytes that the other end reads elsewhere while this is kept: they are under way, too.
  [[nodiscard]] virtual std::size_t lent() const { return 0; }
};

class link;

/// What a link tells its owner, from inside the network. Close and destroy links from outside only.
class link_user {
 public:
  virtual ~link_user() = default;
  /// As `frame_receiver::begin`. After a break the same frame may begin again; the body that was
  /// under way then is void.
  virtual void begin(link& from, wire::frame_header const& header, std::span<std::byte const> meta,
                     std::vector<std::span<std::byte>>& body) = 0;
  /// As `frame_receiver::more`.
  virtual void more(link& /*from*/, wire::frame_header const& /*header*/,
                    std::vector<std::span<std::byte>>& /*body*/) {}
  virtual void end(link& from, wire::frame_header const& header) = 0;
  virtual void drained(link&) {}
  virtual void writable(link&) {}
  /// Connected, for the first time or again: unreliable frames that were under way are lost.
  virtual void resumed(link&) {}
  virtual void broken(link&, std::string const& /*reason*/) {}
  /// Of it and its connections: as `frame_receiver::warn`.
  virtual void warn(link&, std::string const& sentence);
  /// Nothing more will come. `expected`: the other end said goodbye. What it said as the reason is escaped, see
  /// `printable`.
  virtual void lost(link& from, std::string const& reason, bool expected) = 0;
};

/// A conversation with one other process that outlives its connections: one end dials, and dials
/// again when a connection breaks; what had not arrived is sent again. It dials at once after something has got
/// through, and else later each time, up to a quarter of a second. Belongs to its network.
class link final : public frame_receiver {
 public:
  struct options : connection_options {
    /// Lost when a break lasts longer, also in the middle of a handshake. What `cut` breaks has at
    /// least as long as a handshake may take.
    std::chrono::milliseconds reconnect{2000};
    /// Lost when so many connections in a row have broken without anything having got through that was to: see
    /// `deployment::breaks_max`. At least 1.
    std::size_t breaks_max = 20;
  };

  /// `who` names the other end in messages: "server 1".
  link(network& where, link_user& user, options const& limits, std::string who);
  ~link() override;
  link(link const&) = delete;
  link& operator=(link const&) = delete;

  /// The end that dials. Tries for `patience` until the first connection is there, also with one that accepts and
  /// says nothing, but not where it is refused. @throws option_error as `network::dial`
  void dial(address const& to, security const& keys, hello const& self,
            std::chrono::milliseconds patience);
  /// The end that listens: a connection of this link, whose hello has been read.
  void adopt(std::unique_ptr<connection> fresh, hello const& said);

  /// Takes the next number and goes out now, or when there is a connection again.
  void send(std::shared_ptr<reliable_frame const> frame);
  /// The same for a small body.
  void send_reliable(std::uint8_t kind, std::span<std::byte const> body);
  /// Goes out if there is a connection. See `connection::send`.
  void send(wire::frame_header const& header, std::span<std::byte const> meta,
            std::span<std::byte const> body = {});
  void send(wire::frame_header const& header, std::span<std::byte const> meta, std::uint64_t length,
            std::unique_ptr<body_source> body);
  void flush();
  /// Says goodbye and closes; the owner is not told. Frames not yet sent are lost.
  void close() noexcept;
  /// Tells the other end why, and closes for good; the owner is not told.
  void refuse(std::string const& reason) noexcept;

  [[nodiscard]] bool is_up() const noexcept { return connection_ && ready_; }
  [[nodiscard]] bool is_over() const noexcept { return over_; }
  /// Whether one end has said that it wants no more of the other, or nothing to begin with.
  [[nodiscard]] bool was_refused() const noexcept { return refused_; }
  /// Reliable frames so far.
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  /// Those that the other end has not acknowledged, and their bytes.
  [[nodiscard]] std::size_t unacknowledged() const noexcept { return kept_.size(); }
  [[nodiscard]] std::size_t unacknowledged_bytes() const noexcept { return kept_bytes_; }
  [[nodiscard]] std::size_t unsent() const noexcept {
    return connection_ ? connection_->unsent() : 0;
  }
  [[nodiscard]] std::string const& who() const noexcept { return who_; }
  /// As `connection::is_local`, of the one that there is now.
  [[nodiscard]] bool is_local() const { return connection_ && connection_->is_local(); }
  /// Whether a message is at the other end at once, so that little should be under way: what waits grows cold. It is
  /// once `connection::round_trip` has been below 200 us, which may also wait for a process that computes; unless the
  /// other end took 5 ms to welcome this one, as behind a tunnel whose near end is all that TCP sees. No while there is
  /// no connection.
  [[nodiscard]] bool is_near();
  /// Breaks the connection, as a failing network would, and makes another: what is being received
  /// is to come no further. The other end is told, as far as the system takes what is left at once.
  void cut();

  // frame_receiver
  void begin(wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override;
  void more(wire::frame_header const& header, std::vector<std::span<std::byte>>& body) override;
  void end(wire::frame_header const& header) override;
  void drained() override;
  void writable() override { user_.writable(*this); }
  void garbled(std::string const& reason) override;
  void warn(std::string const& sentence) override { user_.warn(*this, sentence); }
  void closed(std::string const& reason) override;

 private:
  /// What has got through when a connection broke, and how many have since been of no use.
  struct progress {
    std::uint64_t taken = 0;      ///< reliable frames that the other end has
    std::uint64_t arrived = 0;    ///< frames of users, of any kind
    std::uint32_t fruitless = 0;  ///< breaks in a row
  };
  struct kept {
    std::shared_ptr<reliable_frame const> frame;
    std::size_t bytes;
  };

  void try_connect();
  void connected(std::unique_ptr<connection> fresh, std::string const& reason, bool refused);
  void retry(std::string const& reason);
  void begin_own(wire::frame_header const& header, std::span<std::byte const> meta);
  void welcomed(std::uint64_t received);
  void acknowledged(std::uint64_t received);
  void resume();
  void transmit(std::shared_ptr<reliable_frame const> const& frame, std::uint64_t sequence);
  void fail(std::string const& reason);
  void shut() noexcept;
  void give_up(std::string const& reason, bool expected);
  void interrupted(std::string const& reason);
  /// Since the last break: something kept is acknowledged; a frame of a user's has come.
  [[nodiscard]] bool is_taken() const noexcept { return sent_ - kept_.size() > at_break_.taken; }
  [[nodiscard]] bool has_arrived() const noexcept { return arrived_ > at_break_.arrived; }
  [[nodiscard]] bool is_fruitless() const noexcept;
  void count_break();
  [[nodiscard]] std::string stuck_text(std::string const& reason) const;
  void expect_next(std::uint64_t sequence) const;
  [[nodiscard]] std::chrono::milliseconds handshake_time() const;
  [[nodiscard]] std::string beyond_sent(std::uint64_t received) const;

  network& network_;
  link_user& user_;
  options limits_;
  std::string who_;

  // the end that dials
  bool dials_ = false;
  address to_;
  security keys_;
  hello self_;
  std::shared_ptr<void> attempt_;
  std::chrono::milliseconds delay_{0};
  std::string last_reason_;

  std::unique_ptr<connection> connection_;
  bool ready_ = false;  ///< both hellos have been exchanged
  bool over_ = false;
  bool begun_ = false;  ///< there has been a connection
  std::optional<std::string> fatal_;  ///< the connection is closing for this reason, for good
  bool refused_ = false;
  bool farewell_ = false;
  bool cut_ = false;  ///< this connection ends since one end wants another in its place
  network::clock::time_point deadline_{};
  std::shared_ptr<void> timer_;
  progress at_break_;
  std::uint64_t arrived_ = 0;  ///< frames of users, of any kind
  bool garbled_ = false;       ///< what came through it cannot have been sent so
  std::optional<wire::frame_header> arriving_;  ///< of a frame that nobody keeps, and that has not come to its end
  network::clock::time_point up_since_{};
  bool near_ = false;  ///< as this connection has once been seen to be
  network::clock::time_point hello_at_{};
  bool slow_welcome_ = false;

  std::deque<kept> kept_;        ///< numbers `sent_ - kept_.size() + 1` to `sent_`
  std::size_t kept_bytes_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;   ///< numbers of reliable frames that have arrived, without gaps
  std::uint64_t last_begun_ = 0;  ///< of them, the last that has begun to arrive
  std::uint64_t acknowledged_ = 0;  ///< and of which the other end has been told
  std::vector<std::byte> scratch_;
  std::vector<std::span<std::byte const>> pieces_;
};

/// Reads the hello of a fresh connection, and hands both over once the door is open for it. Who says that it is
/// something else than in its handshake is refused. Until the door is open it keeps the connection, for as long as
/// a handshake may take and there are no more than `guests_max`, beyond which the oldest goes: who was sent away
/// connects again.
class doorkeeper {
 public:
  using visitor = std::function<void(std::unique_ptr<connection>, hello const&)>;
  /// Whether somebody who says this is to wait.
  using judge = std::function<bool(hello const&)>;
  doorkeeper(network& where, connection_options const& limits, visitor welcome,
             std::size_t guests_max = 256);
  ~doorkeeper();
  void receive(std::unique_ptr<connection> fresh);
  /// For all but those who are to wait; of these it asks again with each call.
  void open(judge is_early = {});

 private:
  class guest;
  network& network_;
  connection_options limits_;
  visitor welcome_;
  judge is_early_;
  std::size_t guests_max_;
  bool open_ = false;
  bool crowded_ = false;  ///< it has been logged that guests are sent away
  refusal_log refusals_{"the door"};
  std::vector<std::unique_ptr<guest>> guests_;
};

/// Refuses a connection whose hello has been read. The other end is told the first 1000 bytes.
void refuse(connection& guest, std::string const& reason);

}  // namespace rubato::net
