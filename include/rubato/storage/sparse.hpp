// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "rubato/core/ids.hpp"
#include "rubato/partition/range_hash.hpp"
#include "rubato/storage/table_spec.hpp"
#include "rubato/storage/update_filter.hpp"

namespace rubato {

/// A table whose rows exist once they are touched; all others read as zero. Its memory grows with
/// the touched rows only, so keys may be any 64-bit numbers.
template <parameter T, class Merge = merge_of_protocol, partition_policy Partition = range_hash>
struct sparse {
  using value_type = T;
  using merge_type = Merge;
  static constexpr bool bounded = false;
  using store = sparse_store<T>;

  std::uint64_t rows = 0;              ///< keys are below it; 0 allows every key
  std::size_t width = 1;               ///< elements in a row
  std::span<key const> init_keys = {}; ///< rows that start other than zero
  std::span<T const> init = {};        ///< their values, width each; copied
  bool check_finite = false;           ///< pushes of NaN or infinity are refused
  Merge merge{};
  std::remove_const_t<Partition> partition{};
  update_filter filter{};              ///< small entries of commits are not sent; off unless set
  table_codec codec{};                 ///< how values go over wires in fewer bytes; as they are unless set
  /// How many of the rows fetched by key a worker keeps, and so does a process of several workers; the
  /// least recently used go first. 0: no limit. What has been pushed to them is not in there.
  std::uint64_t cached_rows = 0;
};
static_assert(table_spec<sparse<float>> && table_spec<sparse<double>>);

}  // namespace rubato
