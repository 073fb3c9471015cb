// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/storage/ordered_store.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/storage/store_host.hpp"

namespace rubato {

/// A `sparse` table whose servers keep the touched rows in a tree: `ordered<float>{{.width = 8}}`. See
/// `ordered_store` for when. `rubato-server` does not host it: start the program itself as the server.
template <parameter T, class Merge = merge_of_protocol, partition_policy Partition = range_hash>
struct ordered : sparse<T, Merge, Partition> {
  using store = ordered_store<T>;
};
static_assert(table_spec<ordered<float>>);

}  // namespace rubato
