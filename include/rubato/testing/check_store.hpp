// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rubato/storage/concepts.hpp"
#include "rubato/storage/store_host.hpp"
#include "rubato/storage/table_host.hpp"
#include "rubato/testing/findings.hpp"

namespace rubato::testing {

/// How a store is checked.
struct store_check {
  std::uint64_t rows = 5000;  ///< of a bounded store; of another the most that are touched
  std::size_t width = 7;  ///< elements in a row
  /// By how much each addition to an element may be off, relative to the absolute values added to it so
  /// far: 0 for a store that keeps what it is given, for one that rounds the distance of neighboring numbers
  /// relative to them. What is checked with are whole numbers, or eighths, so sums are exact without rounding.
  double tolerance = 0;
  std::uint64_t seed = 1;  ///< of what is written and read
};

namespace detail {
/// What `check_store` does, of a store behind its host.
[[nodiscard]] sentences check_host(table_host& host, element_type element, bool bounded, bool concurrent,
                                   store_check const& how);
}  // namespace detail

/// A store of one server's rows against plain arithmetic, used as servers use it: rows are set, also again, whole
/// updates, runs and listed rows are folded with weights, one by one and several at once, also as steps of a
/// velocity; rows are read one by one and as a whole, and a state that has been read stays as it was while
/// folds go on. A store that says it is concurrent is folded into by several threads, while another reads, for a
/// twentieth of a second: no row may mix two states, and no fold may be lost.
///
///     for (auto const& sentence : testing::check_store<my_store>({.tolerance = 0.01})) fail(sentence);
/// @param options what the store is made with beside its shape, if it wants more
template <table_store S, class Options = no_store_options>
[[nodiscard]] sentences check_store(store_check const& how = {}, Options const& options = {}) {
  auto const host = make_host<S>({.rows = S::bounded ? how.rows : 0, .width = how.width}, options);
  return detail::check_host(*host, element_type_of<typename S::value_type>(), S::bounded,
                            concurrent_store<S>, how);
}

}  // namespace rubato::testing
