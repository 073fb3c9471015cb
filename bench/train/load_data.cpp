// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/load_data.hpp"

#include <filesystem>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/data/libsvm.hpp"
#include "rubato/data/synthetic.hpp"

namespace rubato::bench {
namespace {

constexpr double held_out_share = 0.2;

loaded_data hold_out(data::dataset const& all, std::string name, std::uint64_t seed) {
  data::held_out const parts = all.split(held_out_share, seed);
  return {parts.train.shuffled(seed), parts.test, std::move(name)};
}

loaded_data load_file(data_source const& from, std::uint64_t seed) {
  std::string name = std::filesystem::path(from.file).filename().string();
  data::dataset const all = data::read_libsvm(from.file);
  std::string test_file = from.test_file;
  if (test_file.empty() && std::filesystem::exists(from.file + ".t")) test_file = from.file + ".t";
  if (test_file.empty()) return hold_out(all, std::move(name), seed);
  return {all.shuffled(seed), data::read_libsvm(test_file), std::move(name)};
}

/// The papers' sets in so small that a comparison with tuned rates takes seconds.
data::synthetic_options shape(data_source const& from, std::uint64_t seed) {
  data::synthetic_options s;
  if (from.synthetic == "url") {
    s = data::synthetic_options::url_like(0.01, seed);
    s.rows = 10'000;
    s.features = 2'000;
    s.nonzeros_per_row = 50;
  } else if (from.synthetic == "ctr") {
    s = data::synthetic_options::ctr_like(0.0001, seed);
    s.rows = 20'000;
    s.features = 4'000;
    s.nonzeros_per_row = 20;
  } else {
    throw option_error("--synthetic: there is no data set \"" + from.synthetic +
                       "\", expected url or ctr");
  }
  s.rows = from.rows.value_or(s.rows);
  s.features = from.features.value_or(s.features);
  s.nonzeros_per_row = from.nonzeros.value_or(s.nonzeros_per_row);
  return s;
}

}  // namespace

loaded_data load_data(data_source const& from, std::uint64_t seed) {
  if (!from.file.empty()) return load_file(from, seed);
  return hold_out(data::make_synthetic(shape(from, seed)), "synthetic " + from.synthetic, seed);
}

}  // namespace rubato::bench
