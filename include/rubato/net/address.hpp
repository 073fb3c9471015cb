// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rubato::net {

/// Where a process listens: `host:port`, `[::1]:port`, or `unix:/path`.
struct address {
  std::string host;        ///< a name or number; empty for a Unix-domain socket
  std::uint16_t port = 0;  ///< 0: the system picks a free one
  /// Of a Unix-domain socket. Where somebody listens, a `*` at its end is for the network to choose, as port 0 is.
  std::string path = {};

  /// @throws option_error that shows the text and the forms expected
  [[nodiscard]] static address parse(std::string_view text);
  /// The address as text, in the form that `parse` takes.
  [[nodiscard]] std::string text() const;
  /// Whether it is a Unix-domain socket.
  [[nodiscard]] bool is_unix() const noexcept { return !path.empty(); }
  /// Neither a Unix-domain socket nor a number.
  [[nodiscard]] bool is_name() const;
  /// A Unix-domain socket, `localhost`, or a number of the loopback network.
  [[nodiscard]] bool is_loopback() const;

  friend bool operator==(address const&, address const&) = default;
};

}  // namespace rubato::net
