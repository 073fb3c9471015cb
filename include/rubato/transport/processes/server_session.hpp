// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rubato/net/link.hpp"
#include "rubato/transport/processes/inbound_frames.hpp"
#include "rubato/transport/processes/pinned_states.hpp"

namespace rubato::detail {

class server_process;

/// A worker process as a server sees it, over one link.
struct server_session final : net::link_user {
  server_session(server_process& server, net::hello const& said, std::string const& who);

  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override;
  void more(net::link&, wire::frame_header const&, std::vector<std::span<std::byte>>& body) override;
  void end(net::link&, wire::frame_header const& header) override;
  void drained(net::link&) override;
  void resumed(net::link&) override;
  void broken(net::link&, std::string const&) override;
  void lost(net::link&, std::string const& reason, bool expected) override;

  /// Bytes of answers that it has not read and that are kept for it.
  [[nodiscard]] std::uint64_t unread() const noexcept;

  server_process& server_;
  std::uint64_t id;
  std::uint32_t process;
  std::uint32_t incarnation;
  net::link link;
  inbound_frames arriving;
  std::vector<read_slot> answers;    ///< by table: of reads that are answered at once
  std::vector<std::uint64_t> longest_answers;  ///< so far, in bytes, by table
  std::uint64_t longest_commit = 0;
  std::uint64_t unweighed = 0;       ///< bytes of commits since its part of the log was last weighed
  std::uint64_t weighed = 0;         ///< what is held back of its commits, where that is limited
  std::uint64_t since_weighed = 0;   ///< and at most so much more
  /// Bytes of answers that have been announced and are read from tables when their turn comes; shared with these.
  std::shared_ptr<std::uint64_t> to_come = std::make_shared<std::uint64_t>(0);
  wire::memory_meta offered{};  ///< memory for its updates, as it has told of
  /// What it reads in this server's memory; nothing unless it has said, over this connection, that it can.
  std::optional<pinned_states> pinned;
  bool had_connection = false;
  bool over = false;
};

}  // namespace rubato::detail
