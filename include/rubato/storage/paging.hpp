// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace rubato {

/// Which chunk goes when another one needs its memory.
enum class replacement : std::uint8_t {
  least_recently_used,
  least_frequently_used,  ///< since it has come into memory; of several the least recently used
};

/// How a table is kept that may be larger than the memory that it is given. Source: 004 §5.3.
struct paging {
  /// Bytes of parameters that a server keeps in memory of its part; the others are in a file, or nowhere as long as
  /// they are zero. 0: no limit. Beyond it come as many chunks as threads are using at that moment.
  std::size_t memory_limit = 0;
  /// What is moved at a time, and locked: as many whole rows as fit, at least one.
  std::size_t chunk_bytes = 64 * 1024;
  replacement replace = replacement::least_recently_used;  ///< which chunk goes to the file
  /// Where the file goes, which has no name and is gone with the table; empty: where temporary files do.
  std::string directory{};

  /// @param row_bytes of the table @throws option_error naming the option and what was expected
  void check(std::size_t row_bytes) const;
};

}  // namespace rubato
