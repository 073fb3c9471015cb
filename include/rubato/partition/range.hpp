// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/partition/concepts.hpp"

namespace rubato {

/// Each server holds one run of consecutive keys; sizes differ by at most one row. Keys of an
/// unbounded table are split by their upper bits. Good for whole pulls; a hot run of keys makes a
/// hot server.
struct range {
  [[nodiscard]] constexpr server_id server_of(key k, table_shape shape) const noexcept {
    if (shape.rows == 0) return of(k.value() >> 32, std::uint64_t{1} << 32, shape.servers);
    return of(k.value(), shape.rows, shape.servers);
  }

  [[nodiscard]] constexpr std::uint64_t run_end(key k, table_shape shape) const noexcept {
    std::uint64_t const small = shape.rows / shape.servers;
    std::uint64_t const large_part = (small + 1) * (shape.rows % shape.servers);
    if (k.value() < large_part) return (k.value() / (small + 1) + 1) * (small + 1);
    return large_part + ((k.value() - large_part) / small + 1) * small;
  }

 private:
  /// The first `n % servers` servers hold one row more.
  static constexpr server_id of(std::uint64_t k, std::uint64_t n, std::uint64_t servers) noexcept {
    std::uint64_t const small = n / servers;
    std::uint64_t const large_part = (small + 1) * (n % servers);
    std::uint64_t const s =
        k < large_part ? k / (small + 1) : n % servers + (k - large_part) / small;
    return server_id{static_cast<std::uint32_t>(s)};
  }
};
static_assert(partition_policy<range>);

}  // namespace rubato
