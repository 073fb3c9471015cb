// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/testing/text.hpp"

namespace rubato::testing {

/// What is wrong, a sentence each; empty: nothing was found.
using sentences = std::vector<std::string>;

namespace detail {

/// Collects sentences. Of those that differ in their numbers only it keeps the first, and how many more there were, for
/// one mistake usually breaks a rule everywhere.
class findings {
 public:
  /// Returns whether it was good.
  template <class... Parts>
  bool expect(bool good, Parts const&... what) {
    if (!good) add(what...);
    return good;
  }
  template <class... Parts>
  void add(Parts const&... what) {
    note(text(what...));
  }
  /// One for each kind, and how many `more` of it there were; and how many there were of kinds beyond the twentieth.
  [[nodiscard]] sentences take(char const* more = "more like it") const {
    sentences all;
    for (kind const& k : kinds_)
      all.push_back(k.more == 0 ? k.first : text(k.first, " (and ", k.more, ' ', more, ')'));
    if (not_listed_ != 0) all.push_back(text("and ", not_listed_, " more, of other kinds"));
    return all;
  }

 private:
  static constexpr std::size_t kinds_max = 20;

  struct kind {
    std::string shape;
    std::string first;
    std::uint64_t more = 0;
  };

  /// The sentence with the same digit for each number.
  static std::string shape_of(std::string const& sentence) {
    auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
    std::string shape;
    for (char const c : sentence)
      if (!is_digit(c)) shape += c;
      else if (shape.empty() || shape.back() != '0') shape += '0';
    return shape;
  }
  void note(std::string sentence) {
    std::string shape = shape_of(sentence);
    auto const known = std::ranges::find(kinds_, shape, &kind::shape);
    if (known != kinds_.end()) ++known->more;
    else if (kinds_.size() == kinds_max) ++not_listed_;
    else kinds_.push_back({std::move(shape), std::move(sentence)});
  }

  std::vector<kind> kinds_;
  std::uint64_t not_listed_ = 0;
};

[[nodiscard]] inline std::vector<clock_index> sample_clocks() {
  std::vector<clock_index> clocks;
  for (std::int64_t c = 0; c <= 20; ++c) clocks.emplace_back(c);
  for (std::int64_t const c : {1'000LL, 1'000'000LL, 1LL << 40}) clocks.emplace_back(c);
  return clocks;
}

/// From little to much, up to a bound.
[[nodiscard]] inline std::vector<staleness> sample_staleness(staleness bound) {
  std::vector<staleness> all;
  for (std::int64_t const s : {0, 1, 2, 3, 5, 10, 100})
    if (staleness(s) < bound) all.emplace_back(s);
  all.push_back(bound);
  return all;
}

}  // namespace detail

}  // namespace rubato::testing
