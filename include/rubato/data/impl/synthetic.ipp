// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/require.hpp"
#include "rubato/core/portable_math.hpp"
#include "rubato/core/random.hpp"

namespace rubato::data {
namespace {

enum stream : std::uint64_t { weight_stream, row_stream, noise_stream };

void validate(synthetic_options const& o) {
  constexpr double limit = 4294967295.0;
  auto const rows = static_cast<double>(o.rows);
  auto const features = static_cast<double>(o.features);
  require(o.rows >= 1 && rows <= limit, "synthetic_options: rows", rows, "1 to 2^32 - 1");
  require(o.features >= 1 && features <= limit, "synthetic_options: features", features, "1 to 2^32 - 1");
  require(o.nonzeros_per_row >= 1 && o.nonzeros_per_row <= o.features, "synthetic_options: nonzeros_per_row",
          static_cast<double>(o.nonzeros_per_row), "1 to the number of features");
  require(o.exponent >= 0 && o.exponent <= 4, "synthetic_options: exponent", o.exponent, "0 to 4");
  require(o.informative > 0 && o.informative <= 1, "synthetic_options: informative", o.informative,
          "more than 0 and at most 1");
  require(o.contrast >= 0 && o.contrast <= 1, "synthetic_options: contrast", o.contrast, "0 to 1");
  require(o.positive_share > 0 && o.positive_share < 1, "synthetic_options: positive_share", o.positive_share,
          "more than 0 and less than 1");
  require(o.label_noise >= 0 && o.label_noise <= 0.5, "synthetic_options: label_noise", o.label_noise, "0 to 0.5");
}

/// Draws ranks 0 .. features - 1 with probability about (rank + 1)^-exponent, in O(1) and without
/// a table: the inverse distribution function of the density x^-exponent on [1, features + 1).
class power_law {
 public:
  power_law(std::size_t features, double exponent)
      : features_(features),
        log_end_(rubato::detail::portable_log(static_cast<double>(features) + 1)),
        tail_(1 - exponent),
        tail_mass_(rubato::detail::portable_exp(tail_ * log_end_) - 1) {}

  std::size_t operator()(random_stream& random) const {
    double const u = random.uniform();
    // At exponent 1 the general formula is 0 / 0; near it, its limit is the better number.
    double const log_x = std::abs(tail_) < 1e-8
                             ? u * log_end_
                             : rubato::detail::portable_log(1 + u * tail_mass_) / tail_;
    double const x = rubato::detail::portable_exp(std::clamp(log_x, 0.0, log_end_));
    return std::min(static_cast<std::size_t>(x) - 1, features_ - 1);
  }

 private:
  std::size_t features_;
  double log_end_;
  double tail_;
  double tail_mass_;
};

/// Spreads ranks over the index range with a one-to-one map, so that a range partition does not put
/// all popular features on one server.
class scatter {
 public:
  explicit scatter(std::uint64_t features)
      : features_(features),
        factor_(std::max<std::uint64_t>(
            1, static_cast<std::uint64_t>(static_cast<double>(features) * 0.6180339887498949))) {
    while (std::gcd(factor_, features_) != 1) ++factor_;
  }

  std::uint32_t operator()(std::size_t rank) const {
    return static_cast<std::uint32_t>(rank * factor_ % features_);
  }

 private:
  std::uint64_t features_;
  std::uint64_t factor_;
};

std::vector<float> hidden_weights(synthetic_options const& options) {
  random_stream random(options.seed, weight_stream);
  std::vector<float> weights(options.features);
  for (float& w : weights) {
    if (random.chance(options.informative)) w = static_cast<float>(random.normal());
  }
  return weights;
}

/// Draws the distinct features of one row after the other.
class feature_picker {
 public:
  feature_picker(synthetic_options const& options, std::span<float const> weights)
      : law_(options.features, options.exponent),
        place_(options.features),
        contrast_(options.contrast),
        weights_(weights),
        row_of_(options.features) {}

  /// Fills `out` with distinct features in increasing order, fewer of those against the row's lean.
  void operator()(random_stream& random, bool leans_positive, std::span<std::uint32_t> out) {
    ++row_;
    std::size_t found = 0;
    for (std::size_t tries = 4 * out.size(); tries > 0 && found < out.size(); --tries) {
      std::size_t const rank = law_(random);
      float const vote = weights_[place_(rank)];
      bool const against = leans_positive ? vote < 0 : vote > 0;
      if (against && random.chance(contrast_)) continue;
      found += take(rank, out, found);
    }
    // A steep law does not reach that many features in reasonable time: the likeliest fill up.
    for (std::size_t rank = 0; found < out.size(); ++rank) found += take(rank, out, found);
    std::sort(out.begin(), out.end());
  }

