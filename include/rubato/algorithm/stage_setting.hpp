// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/task/stage.hpp"

namespace rubato::algorithm::detail {

/// @throws option_error with this sentence
inline void expect(bool holds, std::string const& sentence) {
  if (!holds) throw option_error(sentence);
}

/// That the user has left to the algorithm what it decides of a stage.
inline void expect_unset(stage_options const& o, std::string const& name) {
  expect(o.iterations == 1 && o.cleared.empty() && o.copied.empty(),
         name + " has iterations, or cleared or copied tables, expected to leave these to the algorithm");
  o.check();
}

/// Batches that rows are cut into.
inline std::int64_t steps_of_scan(std::size_t rows, std::size_t batch) {
  return static_cast<std::int64_t>((rows + batch - 1) / batch);
}

}  // namespace rubato::algorithm::detail
