// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rubato/core/error.hpp"

namespace rubato {

/// How a stage in single-machine mode gets the parameters.
enum class preparation : std::uint8_t {
  on_demand,  ///< chunk by chunk, each when it is first touched
  integral,   ///< all of them before it begins
};

/// Single-machine mode: all workers of a stage are on one node, which has the tables while the stage runs. Reads,
/// pushes and admission stay within the node; what has been changed goes back to the servers when the stage ends.
/// If the next stage is in this mode, too, it goes on with what is there: on another node it gets it from this one.
///
/// The paper's modes are degrees and protocols of it: one worker is the sequential one, several under a protocol that
/// waits (`bsp`, `ssp`) are SPMT, several under `asp` Hogwild.
///
/// Training is the same, bit for bit under BSP, as with servers elsewhere. A table is kept as its own store keeps
/// it, so a `paged` one stays within its memory limit where all ask for it by key; a pull of a whole table takes the
/// memory of the whole. Tables that are not bounded come as a whole either way, and go back in messages of 4096 rows,
/// which must fit into `tcp::sparse_max`.
/// Cost: what is touched is sent once in the beginning, and what is changed once in the end. Integral preparation
/// takes the memory of the largest table once more while it comes; so does, in the end, what goes back under a
/// protocol that reads cuts, or of a table in versions. Of a stage elsewhere a process hears as of one worker that
/// commits nothing: its report has no more.
/// Source: 004 §5.3.
struct single_machine {
  preparation prepare = preparation::on_demand;
  /// What comes at a time: as many whole rows as fit, at least one.
  std::size_t chunk_bytes = 64 * 1024;
  /// Whether the next stage in this mode gets the tables from this one's node, around the servers, unless it
  /// changes tables before, or one of both may begin again.
  bool direct = true;

  /// @throws option_error
  void check() const {
    if (prepare != preparation::on_demand && prepare != preparation::integral)
      throw option_error("single_machine: prepare is " + std::to_string(static_cast<int>(prepare)) +
                         ", expected one of the values of `preparation`");
    if (chunk_bytes == 0) throw option_error("single_machine: chunk_bytes must be at least 1");
  }
  friend bool operator==(single_machine const&, single_machine const&) = default;
};

/// Of a placement, the one node that has workers. @throws option_error when it is not one
[[nodiscard]] inline std::uint32_t only_node(std::span<std::uint32_t const> workers) {
  auto const has_workers = [](std::uint32_t n) { return n != 0; };
  auto const at = std::ranges::find_if(workers, has_workers);
  if (at == workers.end() || std::any_of(at + 1, workers.end(), has_workers))
    throw option_error("run: single-machine mode, expected a placement with workers on one node");
  return static_cast<std::uint32_t>(at - workers.begin());
}

}  // namespace rubato
