// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/partition/concepts.hpp"
#include "rubato/partition/range_hash.hpp"

namespace rubato {

namespace detail {
/// @throws option_error for an empty list and for a server that is named twice
void check_server_list(std::vector<std::uint32_t> const& servers);
/// @throws option_error naming the server where there is one that the cluster does not have
void check_server_list(std::vector<std::uint32_t> const& servers, std::uint32_t in_cluster);
/// Throws as if it were there.
[[noreturn]] void refuse_place_in_list(server_id place, key k, std::size_t servers);
}  // namespace detail

/// A table that lives on some of the servers: `on_servers{{1, 3}}`. Inner spreads it over them, as if there
/// were no others: what it gives to its server i lies on the i-th of the list, so the order matters;
/// `on_servers{{3, 1}, key_ranges{{0, 500}}}` puts the first 500 keys on server 3.
///
/// What the other servers hear of the table: every commit goes to every server, since each counts the clocks,
/// with an empty part for this table. Pulls by key ask the servers of the keys, and of the whole of a bounded
/// table those that hold rows of it. Beyond that workers ask a server for word of the clock, and those whose
/// own commits may not be in yet (visibility that holds them back, reads that threads share) ask all. A table
/// that keeps versions is pulled from all: by such a pull a server hears which versions its reader has seen.
///
/// Cost: Inner's, and O(1). Source: 004 §6 (tables on some of the servers, as the user says).
template <partition_policy Inner = range_hash>
class on_servers {
 public:
  /// @param servers their numbers, each once
  /// @throws option_error for an empty list and for a server that is named twice
  explicit on_servers(std::vector<std::uint32_t> servers, Inner inner = Inner{})
      : servers_(std::move(servers)), inner_(std::move(inner)) {
    detail::check_server_list(servers_);
    for (std::uint32_t const s : servers_) greatest_ = s > greatest_ ? s : greatest_;
  }

  /// @throws option_error where the list names a server that the cluster does not have, Inner one that is
  /// not on the list, and what Inner throws
  [[nodiscard]] server_id server_of(key k, table_shape shape) const {
    if (greatest_ >= shape.servers) detail::check_server_list(servers_, shape.servers);
    auto const count = static_cast<std::uint32_t>(servers_.size());
    server_id const place = inner_.server_of(k, {.rows = shape.rows, .servers = count});
    if (place.value() >= count) detail::refuse_place_in_list(place, k, servers_.size());
    return server_id{servers_[place.index()]};
  }

  [[nodiscard]] std::uint64_t run_end(key k, table_shape shape) const
    requires detail::partition_in_runs<Inner>
  {
    return inner_.run_end(k, {.rows = shape.rows, .servers = static_cast<std::uint32_t>(servers_.size())});
  }

  [[nodiscard]] std::uint64_t digest() const {
    std::uint64_t words = detail::digest_of(inner_);
    for (std::uint32_t const s : servers_) words = detail::mix64(words ^ s) + 1;
    return words;
  }

 private:
  std::vector<std::uint32_t> servers_;
  Inner inner_;
  std::uint32_t greatest_ = 0;  ///< of the list: asked at every key
};
static_assert(partition_policy<on_servers<>>);

}  // namespace rubato