 private:
  std::size_t take(std::size_t rank, std::span<std::uint32_t> out, std::size_t found) {
    if (row_of_[rank] == row_) return 0;
    row_of_[rank] = row_;
    out[found] = place_(rank);
    return 1;
  }

  power_law law_;
  scatter place_;
  double contrast_;
  std::span<float const> weights_;
  std::vector<std::uint32_t> row_of_;  // the last row, counted from 1, that has this rank
  std::uint32_t row_ = 0;
};

/// Writes values that make the row as long as 1.
void draw_values(random_stream& random, bool binary, std::span<float> values) {
  double norm2 = 0;
  for (float& value : values) {
    value = binary ? 1.0F : static_cast<float>(0.5 + random.uniform());
    norm2 += static_cast<double>(value) * static_cast<double>(value);
  }
  double const scale = 1 / std::sqrt(norm2);
  for (float& value : values) value = static_cast<float>(scale * static_cast<double>(value));
}

float dot(std::span<float const> weights, std::span<std::uint32_t const> indices,
          std::span<float const> values) {
  double sum = 0;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    sum += static_cast<double>(weights[indices[k]]) * static_cast<double>(values[k]);
  }
  return static_cast<float>(sum);
}

/// The least of the `share` largest scores: a bias in place of a constant feature, whatever the
/// popular features add to every row.
float least_positive(std::vector<float> scores, double share) {
  auto const wanted = static_cast<std::size_t>(share * static_cast<double>(scores.size()) + 0.5);
  std::size_t const positives = std::clamp<std::size_t>(wanted, 1, scores.size());
  auto const last = scores.begin() + static_cast<std::ptrdiff_t>(positives - 1);
  std::nth_element(scores.begin(), last, scores.end(), std::greater<>());
  return *last;
}

synthetic_options scaled(double rows, double features, std::size_t nonzeros_per_row, double scale) {
  require(scale > 0 && scale <= 1, "synthetic_options: scale", scale, "more than 0 and at most 1");
  synthetic_options options;
  options.rows = std::max<std::size_t>(1, static_cast<std::size_t>(rows * scale + 0.5));
  options.features = std::max<std::size_t>(1, static_cast<std::size_t>(features * scale + 0.5));
  options.nonzeros_per_row = std::min(nonzeros_per_row, options.features);
  return options;
}

}  // namespace

synthetic_options synthetic_options::url_like(double scale, std::uint64_t seed) {
  synthetic_options options = scaled(2.4e6, 3.2e6, 500, scale);
  options.positive_share = 0.33;
  options.seed = seed;
  return options;
}

synthetic_options synthetic_options::ctr_like(double scale, std::uint64_t seed) {
  synthetic_options options = scaled(300e6, 58e6, 100, scale);
  options.positive_share = 0.05;
  options.label_noise = 0.005;  // at 0.02 every third positive would be a flipped negative
  options.binary_values = true;
  options.seed = seed;
  return options;
}

dataset make_synthetic(synthetic_options const& options) {
  validate(options);
  std::vector<float> const weights = hidden_weights(options);
  feature_picker pick(options, weights);
  random_stream random(options.seed, row_stream);
  dataset_builder rows(options.features);
  rows.reserve(options.rows, options.rows * options.nonzeros_per_row);
  std::vector<std::uint32_t> indices(options.nonzeros_per_row);
  std::vector<float> values(options.nonzeros_per_row);
  std::vector<float> scores;
  scores.reserve(options.rows);
  for (std::size_t row = 0; row < options.rows; ++row) {
    pick(random, random.chance(options.positive_share), indices);
    draw_values(random, options.binary_values, values);
    scores.push_back(dot(weights, indices, values));
    rows.add(scores.back(), indices, values);  // its label, as soon as the threshold is known
  }
  random_stream noise(options.seed, noise_stream);
  float const threshold = least_positive(std::move(scores), options.positive_share);
  rows.map_labels([&](float score) {
    return (score >= threshold) != noise.chance(options.label_noise) ? 1.0F : -1.0F;
  });
  return rows.build();
}

}  // namespace rubato::data
