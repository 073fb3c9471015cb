// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Who leaves a run waits until the coordinator has heard so, for as long as that is there.
#include <rubato/transport/processes/peer_links.hpp>
#include <rubato/transport/processes/worker_links.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/deployment.hpp>
#include <rubato/net/link.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "transport/processes/worker_links_bench.hpp"

using namespace rubato;
using namespace rubato::test;

namespace {

/// A coordinator in a thread of its own, which lets a process in. What that says next, its farewell, it acknowledges
/// after a while, or it is gone then.
class slow_coordinator final : net::frame_receiver {
 public:
  enum class way : std::uint8_t { hears, vanishes };

  slow_coordinator(net::address const& at, way how)
      : how_(how),
        door_(network_, {}, [this](auto fresh, auto const&) { welcome(std::move(fresh)); }),
        listener_(network_.listen(at, {}, detail::between(net::role::coordinator, {}, net::listener_options()),
                                  [this](auto fresh) { door_.receive(std::move(fresh)); })) {
    door_.open();
    thread_ = std::jthread([this](std::stop_token const& over) {
      while (!over.stop_requested()) network_.run_one(net::network::clock::now() + 1ms);
    });
  }
  ~slow_coordinator() override {
    thread_.request_stop();
    thread_.join();
  }
  slow_coordinator(slow_coordinator const&) = delete;
  slow_coordinator& operator=(slow_coordinator const&) = delete;

  [[nodiscard]] bool has_heard() const noexcept { return has_heard_; }

 private:
  void welcome(std::unique_ptr<net::connection> fresh) {
    connection_ = std::move(fresh);
    connection_->attach(*this);
    say(link_welcome, 0);
  }
  void begin(wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    body_.resize(static_cast<std::size_t>(header.length));
    if (!body_.empty()) body.emplace_back(body_);
  }
  void end(wire::frame_header const& header) override {
    if (header.kind != +wire::kind::control) return;
    if (header.sequence == 1) return let_in();
    if (how_ == way::vanishes) return vanish();
    timer_ = network_.at(network_.now() + 300ms, [this] {
      has_heard_ = true;
      say(link_acknowledgement, 2);
    });
  }
  void closed(std::string const&) override {}

  void let_in() {
    say(link_acknowledgement, 1);
    say(+wire::kind::control, 1, wire::encode(wire::welcome{}));
  }
  void vanish() {
    listener_.reset();
    connection_->close();
  }
  void say(std::uint8_t kind, std::uint64_t sequence, std::span<std::byte const> body = {}) {
    wire::frame_header h;
    h.kind = kind;
    h.sequence = sequence;
    connection_->send(h, {}, body);
    connection_->flush();
  }

  static constexpr std::uint8_t link_welcome = 2, link_acknowledgement = 4;

  way how_;
  std::atomic<bool> has_heard_ = false;
  std::vector<std::byte> body_;
  net::asio_network network_;
  std::unique_ptr<net::connection> connection_;
  std::shared_ptr<void> timer_;
  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
  std::jthread thread_;
};

/// A peer without others.
class lone_peer final : detail::peer_links::user {
 public:
  explicit lone_peer(net::deployment const& place)
      : links(*this, std::make_unique<net::asio_network>(), place, 1, {}, "alone", false) {}

 private:
  void told(wire::control_message const&) override {}
  [[nodiscard]] bool wants(stage_id) const override { return false; }
  void arrived(std::uint32_t, stage_id, peer_message&&) override {}
  void neighbor_lost(std::uint32_t, std::string const&) override {}
  [[nodiscard]] std::span<std::byte> room_for_average(stage_id, std::uint64_t) override { return {}; }
  void average_arrived() override {}
  void broken(std::string const&) override {}

  detail::peer_links links;
};

/// Takes part, and leaves.
void come_and_go(net::deployment const& place, bool is_peer) {
  if (is_peer) lone_peer const one(place);
  else working_alone::process const one(place);
}

/// No break is waited out for long.
net::deployment beside_coordinator(temporary_folder const& folder) {
  net::deployment place;
  place.workers = 1;
  place.servers = 0;
  place.coordinator.path = folder.file("coordinator");
  place.reconnect = 50ms;
  return place;
}

}  // namespace

TEST_CASE("who leaves waits until the coordinator has heard it, over a slow line, too", "[tcp]") {
  bool const is_peer = GENERATE(false, true);
  temporary_folder const folder;
  net::deployment const place = beside_coordinator(folder);
  slow_coordinator const coordinator(place.coordinator, slow_coordinator::way::hears);
  come_and_go(place, is_peer);
  CHECK(coordinator.has_heard());
}

TEST_CASE("who leaves does not wait for a coordinator that is gone", "[tcp]") {
  bool const is_peer = GENERATE(false, true);
  log_capture const log;
  temporary_folder const folder;
  net::deployment place = beside_coordinator(folder);
  place.patience = 3min;  // who waited for it would still do so when the test gives up
  slow_coordinator const coordinator(place.coordinator, slow_coordinator::way::vanishes);
  auto const left = std::async(std::launch::async, [&] { come_and_go(place, is_peer); });
  CHECK(left.wait_for(1min) == std::future_status::ready);
}
