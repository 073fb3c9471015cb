// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <span>

#include "rubato/net/network.hpp"
#include "rubato/net/proof.hpp"

namespace rubato::net {

void network::random(std::span<std::byte> into) { fill_with_secrets(into); }

process_identity network::process() const {
  static std::uint64_t const life = [] {
    std::uint64_t drawn = 0;
    fill_with_secrets(std::as_writable_bytes(std::span(&drawn, 1)));
    return drawn;
  }();
  return {static_cast<std::uint32_t>(::getpid()), life};
}

}  // namespace rubato::net
