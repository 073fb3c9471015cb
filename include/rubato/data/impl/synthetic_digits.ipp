// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/data/synthetic_digits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/require.hpp"
#include "rubato/core/random.hpp"

namespace rubato::data {
namespace {

constexpr int glyph_width = 5;
constexpr int glyph_height = 7;

/// The digits as on a display of 5 x 7 dots, line after line.
constexpr std::array<std::string_view, 10> glyphs = {
    ".###."
    "#...#"
    "#..##"
    "#.#.#"
    "##..#"
    "#...#"
    ".###.",
    "..#.."
    ".##.."
    "..#.."
    "..#.."
    "..#.."
    "..#.."
    ".###.",
    ".###."
    "#...#"
    "....#"
    "...#."
    "..#.."
    ".#..."
    "#####",
    "#####"
    "...#."
    "..#.."
    "...#."
    "....#"
    "#...#"
    ".###.",
    "...#."
    "..##."
    ".#.#."
    "#..#."
    "#####"
    "...#."
    "...#.",
    "#####"
    "#...."
    "####."
    "....#"
    "....#"
    "#...#"
    ".###.",
    "..##."
    ".#..."
    "#...."
    "####."
    "#...#"
    "#...#"
    ".###.",
    "#####"
    "....#"
    "...#."
    "..#.."
    ".#..."
    ".#..."
    ".#...",
    ".###."
    "#...#"
    "#...#"
    ".###."
    "#...#"
    "#...#"
    ".###.",
    ".###."
    "#...#"
    "#...#"
    ".####"
    "....#"
    "...#."
    ".##..",
};

void validate(digits_options const& o) {
  auto const rows = static_cast<double>(o.rows);
  require(o.rows >= 1 && rows <= 4294967295.0, "digits_options: rows", rows, "1 to 2^32 - 1");
  require(o.side >= 8 && o.side <= 64, "digits_options: side", static_cast<double>(o.side), "8 to 64");
  require(o.shift >= 0 && o.shift <= 0.5, "digits_options: shift", o.shift, "0 to 0.5");
  require(o.distortion >= 0 && o.distortion <= 0.9, "digits_options: distortion", o.distortion, "0 to 0.9");
  require(o.noise >= 0 && o.noise <= 1, "digits_options: noise", o.noise, "0 to 1");
  require(o.faintest > 0 && o.faintest <= 1, "digits_options: faintest", o.faintest, "more than 0 and at most 1");
}

double dot(std::string_view glyph, int line, int column) {
  bool const inside = line >= 0 && line < glyph_height && column >= 0 && column < glyph_width;
  return inside && glyph[static_cast<std::size_t>(line * glyph_width + column)] == '#' ? 1 : 0;
}

/// The ink at a point between the dots, from the four around it.
double ink(std::string_view glyph, double line, double column) {
  double const top = std::floor(line), left = std::floor(column);
  double const down = line - top, right = column - left;
  int const l = static_cast<int>(top), c = static_cast<int>(left);
  double const above = dot(glyph, l, c) * (1 - right) + dot(glyph, l, c + 1) * right;
  double const below = dot(glyph, l + 1, c) * (1 - right) + dot(glyph, l + 1, c + 1) * right;
  return above * (1 - down) + below * down;
}

/// Writes digits as different hands would.
class writer {
 public:
  explicit writer(digits_options const& options)
      : options_(options), random_(options.seed), side_(static_cast<double>(options.side)) {}

  [[nodiscard]] std::size_t choose_digit() { return random_.below(glyphs.size()); }

  /// Draws `digit` into `pixels`, line after line.
  void write(std::size_t digit, std::vector<double>& pixels) {
    double const strength = between(options_.faintest, 1);
    double const line_shift = around(options_.shift) * side_;
    double const column_shift = around(options_.shift) * side_;
    // A glyph is as high as three quarters of the image.
    double const dots_per_pixel = glyph_height / (0.75 * side_);
    double const lines_per_pixel = dots_per_pixel * (1 + around(options_.distortion));
    double const columns_per_pixel = dots_per_pixel * (1 + around(options_.distortion));
    double const lean = around(options_.distortion);
    double const middle = (side_ - 1) / 2;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      double const line = static_cast<double>(i / options_.side) - middle - line_shift;
      double const column = static_cast<double>(i % options_.side) - middle - column_shift;
      pixels[i] =
          strength * ink(glyphs[digit], line * lines_per_pixel + (glyph_height - 1) / 2.0,
                         (column + lean * line) * columns_per_pixel + (glyph_width - 1) / 2.0);
    }
    for (double& pixel : pixels) {
      double const grey = random_.uniform();
      if (random_.chance(options_.noise)) pixel = grey;
    }
  }

 private:
  double between(double low, double high) { return low + (high - low) * random_.uniform(); }
  double around(double range) { return between(-range, range); }

  digits_options options_;
  random_stream random_;
  double side_;
};

}  // namespace

dataset make_synthetic_digits(digits_options const& options) {
  validate(options);
  writer hand(options);
  std::vector<double> pixels(options.side * options.side);
  dataset_builder rows(pixels.size());
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  for (std::size_t row = 0; row < options.rows; ++row) {
    std::size_t const digit = hand.choose_digit();
    hand.write(digit, pixels);
    indices.clear();
    values.clear();
    for (std::uint32_t i = 0; i < pixels.size(); ++i) {
      auto const value = static_cast<float>(pixels[i]);
      if (value == 0) continue;
      indices.push_back(i);
      values.push_back(value);
    }
    rows.add(static_cast<float>(digit), indices, values);
  }
  return rows.build();
}

}  // namespace rubato::data
