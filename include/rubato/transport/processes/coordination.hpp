// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/net/link.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato {

/// What a coordinator's process drives: who is there, when a run begins and ends, and what becomes of it when
/// somebody is lost. A state machine without I/O: what processes say comes in, what they are to be told goes out.
/// Not synchronized. Models: `process_control` for workers and servers, `peer_control` for peers.
class coordination {
 public:
  struct place {
    net::role as{};
    std::uint32_t number = 0;
    friend auto operator<=>(place const&, place const&) = default;
    /// As "server 1".
    [[nodiscard]] std::string name() const { return std::string(to_string(as)) + " " + std::to_string(number); }
  };
  struct outgoing {
    place to;
    wire::control_message message;
  };
  /// Parameters for a process.
  struct outgoing_frame {
    place to;
    std::shared_ptr<net::reliable_frame const> frame;
  };
  struct enrolment {
    place at;
    std::uint32_t incarnation = 0;
  };

  virtual ~coordination() = default;

  /// A new process. Returns its place; throws error (errc::refused) saying why there is none, for one that does not
  /// agree with the others who says what.
  /// @param secret drawn for this life of the process
  [[nodiscard]] virtual enrolment enroll(wire::registration const& r, wire::secret const& secret) = 0;
  /// Whether this one was in the run, to its end, and has left: it is there for the next one.
  [[nodiscard]] virtual bool was_here(wire::registration const& r) const noexcept = 0;
  /// Whether nobody is here who says otherwise.
  [[nodiscard]] virtual bool agrees(wire::registration const& r) const = 0;
  /// Whether another one may take its place.
  [[nodiscard]] virtual bool is_replaceable(place who) const noexcept = 0;
  /// @throws wire::frame_error when the sender must not say this, or not now
  virtual void receive(place from, wire::control_message const& message, time_point now) = 0;
  /// Its connection broke, or is there again. It has not gone yet; but the first run waits for it, since who would not
  /// come back could still be replaced, and once a run has begun is lost to it.
  virtual void set_connected(place who, bool is_connected, time_point now) = 0;
  /// The process will not be heard of any more. `expected`: it said goodbye.
  virtual void lose(place who, std::string const& reason, bool expected, time_point now) = 0;
  /// Ends everything, as when somebody is lost whom nobody can go on without.
  virtual void give_up(std::string const& sentence) = 0;
  /// The time has come.
  virtual void tick(time_point now) = 0;
  [[nodiscard]] virtual time_point next_tick() const = 0;

  /// What is to be sent, in order; per receiver it must stay in order.
  [[nodiscard]] virtual std::vector<outgoing> take() = 0;
  /// Nothing will happen any more: everybody has left, or something is lost that cannot be replaced.
  [[nodiscard]] virtual bool is_over() const noexcept = 0;
  /// What was lost that cannot be replaced, or ended the last run; empty if nothing did.
  [[nodiscard]] virtual std::string const& failure() const noexcept = 0;
  /// Whether all that the first run needs are there. True from then on.
  [[nodiscard]] virtual bool is_complete() const noexcept = 0;
  /// Who is there, as "2 of 2 servers and 1 of 3 workers are here, without worker 0".
  [[nodiscard]] virtual std::string attendance() const = 0;
  /// Whether somebody waits for others before the first run: until all are there, and from when one of them is ready
  /// for it.
  [[nodiscard]] virtual bool is_starting() const noexcept = 0;
  /// Then: for whom, by number, and what became of those who were there. "server 1, and workers 0 and 2".
  [[nodiscard]] virtual std::string awaited() const = 0;
  /// During a run, where others keep somebody waiting here: since when who has waited for longest does.
  [[nodiscard]] virtual std::optional<time_point> waits_since() const { return std::nullopt; }
  /// Then: who that is, for what it waits, and because of whom.
  [[nodiscard]] virtual std::string who_waits() const { return {}; }
  [[nodiscard]] virtual stage_id stage() const noexcept = 0;
  [[nodiscard]] virtual bool is_running() const noexcept = 0;

  // ---- parameters, beside messages

  /// A frame of parameters begins to arrive: where its body goes. It may begin again. @throws wire::frame_error for
  /// one that is not awaited, before memory is taken for it
  [[nodiscard]] virtual std::span<std::byte> room_for(place from, wire::frame_header const& header,
                                                      std::span<std::byte const> meta);
  /// It is there.
  virtual void take_frame(place /*from*/, time_point /*now*/) {}
  /// Those that are to be sent.
  [[nodiscard]] virtual std::vector<outgoing_frame> take_frames() { return {}; }
  /// Bytes of the largest of them.
  [[nodiscard]] virtual std::size_t largest_frame() const noexcept { return 0; }
};

inline std::span<std::byte> coordination::room_for(place, wire::frame_header const& header,
                                                   std::span<std::byte const>) {
  throw wire::frame_error("a frame of kind " + std::to_string(header.kind) + ", which is not for the coordinator");
}

}  // namespace rubato
