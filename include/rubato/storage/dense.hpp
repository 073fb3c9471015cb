// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "rubato/partition/range_hash.hpp"
#include "rubato/storage/table_spec.hpp"
#include "rubato/storage/update_filter.hpp"

namespace rubato {

/// A table that holds every row: `dense<float>{.rows = 1'000'000, .init = w0}`.
///
/// With `merge` another than the protocol's, as for counts beside weights: `dense<float, sum>`.
template <parameter T, class Merge = merge_of_protocol, partition_policy Partition = range_hash>
struct dense {
  using value_type = T;
  using merge_type = Merge;
  static constexpr bool bounded = true;
  using store = dense_store<T>;

  std::uint64_t rows = 0;           ///< keys are 0 … rows − 1
  std::size_t width = 1;            ///< elements in a row
  std::span<T const> init = {};     ///< rows × width initial values, or none for zeros; copied
  bool check_finite = false;        ///< pushes of NaN or infinity are refused
  Merge merge{};
  std::remove_const_t<Partition> partition{};
  update_filter filter{};           ///< small entries of commits are not sent; off unless set
  table_codec codec{};              ///< how values go over wires in fewer bytes; as they are unless set
  /// How many of the rows fetched by key a worker keeps, and so does a process of several workers; the
  /// least recently used go first. 0: no limit. What has been pushed to them is not in there.
  std::uint64_t cached_rows = 0;
};
static_assert(table_spec<dense<float>> && table_spec<dense<double>>);

}  // namespace rubato
