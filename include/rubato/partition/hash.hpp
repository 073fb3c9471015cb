// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/partition/concepts.hpp"

namespace rubato {

/// Each key goes to a server by its hash: even load whatever the keys, at the price of scattering
/// neighbors. For sparse tables; a dense one pays with an index entry for nearly every row.
struct hash {
  [[nodiscard]] constexpr server_id server_of(key k, table_shape shape) const noexcept {
    return server_id{static_cast<std::uint32_t>(detail::mix64(k.value() + 1) % shape.servers)};
  }
};
static_assert(partition_policy<hash>);

}  // namespace rubato
