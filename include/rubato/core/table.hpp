// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>

namespace rubato {

/// Names a table by its place in the list given to the cluster, at compile time:
/// `worker[table<1>]`.
template <std::size_t I>
struct table_tag {
  static constexpr std::size_t index = I;
};
template <std::size_t I>
inline constexpr table_tag<I> table{};

}  // namespace rubato
