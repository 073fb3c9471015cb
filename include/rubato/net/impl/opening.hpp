// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>

#include "rubato/net/connection.hpp"
#include "rubato/net/impl/handshake.hpp"
#include "rubato/net/impl/stream.hpp"
#include "rubato/net/impl/stream_host.hpp"

namespace rubato::net {

/// Takes a stream through the handshake.
class opening final : public stream::user, public std::enable_shared_from_this<opening> {
 public:
  using clock = std::chrono::steady_clock;
  /// Told once: the stream, or nullptr and why not. `refused`: one end did not accept the other,
  /// and would not the next time.
  using told =
      std::function<void(std::unique_ptr<stream>, std::string const& reason, bool refused)>;

  opening(std::shared_ptr<stream_host> host, std::unique_ptr<stream> over, handshake::role mine,
          std::string token, connection_options const& options, told done);

  void start(clock::time_point until);
  /// As `handshake::is_greeted`.
  [[nodiscard]] bool is_greeted() const noexcept { return handshake_.is_greeted(); }
  /// Of the other end, once the stream is through.
  [[nodiscard]] peer_identity other() const { return handshake_.other(); }
  /// Gives up; nobody is told.
  void cancel() noexcept;

  void was_read(error_code const& error, std::size_t bytes) override;
  void may_write(error_code const& error) override;

 private:
  void proceed();
  [[nodiscard]] bool write_all(error_code& error);
  void read_on();
  void received();
  void finish(std::string const& reason, bool refused = false);
  void fail(error_code const& error);

  std::shared_ptr<stream_host> host_;
  std::shared_ptr<void> timer_;
  std::unique_ptr<stream> stream_;
  handshake handshake_;
  told done_;
  bool heard_ = false;
  std::vector<std::byte> output_;
  std::size_t written_ = 0;
  std::vector<std::byte> input_;
  std::size_t filled_ = 0;
  boost::asio::mutable_buffer room_;
};

}  // namespace rubato::net
