// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "rubato/net/collective.hpp"
#include "rubato/run/peer_run.hpp"
#include "rubato/transport/processes/coordinator_process.hpp"
#include "rubato/transport/processes/peer_frames.hpp"
#include "rubato/transport/processes/peer_links.hpp"
#include "rubato/transport/processes/wait_watch.hpp"
#include "rubato/transport/tcp.hpp"
#include "rubato/wire/control.hpp"

namespace rubato::detail {

/// Makes what adds up for all peers, of this process's network, where that can.
using collective_maker =
    std::function<std::unique_ptr<net::collective>(net::network& of, parameters_shape const& shape)>;

/// Runs a body on the peer of this process, among those of others, in the thread that calls `run`. See `tcp`.
///
/// The node has one lock, held while a message is taken or the peer asks what is next, not while it computes or
/// averages; who has it does not wait for the network's turn.
class peer_process final : public tcp_peer_runtime, peer_run, peer_links::user {
 public:
  peer_process(tcp const& options, peer_setup setup, collective_maker const& make_collective);
  ~peer_process() override;

  peer_report run(body_type body) override;
  void stop() noexcept override;
  [[nodiscard]] time_point now() const override {
    return time_point(links_->now() - began_.load(std::memory_order_relaxed));
  }
  /// Also of those whom this process has lost alone.
  [[nodiscard]] bool crashed(std::uint32_t rank) const noexcept override;
  [[nodiscard]] bool has(std::uint32_t rank) const noexcept override { return rank == links_->number(); }
  void look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const override;
  [[nodiscard]] std::optional<peer_consensus> consensus() const override;
  [[nodiscard]] net::role role() const noexcept override { return net::role::worker; }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return links_->number(); }
  [[nodiscard]] net::address bound() const override { return links_->bound(); }
  void cut(std::uint32_t rank) override { links_->cut(rank); }

 private:
  class own_endpoint;
  struct own_peer;

  void begin(body_type body);
  void see_it_through();
  [[nodiscard]] peer_report report();
  void take_part();
  void leave_collective();
  void watch_wait();
  void say_goodbye();
  [[nodiscard]] bool is_summed_up() const;
  void end_for_all(bool failed, errc code, std::string const& sentence);
  [[nodiscard]] std::string why_lost() const;
  template <class Done>
  void wait(Done done) {
    links_->wait(std::move(done));
  }

  // life
  [[nodiscard]] time_point time() const override { return now(); }
  void wake_all() noexcept override;
  void tell_failure(std::exception_ptr const& why) noexcept override;
  void left(peer_participant& p) override;

  // peer_links::user; in the turn of whoever heard it
  void told(wire::control_message const& m) override;
  [[nodiscard]] bool wants(stage_id stage) const override;
  void arrived(std::uint32_t from, stage_id stage, peer_message&& m) override;
  void neighbor_lost(std::uint32_t rank, std::string const& sentence) override;
  [[nodiscard]] std::span<std::byte> room_for_average(stage_id stage, std::uint64_t bytes) override;
  void average_arrived() override;
  void broken(std::string const& sentence) override;
  template <class Other>
  void on(Other const&);
  void on(wire::peers_begin const& m);
  void on(wire::peer_lost const& m);
  void on(wire::stop_run const& m);
  void on(wire::settle const& m);
  void on(wire::send_share const& m);
  void on(wire::peers_over const& m);
  [[nodiscard]] peer_node& own() const noexcept { return node(links_->number()); }

  std::uint64_t seed_;
  parameters_shape shape_;
  std::chrono::milliseconds long_wait_;
  std::unique_ptr<peer_participant> participant_;
  std::atomic<net::network::clock::time_point> began_{};

  mutable std::mutex node_lock_;  ///< what happens to the node
  std::atomic<std::uint64_t> bytes_answered_ = 0;

  // in one's turn
  int exceptions_ = std::uncaught_exceptions();  ///< that were under way when it was made
  bool ran_well_ = false;  ///< the last run has ended, and not by an exception
  bool expecting_ = false;  ///< messages of the run under way, or of one that this process is ready for
  stage_id past_{0};        ///< the last run that is over
  update_buffer arriving_average_;
  bool adds_up_ = false;  ///< in the run under way; changed while the peer is not in it

  std::atomic<bool> begun_ = false;  ///< the run, here
  std::atomic<bool> over_ = false;
  std::atomic<bool> is_to_settle_ = false;

  mutable std::mutex lock_;  ///< what follows
  stage_id stage_{0};
  std::optional<wire::stop_run> stopped_;  ///< by a failure elsewhere
  wire::peers_over measured_{};
  std::map<std::uint32_t, std::string> lost_;  ///< peers, and why
  std::optional<peer_consensus> consensus_;    ///< after a run

  std::unique_ptr<peer_links> links_;  ///< it may call until it is gone
  std::unique_ptr<net::collective> collective_;  ///< where there is one; in one's turn
  std::optional<wait_watch> watch_;              ///< likewise
  static constexpr auto waits_not = net::network::clock::time_point::max();
  std::atomic<net::network::clock::time_point> waits_since_ = waits_not;
};

/// The coordinator of peers in other processes. See `tcp`.
class peer_coordinator final : public tcp_peer_runtime {
 public:
  peer_coordinator(tcp const& options, peer_setup setup, bool collective);

  peer_report run(body_type) override;
  void stop() noexcept override { coordinator_->stop(); }
  [[nodiscard]] time_point now() const override { return {}; }
  [[nodiscard]] bool crashed(std::uint32_t) const noexcept override { return false; }
  [[nodiscard]] bool has_peers() const noexcept override { return false; }
  [[nodiscard]] bool has(std::uint32_t) const noexcept override { return false; }
  void look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const override;
  [[nodiscard]] net::role role() const noexcept override { return net::role::coordinator; }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return 0; }
  [[nodiscard]] net::address bound() const override { return coordinator_->bound(); }
  void cut(std::uint32_t rank) override;

 private:
  std::unique_ptr<coordinator_process> coordinator_;
};

/// What `tcp::open_peers` makes, without a check of what there are no sockets for.
/// @param make_collective for protocols that add up; each process has one or none
[[nodiscard]] std::unique_ptr<tcp_peer_runtime> open_peer_process(tcp const& options, peer_setup setup,
                                                                  collective_maker const& make_collective = {});

}  // namespace rubato::detail
