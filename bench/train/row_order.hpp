// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>

#include "rubato/data/dataset.hpp"

namespace rubato::bench {

/// Which rows a worker gets (`--shards`): all get neighbouring ones, so it is their order that decides.
struct row_order {
  enum class kind {
    shuffled,  ///< at random: every shard is like the others
    ordered,   ///< as the file has them
    by_label,  ///< a part of each shard at random, the other in the order of the labels
    all,       ///< at random, and every worker goes over all rows, beginning with its shard
  };
  kind how = kind::shuffled;
  double labelled = 1;  ///< by_label: the share of the rows that go by their labels

  bool operator==(row_order const&) const = default;
};

/// "shuffled", "ordered", "by-label:0.5", "all". @throws option_error that names `--shards`
[[nodiscard]] row_order parse_row_order(std::string const& text);
/// As `parse_row_order` reads it.
[[nodiscard]] std::string name_of(row_order const& order);

/// The rows in this order; the seed decides what is at random. Rows that go by their labels lie evenly between the
/// others, so that any number of neighbouring shards have their part of them. O(rows log rows + non-zeros).
[[nodiscard]] data::dataset in_order(data::dataset const& rows, row_order const& order, std::uint64_t seed);

}  // namespace rubato::bench
