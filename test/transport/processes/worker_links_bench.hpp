// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Worker processes before a server that a test plays, frame by frame.
#pragma once

#include <rubato/net/asio_network.hpp>
#include <rubato/transport/processes/worker_links.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/link.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/transport/processes/coordinator_link.hpp>
#include <rubato/transport/processes/coordinator_process.hpp>
#include <rubato/transport/processes/read_question.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "net/ends.hpp"
#include "patience.hpp"

namespace rubato::test::working_alone {

constexpr server_id the_server{0};

/// Waits without a call to the library; false when the condition does not come to hold within a
/// generous time.
template <class Condition>
[[nodiscard]] bool comes_to_hold(Condition condition) {
  auto const end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// A server in a thread of its own that acknowledges nothing, so that nothing comes but what a test
/// sends: whatever is heard takes along what somebody has forgotten to send. Neither do heartbeats
/// come.
class played_server final : detail::coordinator_user {
 public:
  /// `on_frame` is called in the server's thread.
  using handler = std::function<void(net::connection& from, wire::frame_header const& header)>;

  played_server(net::deployment const& place, net::address const& at, handler on_frame)
      : on_frame_(std::move(on_frame)),
        door_(network_, detail::connection_limits(place),
              [this](auto fresh, auto const&) { welcome(std::move(fresh)); }),
        listener_(network_.listen(at, {}, detail::between(net::role::server, {}, detail::listener_limits(place)),
                                  [this](auto fresh) { door_.receive(std::move(fresh)); })),
        coordinator_(network_, *this, place,
                     {.as = net::role::server,
                      .rank = 0,
                      .listens = at.text(),
                      .agreed = agreed,
                      .pid = 0}) {
    door_.open();
    thread_ = std::jthread([this](std::stop_token const& over) {
      while (!over.stop_requested()) network_.run_one(net::network::clock::now() + 1ms);
    });
  }
  ~played_server() override {
    thread_.request_stop();
    thread_.join();
  }
  played_server(played_server const&) = delete;
  played_server& operator=(played_server const&) = delete;

  static constexpr char const* agreed = "played";

  /// Connections of worker processes so far.
  [[nodiscard]] int connections() const noexcept { return connections_; }
  /// Of the frame that has come. For handlers.
  [[nodiscard]] std::span<std::byte const> meta() const noexcept { return meta_; }

 private:
  struct guest final : net::frame_receiver {
    guest(played_server& server, std::unique_ptr<net::connection> fresh)
        : at(server), connection(std::move(fresh)) {}
    void begin(wire::frame_header const& header, std::span<std::byte const> meta,
               std::vector<std::span<std::byte>>& body) override {
      at.meta_.assign(meta.begin(), meta.end());
      arriving.resize(static_cast<std::size_t>(header.length));
      body.emplace_back(arriving);
    }
    void end(wire::frame_header const& header) override {
      if (header.kind >= net::first_user_kind) at.on_frame_(*connection, header);
    }
    void closed(std::string const&) override {}

    played_server& at;
    std::unique_ptr<net::connection> connection;
    std::vector<std::byte> arriving;
  };

  void welcome(std::unique_ptr<net::connection> fresh) {
    constexpr std::uint8_t welcome_kind = 2;  // of a link; it has received nothing yet
    auto& g = *guests_.emplace_back(std::make_unique<guest>(*this, std::move(fresh)));
    g.connection->attach(g);
    wire::frame_header h;
    h.kind = welcome_kind;
    g.connection->send(h, {});
    g.connection->flush();
    ++connections_;
  }
  void welcomed(wire::welcome const&) override {}
  void told(wire::control_message const&) override {}
  void coordinator_refused(std::string const&) override {}
  void coordinator_lost(std::string const&, bool) override {}
  void coordinator_absent(std::string const&) override {}

  handler on_frame_;
  std::vector<std::byte> meta_;
  std::atomic<int> connections_ = 0;
  net::asio_network network_;
  std::vector<std::unique_ptr<guest>> guests_;
  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
  detail::coordinator_link coordinator_;
  std::jthread thread_;
};

/// A coordinator and a played server, for so many worker processes.
class played_cluster {
 public:
  played_cluster(std::uint32_t workers, played_server::handler on_frame,
                 std::chrono::milliseconds reconnect = 20s) {
    place_.workers = workers;
    place_.coordinator.path = folder_.file("coordinator");
    place_.silence = 60s;
    place_.reconnect = reconnect;
    net::deployment as_coordinator = place_;
    as_coordinator.as = net::role::coordinator;
    coordinator_.emplace(std::make_unique<net::asio_network>(), as_coordinator, std::vector<rules>{asp{}});
    coordinating_ = std::jthread([this] {
      try {
        coordinator_->run();
      } catch (error const& e) {  // the workers say so, too
        failure_ = e.what();
      }
      over_ = true;
    });
    net::deployment as_server = place_;
    as_server.as = net::role::server;
    as_server.rank = 0;
    server_.emplace(as_server, net::address{.host = {}, .path = folder_.file("server")},
                    std::move(on_frame));
  }
  ~played_cluster() {
    if (coordinating_.joinable()) (void)failure();
  }
  played_cluster(played_cluster const&) = delete;
  played_cluster& operator=(played_cluster const&) = delete;

  [[nodiscard]] bool is_over() const noexcept { return over_; }
  /// Ends it. Why the coordinator could not go on, or nothing.
  [[nodiscard]] std::string failure() {
    coordinator_->stop();
    coordinating_.join();
    return failure_;
  }

  /// For a worker process.
  [[nodiscard]] net::deployment const& place() const noexcept { return place_; }
  [[nodiscard]] played_server const& server() const noexcept { return *server_; }

 private:
  temporary_folder folder_;
  net::deployment place_;
  std::optional<detail::coordinator_process> coordinator_;
  std::string failure_;
  std::atomic<bool> over_ = false;
  std::jthread coordinating_;
  std::optional<played_server> server_;
};

/// A worker process without workers.
class process final : detail::worker_links::user {
 public:
  explicit process(net::deployment const& place, bool background = false,
                   std::unique_ptr<net::network> network = std::make_unique<net::asio_network>())
      : links(*this, std::move(network), place, played_server::agreed, background) {}
  explicit process(played_cluster const& in, bool background = false) : process(in.place(), background) {}

 private:
  void told(wire::control_message const&) override {}
  void commit_refused(worker_id, stage_id, server_id, refusal) override {
    told_by = std::this_thread::get_id();
    was_refused = true;
  }
  void broken(std::string const&) override { is_broken = true; }

 public:
  std::atomic<bool> is_broken = false;
  std::atomic<bool> was_refused = false;
  std::thread::id told_by;  ///< who ran the network then
  detail::worker_links links;
};

inline void answer_count(net::connection& to, std::uint64_t ticket) {
  wire::frame_header h;
  h.kind = +wire::kind::counted;
  h.sequence = ticket;
  to.send(h, wire::to_bytes(std::uint64_t{1}));
  to.flush();
}

/// Whether the server still answers.
inline bool is_answered(detail::worker_links& links) {
  detail::inquiry asked;
  detail::count_question q(asked);
  links.ask(the_server, q);
  auto const end = std::chrono::steady_clock::now() + patience;
  bool const there = links.wait_for(asked, [&] { return std::chrono::steady_clock::now() > end; });
  links.withdraw(asked);
  return there;
}

}  // namespace rubato::test::working_alone
