// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace rubato::test {

/// A loopback port that nobody uses. None that the system may give to others in the meantime, and none twice.
[[nodiscard]] inline std::uint16_t free_port() {
  constexpr int first = 20000;
  constexpr int count = 12000;  // up to where Linux begins with its own choice
  static int next = ::getpid() * 61;
  for (int tries = 0; tries < count; ++tries) {
    int const port = first + ++next % count;
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(port));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool const is_free = ::bind(s, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0;
    ::close(s);
    if (is_free) return static_cast<std::uint16_t>(port);
  }
  throw std::runtime_error("no free port");
}

}  // namespace rubato::test
