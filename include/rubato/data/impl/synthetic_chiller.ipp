// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/synthetic_chiller.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/require.hpp"
#include "rubato/core/random.hpp"

namespace rubato::data {
namespace {

using feature = chiller_feature;

void validate(chiller_options const& o) {
  require(o.chillers >= 1 && o.chillers <= 1'000, "chiller_options: chillers", static_cast<double>(o.chillers),
          "1 to 1000");
  require(o.days >= 1 && o.days <= 1'000'000, "chiller_options: days", static_cast<double>(o.days), "1 to 10^6");
  require(o.noise >= 0 && o.noise <= 10, "chiller_options: noise", o.noise, "0 to 10");
}

/// What is known of one chiller on one day.
struct record {
  std::size_t chiller;
  std::array<double, chiller_features> values;
  double performance;

  double& operator[](feature f) { return values[static_cast<std::size_t>(f)]; }
};

struct chiller {
  double age;      ///< at the start, in years
  double quality;  ///< 1 is the average
};

/// -1 in midwinter, 1 in midsummer, in between two parabolas that come close to a sine.
double season(std::size_t day) {
  double const year = static_cast<double>(day) / 365.25;
  double const half = 2 * (year - std::floor(year)) + 0.5;  // in half-waves from spring on
  double const part = half - std::floor(half);
  double const wave = 4 * part * (1 - part);
  return half < 1 || half >= 2 ? -wave : wave;
}

/// The chiller's day, as it follows from the weather and the physics.
record day_of(chiller const& c, std::size_t number, double outdoor, double humidity, double years,
              double noise, random_stream& random) {
  record r{.chiller = number, .values = {}, .performance = 0};
  double const warmth = std::clamp((outdoor - 5) / 30, 0.0, 1.0);
  double const load = std::clamp(0.3 + 0.5 * warmth + 0.12 * random.normal(), 0.1, 1.0);
  double const outlet = 7 + 0.8 * random.normal() - 1.5 * (load - 0.6);
  double const hours = std::clamp(10 + 10 * load + 2 * random.normal(), 1.0, 24.0);
  double const age = c.age + years;
  // Kelvin over the lift from the chilled water to the condenser, times what a machine gets of it.
  double const condenser = outdoor + 4 + 6 * load + 3 * humidity;
  double const lift = std::max(condenser - outlet, 12.0);
  double const part_load = 1 - 0.6 * (load - 0.7) * (load - 0.7);
  double const worn = std::max(1 - 0.012 * age, 0.1);  // the oldest still cool
  double const efficiency = 0.7 * c.quality * worn * part_load;
  double const ideal = (outlet + 273.15) / (lift + 18);
  r.performance = efficiency * ideal + noise * random.normal();
  r[feature::outlet_temperature] = outlet;
  r[feature::outdoor_temperature] = outdoor;
  // The meter knows the load and the ideal, and is off by a twentieth.
  r[feature::electricity] = load * hours / (efficiency * ideal) * (1 + 0.05 * random.normal());
  r[feature::age] = age;
  r[feature::load] = load;
  r[feature::humidity] = humidity;
  r[feature::operating_hours] = hours;
  return r;
}

std::vector<record> draw(chiller_options const& options) {
  random_stream random(options.seed);
  std::vector<chiller> chillers(options.chillers);
  for (chiller& c : chillers) c = {15 * random.uniform(), 1 + 0.05 * random.normal()};
  std::vector<record> records;
  records.reserve(options.days * options.chillers);
  for (std::size_t day = 0; day < options.days; ++day) {
    double const outdoor = 18 + 11 * season(day) + 3.5 * random.normal();
    double const humidity = random.uniform();
    double const years = static_cast<double>(day) / 365.25;
    for (std::size_t c = 0; c < chillers.size(); ++c)
      records.push_back(day_of(chillers[c], c, outdoor, humidity, years, options.noise, random));
  }
  return records;
}

/// Gives a feature the mean 0 and the variance 1; one that never varies becomes 0.
void standardise(std::vector<record>& records, feature f) {
  auto const count = static_cast<double>(records.size());
  double mean = 0;
  for (record& r : records) mean += r[f] / count;
  double variance = 0;
  for (record& r : records) variance += (r[f] - mean) * (r[f] - mean) / count;
  double const scale = variance > 0 ? 1 / std::sqrt(variance) : 0;
  for (record& r : records) r[f] = scale * (r[f] - mean);
}

}  // namespace

dataset make_synthetic_chiller(chiller_options const& options) {
  validate(options);
  std::vector<record> records = draw(options);
  for (std::size_t f = 0; f < static_cast<std::size_t>(feature::constant); ++f)
    standardise(records, static_cast<feature>(f));
  dataset_builder rows(chiller_features + options.chillers);
  rows.reserve(records.size(), records.size() * (chiller_features + 1));
  std::array<std::uint32_t, chiller_features + 1> indices{};
  std::array<float, chiller_features + 1> values{};
  for (record& r : records) {
    r[feature::constant] = 1;
    for (std::uint32_t f = 0; f < chiller_features; ++f) {
      indices[f] = f;
      values[f] = static_cast<float>(r.values[f]);
    }
    indices.back() = static_cast<std::uint32_t>(chiller_features + r.chiller);
    values.back() = 1;
    rows.add(static_cast<float>(r.performance), indices, values);
  }
  return rows.build();
}

}  // namespace rubato::data
