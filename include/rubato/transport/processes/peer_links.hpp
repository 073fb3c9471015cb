// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/net/refusal_log.hpp"
#include "rubato/transport/processes/borrowed_frame.hpp"
#include "rubato/transport/processes/enrolled_links.hpp"
#include "rubato/transport/processes/lent_messages.hpp"
#include "rubato/transport/processes/network_turn.hpp"
#include "rubato/transport/processes/peer_frames.hpp"
#include "rubato/transport/processes/update_memory.hpp"
#include "rubato/wire/control.hpp"

namespace rubato::detail {

/// What a peer's process has beside its peer: links to those that it sends to and from those that send to it.
///
/// Who has something to send to another peer dials it, once; it answers over a link of its own. So messages are
/// FIFO per pair of sender and receiver, and reliable: what had not arrived when a connection broke is sent again.
/// Large parameters do not pass through a socket between peers on one machine: see `lent_messages`.
/// A neighbor is lost when the coordinator says so, or when one of these links is: for a message that no peer
/// sends, or since it does not come back, somewhat later than the coordinator would have noticed.
///
/// Calls to the user are made in one's turn.
class peer_links final : public enrolled_links {
 public:
  class user : public enrolled_links::user {
   public:
    /// Whether a message of this run is still good for something. @throws wire::frame_error for one that is too early
    [[nodiscard]] virtual bool wants(stage_id stage) const = 0;
    /// A message of another peer, of a run that may not have begun here yet. @throws wire::frame_error for one that
    /// breaks the protocol
    virtual void arrived(std::uint32_t from, stage_id stage, peer_message&& m) = 0;
    /// Nothing comes from this peer any more, nor does anything get there. Once for each.
    virtual void neighbor_lost(std::uint32_t rank, std::string const& sentence) = 0;
    /// Where the average goes, of which a frame of this run and size begins to come. @throws wire::frame_error
    [[nodiscard]] virtual std::span<std::byte> room_for_average(stage_id stage, std::uint64_t bytes) = 0;
    virtual void average_arrived() = 0;
  };

  /// Joins the run: returns when the coordinator has given this process its number. @throws lost_error, or error with
  /// errc::refused
  /// @param background links are served by a thread of their own while the peer does not wait
  peer_links(user& of, std::unique_ptr<net::network> network, net::deployment const& place, std::uint32_t peers,
             parameters_shape const& shape, std::string agreed, bool background);
  ~peer_links() override;

  /// Where it listens.
  [[nodiscard]] net::address bound() const { return listener_->bound(); }
  /// In one's turn: where the others are. From now on they are let in.
  void meet(std::vector<wire::peer_place> const& others);
  /// At which neighbors on this machine look; null where there is none. It outlives this.
  [[nodiscard]] std::shared_ptr<block_memory> memory() const noexcept { return memory_; }
  /// In one's turn: the coordinator says that this one is lost, and why.
  void drop(std::uint32_t rank, std::string const& sentence);

  /// Sends a message, unless its receiver is lost. Waits while too much is under way, but not once `stop()` holds.
  template <class Stop>
  void post(std::uint32_t to, stage_id stage, peer_message&& m, Stop stop) {
    neighbor& other = neighbors_[to];
    {
      std::lock_guard const mine(turns());
      return_borrowed();
      send(other, stage, std::move(m));
    }
    if (other.is_full()) turns().wait([&] { return is_broken() || !other.is_full() || stop(); });
  }
  /// Waits until it holds, or nothing will work any more.
  template <class Done>
  void wait(Done done) {
    if (over_->any()) {
      std::lock_guard const mine(turns());
      return_borrowed();
    }
    turns().wait([&] { return done() || is_broken(); });
  }
  /// The same in one's turn, for an answer. @throws wire::frame_error when its receiver has too many that it does not
  /// take
  void answer(std::uint32_t to, stage_id stage, peer_message&& m);
  /// Whether a message gets there and is answered at once, as far as is known. Any thread.
  [[nodiscard]] bool is_near(std::uint32_t to) const noexcept {
    return neighbors_[to].near.load(std::memory_order_relaxed);
  }
  /// Whether the system has taken what was sent, or somebody else sees to it that it does. Any thread.
  [[nodiscard]] bool is_flushed() const noexcept;
  /// Whether all that was sent has arrived, or never will. Any thread.
  [[nodiscard]] bool all_arrived() const noexcept;
  /// Breaks the connections to and from a peer, as a failing network would.
  void cut(std::uint32_t rank);

 private:
  /// Another peer: the link to it, and the one from it.
  struct neighbor final : net::link_user {
    neighbor(peer_links& of, std::uint32_t r) : all(of), rank(r), arriving(of.shape_), shared(r, of.over_) {}

    void begin(net::link& from, wire::frame_header const& header, std::span<std::byte const> meta,
               std::vector<std::span<std::byte>>& body) override;
    void end(net::link& from, wire::frame_header const& header) override;
    void drained(net::link& of) override;
    void writable(net::link&) override { note(); }
    void resumed(net::link& up) override;
    void broken(net::link& from, std::string const& reason) override;
    void lost(net::link& from, std::string const& reason, bool expected) override;
    [[nodiscard]] std::size_t is_to(net::link const& l) const noexcept { return &l == to.get() ? 1 : 0; }
    [[nodiscard]] bool is_full() const noexcept { return full.load(std::memory_order_acquire); }
    /// For those who wait while another thread has the turn.
    void note() noexcept;
    void set_large(bool now) noexcept;

    peer_links& all;
    std::uint32_t rank;
    std::optional<wire::peer_place> place{};
    std::unique_ptr<net::link> to{};
    std::unique_ptr<net::link> from{};
    std::uint64_t session = 0;  ///< of the link from it
    arriving_message arriving;
    lent_messages shared;
    wire::memory_meta offered{};   ///< what it has told of
    std::array<std::uint64_t, 2> returned{};  ///< a frame's number, by `is_to`: it comes over either link
    bool is_wanted = false;  ///< what is arriving
    bool is_large = false;   ///< the same
    bool is_lost = false;
    std::atomic<bool> near = false;  ///< as its connection has once been seen to be
    std::atomic<bool> full = false;
    std::atomic<bool> unsent = false;  ///< more than is left to those who look now and then
    std::atomic<bool> idle = true;  ///< all that was sent has arrived
  };

  void keep_up() override;
  void send(neighbor& other, stage_id stage, peer_message&& m);
  [[nodiscard]] std::uint64_t place_of(shared_update& values);
  void return_borrowed();
  void lend();
  void dial(neighbor& other);
  void welcome(std::unique_ptr<net::connection> guest, net::hello const& said);
  [[nodiscard]] std::optional<std::string> objection(net::hello const& said, net::peer_identity const& to) const;
  void lose(neighbor& other, std::string const& sentence);

  // coordinator_user
  std::span<std::byte> room_for(wire::frame_header const& header, std::span<std::byte const> meta) override;
  void frame_arrived() override;

  user& user_;
  parameters_shape shape_;
  std::shared_ptr<frames_over> over_ = std::make_shared<frames_over>();
  std::shared_ptr<update_memory> memory_;  ///< null where no neighbor would see it
  update_pool copies_;                     ///< there, of what is elsewhere
  std::deque<neighbor> neighbors_;  ///< by rank, this peer itself among them
  net::doorkeeper door_;
  net::refusal_log refusals_{"a peer"};
  std::unique_ptr<net::listener> listener_;
  std::atomic<std::uint32_t> large_arriving_ = 0;  ///< messages
};

}  // namespace rubato::detail
