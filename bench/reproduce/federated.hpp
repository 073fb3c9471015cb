// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/train/training.hpp"
#include "rubato/data/dataset.hpp"

namespace rubato::bench {

/// Rows sorted by label, cut into pieces, and these put into an order that the seed decides: with two pieces for each
/// of the workers, most have two labels. Source: McMahan et al., AISTATS 2017, §3, "pathological non-IID".
[[nodiscard]] data::dataset deal_by_label(data::dataset const& rows, std::size_t pieces, std::uint64_t seed);

/// A network of 32 hidden units on images of digits, and clients that all have as many: 100 rows each.
class clients {
 public:
  /// @param of how many
  /// @param pieces for each client, of the images sorted by label; 0: at random
  clients(reproduce_options const& options, std::uint32_t of, std::size_t pieces);

  /// To a tenth of the initial objective, with so much of a client's rows in a local step, which takes a millisecond
  /// whatever it is.
  [[nodiscard]] training job(double batch) const;
  [[nodiscard]] std::string const& name() const noexcept { return data_.name(); }

 private:
  std::uint32_t of_;
  std::uint64_t seed_;
  workloads_by_seed data_;
  workload const* work_;
};

}  // namespace rubato::bench
