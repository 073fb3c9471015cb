// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/launch/token.hpp"

#include <fmt/core.h>
#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace rubato::launch {

std::string random_token() {
  unsigned char bytes[32];
  // So few come at once, or not at all.
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    throw std::system_error(errno, std::generic_category(), "cannot draw a random token");
  }
  std::string token;
  for (unsigned char const byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace rubato::launch
