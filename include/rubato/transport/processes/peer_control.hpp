// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/transport/processes/coordination.hpp"
#include "rubato/transport/processes/peer_frames.hpp"

namespace rubato {

/// The coordinator of peers in processes of their own, which have no servers: who is there and where, when a run
/// begins and ends, who is lost, and what the average of all parameters is after a run.
///
///     gathering ── all peers are here, and ready ──> running: each hears where the others are
///     running ── every body is over, or its peer lost ──> settling: what was asked is answered
///     settling ── all has arrived ──> averaging: one after another, by rank, sends its parameters
///     averaging ── ──> measuring: every peer has the average, and says how far it is from it
///     measuring ── ──> idle: every peer hears what the run measured
///     idle ── all that are still here are ready ──> running
///
/// A run that failed ends after settling. Until the first run begins, who has gone is replaced by the next with its
/// number; from then on nobody joins. What the loss of a peer means is up to its neighbors, which are told: who
/// cannot do without it says so, and that ends the run.
class peer_control final : public coordination {
 public:
  struct options {
    std::uint32_t peers = 1;
    detail::parameters_shape shape{};
    std::string agreed{};  ///< what all must agree on
    std::chrono::milliseconds silence{};  ///< that of `net::deployment`, the same on all
  };

  explicit peer_control(options o);
  peer_control(peer_control const&) = delete;
  peer_control& operator=(peer_control const&) = delete;

  [[nodiscard]] enrolment enroll(wire::registration const& r, wire::secret const& secret) override;
  [[nodiscard]] bool was_here(wire::registration const& r) const noexcept override;
  [[nodiscard]] bool agrees(wire::registration const& r) const override { return r.agreed == options_.agreed; }
  [[nodiscard]] bool is_replaceable(place) const noexcept override { return stage_ == stage_id{}; }
  void receive(place from, wire::control_message const& message, time_point now) override;
  void set_connected(place who, bool is_connected, time_point now) override;
  void lose(place who, std::string const& reason, bool expected, time_point now) override;
  void give_up(std::string const& sentence) override;
  void tick(time_point) override {}
  [[nodiscard]] time_point next_tick() const override { return time_point::max(); }
  [[nodiscard]] std::vector<outgoing> take() override { return std::exchange(out_, {}); }
  [[nodiscard]] bool is_over() const noexcept override { return over_; }
  [[nodiscard]] std::string const& failure() const noexcept override { return failure_; }
  [[nodiscard]] bool is_complete() const noexcept override;
  [[nodiscard]] std::string attendance() const override;
  [[nodiscard]] bool is_starting() const noexcept override;
  [[nodiscard]] std::string awaited() const override;
  [[nodiscard]] stage_id stage() const noexcept override { return stage_; }
  [[nodiscard]] bool is_running() const noexcept override { return phase_ == phase::running; }
  [[nodiscard]] std::span<std::byte> room_for(place from, wire::frame_header const& header,
                                              std::span<std::byte const> meta) override;
  void take_frame(place from, time_point now) override;
  [[nodiscard]] std::vector<outgoing_frame> take_frames() override { return std::exchange(frames_, {}); }
  [[nodiscard]] std::size_t largest_frame() const noexcept override { return options_.shape.bytes(); }

 private:
  enum class phase : std::uint8_t { idle, running, settling, averaging, measuring };
  enum class parting : std::uint8_t { done, gone, failed };
  struct peer {
    std::uint32_t incarnation = 0;
    bool known = false;       ///< there has been one
    bool here = false;
    bool connected = true;
    bool ready = false;
    bool takes_part = false;  ///< in the run under way
    bool answered = false;    ///< what this phase waits for
    bool has_finished = false;  ///< a run
    bool is_done = false;       ///< it has said goodbye
    std::uint32_t pid = 0;
    std::uint64_t life = 0;  ///< that no other process with this number has
    std::string listens{};
    wire::secret secret{};
    std::string gone{};       ///< why it is not here any more
    peer_metrics metrics{};
  };

  [[nodiscard]] std::uint32_t number_for(wire::registration const& r) const;
  void check_agreement(wire::registration const& r);
  [[nodiscard]] std::uint32_t count_here() const noexcept;
  [[nodiscard]] bool takes_part(std::uint32_t rank, stage_id stage) const noexcept;

  void on(std::uint32_t from, wire::ready const& m, time_point now);
  void on(std::uint32_t from, wire::peer_ended const& m, time_point now);
  void on(std::uint32_t from, wire::peer_settled const& m, time_point now);
  void on(std::uint32_t from, wire::peer_measured const& m, time_point now);
  void on(std::uint32_t from, wire::end_run const& m, time_point now);
  void on(std::uint32_t from, wire::farewell const& m, time_point now);
  template <class Message>
  void on(std::uint32_t from, Message const&, time_point);

  void begin_when_ready(time_point now);
  [[nodiscard]] wire::peers_begin beginning_for(std::uint32_t rank) const;
  void answer(std::uint32_t from, phase in, time_point now);
  void go_on(time_point now);
  void ask_next_share();
  void send_average();
  void finish();
  void stop(bool failed, errc code, std::string const& sentence);
  void lose_peer(std::uint32_t rank, std::string const& reason, parting how, time_point now);
  void close_when_left();
  void tell(std::uint32_t rank, wire::control_message message);
  void tell_run(wire::control_message const& message);

  options options_;
  std::vector<peer> peers_;  ///< by rank
  /// Before the first run, and not here since: who did not agree.
  std::map<std::optional<std::uint32_t>, std::string> turned_away_;
  phase phase_ = phase::idle;
  stage_id stage_{0};
  time_point began_{};
  time_point ended_{};
  bool stopping_ = false;
  bool failed_ = false;
  std::uint64_t crashes_ = 0;
  double spread_ = 0;
  detail::parameters_average average_;
  std::optional<std::uint32_t> awaited_share_;
  raw_array arriving_;  ///< the share that is
  bool someone_is_done_ = false;
  std::string ended_by_;  ///< the loss that ended the last run
  bool over_ = false;
  std::string failure_;
  std::vector<outgoing> out_;
  std::vector<outgoing_frame> frames_;
};

}  // namespace rubato
