// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/net/peer_identity.hpp"
#include "rubato/wire/frame.hpp"
#include "rubato/wire/role.hpp"

namespace rubato::net {

/// The bytes of a frame's body, given piece by piece as the link takes them, so that large arrays
/// are sent from where they are.
class body_source {
 public:
  virtual ~body_source() = default;
  /// The next piece; it stays as it is until the next call. All together are as long as the frame's
  /// header says; an empty one before that is a mistake of the caller's.
  [[nodiscard]] virtual std::span<std::byte const> next() = 0;
  /// One more piece, beside those since the last call of `next`, which stay as they are, too; for networks that send
  /// several at a time. Empty where it is not to be had before the others have been let go.
  [[nodiscard]] virtual std::span<std::byte const> next_beside() { return {}; }
};

/// What a connection tells its owner, from inside `network::run_one` or `poll`. An owner may close
/// or destroy its connection from any of these but `begin` and `more`.
class frame_receiver {
 public:
  virtual ~frame_receiver() = default;
  /// A frame's header and meta have arrived: says where its body goes, as buffers that together are
  /// as long as the header says; or shorter, and `more` says where the rest goes.
  /// @throws wire::frame_error to close the connection for that reason; must check all sizes before it
  /// takes memory
  virtual void begin(wire::frame_header const& header, std::span<std::byte const> meta,
                     std::vector<std::span<std::byte>>& body) = 0;
  /// The buffers given so far are full, and there is more of the body: says where that goes, at least a
  /// part of it. @throws as `begin`
  virtual void more(wire::frame_header const& /*header*/, std::vector<std::span<std::byte>>& /*body*/) {}
  /// The body is there. @throws wire::frame_error as `begin`
  virtual void end(wire::frame_header const& header) = 0;
  /// All that had arrived has been handed over: a good time for acknowledgements.
  virtual void drained() {}
  /// Room for more: what was waiting to be sent has gone below the mark.
  virtual void writable() {}
  /// What came cannot be a frame, or is one beyond this connection's limits: it closes right after this, for that
  /// reason. What is sent now still goes out, as far as the system takes it at once.
  virtual void garbled(std::string const& /*reason*/) {}
  /// The connection fails for this reason: a sentence for the log, which has it at once unless this is overridden, as
  /// strangers are not to fill that.
  virtual void warn(std::string const& sentence);
  /// The connection is closed, by the other end or for a reason of this one; nothing more comes.
  virtual void closed(std::string const& reason) = 0;
};

/// Limits and times of a connection.
struct connection_options {
  std::size_t meta_max = 64 * 1024;                 ///< bytes of a frame's meta
  std::chrono::milliseconds silence{5000};          ///< closed when nothing is heard for so long
  std::chrono::milliseconds handshake{5000};        ///< for connecting and proving who one is
  wire::role as = wire::role::worker;               ///< what this end is; its proof covers that
  std::optional<wire::role> expected = {};          ///< what the other end must be; nothing: anything
  /// Which one of that role: its certificate is for that one, if it is for some only.
  std::optional<std::uint32_t> expected_number = {};
};

/// A stream of frames to one other process: all arrive, in order, or it closes. Closes itself, too, when
/// nothing is heard of the other end for too long. Belongs to its network.
class connection {
 public:
  virtual ~connection() = default;

  /// Who is told; must be set before the next use of the network.
  virtual void attach(frame_receiver& owner) = 0;

  /// Sends a frame, soon: small ones are gathered until `flush`, or until there are 64 KiB of them.
  /// `meta` and `body` are copied. Sizes in the header are filled in. Nothing happens once closed.
  virtual void send(wire::frame_header header, std::span<std::byte const> meta,
                    std::span<std::byte const> body = {}) = 0;
  /// The same for a body of `length` bytes that is large; the source is destroyed when it has been
  /// sent, or when the connection closes. A network that cannot take back what it is sending keeps it for so long, and
  /// asks it for nothing more: it owns or shares what its pieces are of.
  virtual void send(wire::frame_header header, std::span<std::byte const> meta, std::uint64_t length,
                    std::unique_ptr<body_source> body) = 0;
  /// Sends a frame without meta or body that says all that the last one sent so did, as acknowledgements do: where that
  /// one still waits whole, and nothing has been sent since, it takes its place. By default it is sent as any other.
  virtual void send_newest(wire::frame_header header) { send(header, {}); }
  /// Sends what has been gathered.
  virtual void flush() = 0;
  /// Bytes accepted by `send` and not yet by the operating system.
  [[nodiscard]] virtual std::size_t unsent() const noexcept = 0;

  /// Sends what is left, as far as the system takes it at once, and closes. The owner is not told.
  /// What a slow reader leaves no room for is lost, encrypted or not.
  virtual void close() noexcept = 0;
  /// Whether frames can still be sent.
  [[nodiscard]] virtual bool is_open() const noexcept = 0;
  /// For messages: the other end's address.
  [[nodiscard]] virtual std::string peer() const = 0;
  /// What the other end has shown itself to be. A network without a handshake has nothing to say here, and
  /// then what the other end says of itself is believed; who wraps a connection passes it on.
  [[nodiscard]] virtual peer_identity shown() const { return {}; }
  /// Whether its ends are on one machine, as far as this one can tell, so that they may have memory in common: a
  /// Unix-domain socket, unless somebody relays it. A network that has none says no, and so does who wraps a connection
  /// to see all that it carries.
  [[nodiscard]] virtual bool is_local() const { return false; }
  /// How long a packet and its answer take, as the system has measured it so far, waiting in its queues included; none
  /// where that is not known.
  [[nodiscard]] virtual std::optional<std::chrono::microseconds> round_trip() const { return std::nullopt; }
};

}  // namespace rubato::net
