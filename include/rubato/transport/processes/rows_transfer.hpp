// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/raw_array.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/network.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/storage/on_demand_host.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// Rows of a table that go from one process to another: consecutive ones, or those with these keys where the
/// table is not bounded.
struct moved_rows {
  std::size_t table = 0;
  row_run run{};
  std::vector<std::uint64_t> keys{};
  raw_array values{};
  bool changed = false;  ///< since they came from the servers
};

/// Takes rows that another worker process sends, around the servers: direct model transfer (004 §5.3). Listens from
/// its making on. One thread at a time.
class rows_receiver final : net::link_user {
 public:
  using taker = std::function<void(moved_rows const& rows)>;

  /// @param take what is called with each piece @throws as `net::network::listen`
  rows_receiver(std::unique_ptr<net::network> network, net::deployment const& place, blueprint const& plan, taker take);

  /// Where rows are to be sent.
  [[nodiscard]] std::string address() const;
  [[nodiscard]] std::uint64_t session() const noexcept { return session_; }
  /// Returns when all have come. @param checkpoint throws when nobody waits any more @throws lost_error
  void receive(std::function<void()> const& checkpoint);

 private:
  void begin(net::link& from, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override;
  void end(net::link& from, wire::frame_header const& header) override;
  void lost(net::link& from, std::string const& reason, bool expected) override;
  void welcome(std::unique_ptr<net::connection> guest, net::hello const& said);

  net::deployment place_;
  blueprint const& plan_;
  taker take_;
  moved_rows arriving_;
  bool complete_ = false;             ///< the last one has come
  std::optional<std::string> ended_;  ///< why the link is over
  std::unique_ptr<net::network> network_;
  std::uint64_t session_;
  net::link link_;
  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
};

/// The other end. One thread at a time.
class rows_sender final : net::link_user {
 public:
  rows_sender(std::unique_ptr<net::network> network, net::deployment const& place, std::string const& address,
              std::uint64_t session, std::function<void()> checkpoint);

  /// Waits while too much is under way. @throws lost_error, and what the checkpoint throws
  void send(moved_rows&& rows);
  /// That was all. Returns when it has arrived.
  void finish();

 private:
  void begin(net::link& from, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override;
  void end(net::link&, wire::frame_header const&) override {}
  void lost(net::link& from, std::string const& reason, bool expected) override;
  void wait_for_room(std::size_t most);

  std::function<void()> checkpoint_;
  std::optional<std::string> ended_;
  std::unique_ptr<net::network> network_;
  net::link link_;
};

}  // namespace rubato::detail
