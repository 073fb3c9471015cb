// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <vector>

#include <rubato/core/ids.hpp>
#include <rubato/data/dataset.hpp>

namespace rubato::data {

/// A batch renumbered to the features that occur in it: feature j of `rows` is feature `keys[j]` of
/// the original.
///
/// This is what key/value workers want: pull the weights at `keys`, run any model on `rows` as if
/// they were the whole world, push the result at `keys`. A shard's batches come back every pass, so
/// compact them once and keep them.
struct compact_batch {
  std::vector<key> keys;  ///< strictly increasing
  dataset rows;           ///< `rows.features() == keys.size()`
};

/// Copies and renumbers a batch. Cost: O(n log n) for n stored values.
[[nodiscard]] compact_batch compact(dataset_view batch);

}  // namespace rubato::data
