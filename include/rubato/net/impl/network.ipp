// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <unistd.h>

#include "rubato/net/network.hpp"
#include "rubato/net/proof.hpp"

namespace rubato::net {

void network::random(std::span<std::byte> into) { fill_with_secrets(into); }
std::uint32_t network::process() const noexcept { return static_cast<std::uint32_t>(::getpid()); }

}  // namespace rubato::net
