// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <vector>

#include "rubato/partition/concepts.hpp"
#include "rubato/partition/partition_rule.hpp"
#include "rubato/testing/check_policies.hpp"
#include "rubato/testing/findings.hpp"

namespace rubato::testing {

namespace detail {
void check_partition(findings& found, partition_rule const& rule, partition_rule const& copy,
                     std::vector<table_shape> const& shapes);
}

/// Tables from none to 65,537 rows, and such as may have any key, on 1 to 64 servers.
[[nodiscard]] std::vector<table_shape> usual_shapes();

/// Which server holds a row: one that there is, and always the same one. A run of keys is on one server as far as
/// `run_end` says it is, copies have one digest, and a shape that is refused is refused for each key. Up to 300 keys of
/// each shape are tried, and others of their runs.
/// @param shapes of tables that the partition may be asked about; it may refuse some of them, but not all
template <partition_policy P>
[[nodiscard]] sentences check_partition(P const& p, std::vector<table_shape> const& shapes = usual_shapes()) {
  if (sentences refused = detail::refused_options(p); !refused.empty()) return refused;
  detail::findings found;
  P const copy(p);
  detail::check_partition(found, partition_rule(p), partition_rule(copy), shapes);
  return found.take();
}

}  // namespace rubato::testing
