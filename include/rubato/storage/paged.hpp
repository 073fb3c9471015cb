// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/storage/dense.hpp"
#include "rubato/storage/paged_store.hpp"
#include "rubato/storage/paging.hpp"
#include "rubato/storage/store_host.hpp"
#include "rubato/storage/table_description.hpp"

namespace rubato {

/// A `dense` table that may be larger than the memory of its servers:
///
///     paged<float>{{.rows = 1'000'000'000}, {.memory_limit = 1 << 30}}
///
/// Training is the same, bit for bit, as with `dense`; it takes less memory, and more time where what is used
/// together has no room together. Rows that nobody has touched take neither memory nor disk. Workers pull rows by key
/// then: a pull of everything brings all of it. A merge with a velocity, or with values beside the elements, has those
/// in memory, as a whole.
/// `rubato-server` does not host it: start the program itself as the server.
/// Source: 004 §5.3 (on-demand preparation).
template <parameter T, class Merge = merge_of_protocol, partition_policy Partition = range_hash>
struct paged : dense<T, Merge, Partition> {
  using store = paged_store<T>;
  paging store_options{};  ///< memory limit, file and replacement
};
static_assert(configured_table<paged<float>>);

}  // namespace rubato
