// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include <boost/asio/io_context.hpp>

#include "rubato/net/proof.hpp"

namespace rubato::net {

/// What who uses a stream needs beside it: the time, secrets, and to be called later, from inside the network.
class stream_host {
 public:
  using clock = std::chrono::steady_clock;

  virtual ~stream_host() = default;
  [[nodiscard]] virtual clock::time_point now() const = 0;
  /// Calls `f()` once at this time, unless the handle is gone by then.
  [[nodiscard]] virtual std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) = 0;
  /// Calls `f()` once, soon and not from here.
  virtual void post(std::function<void()> f) = 0;
  /// Random bytes that nobody can foretell. @throws as `fresh_secret`
  [[nodiscard]] virtual proof secret() = 0;
};

/// The steady clock, the context's thread, and the system's secrets.
[[nodiscard]] std::shared_ptr<stream_host> host_of(boost::asio::io_context& context);

}  // namespace rubato::net
