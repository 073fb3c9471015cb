// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "rubato/core/random.hpp"
#include "rubato/testing/check_codec.hpp"

namespace rubato::testing::detail {

namespace {

constexpr std::byte beyond{0xA5};     // that nobody writes to
constexpr float beyond_values = 4711;
constexpr std::size_t guard = 16;

/// What a codec writes, with what lies behind it.
std::vector<std::byte> written(codec_rule const& codec, std::vector<float> const& values) {
  std::size_t const bytes = codec.bytes(values.size());
  std::vector<std::byte> out(bytes + guard, beyond);
  codec.encode(values, std::span(out).first(bytes));
  return out;
}

/// The n values of what is written, with what lies behind them.
std::vector<float> read_back(codec_rule const& codec, std::vector<std::byte> const& coded, std::size_t n) {
  std::vector<float> out(n + guard, beyond_values);
  codec.decode(std::span(coded).first(codec.bytes(n)), std::span(out).first(n));
  return out;
}

/// Of a magnitude, of any, or of any bits.
std::vector<float> some_values(random_stream& random, std::size_t n) {
  bool const of_many = random.chance(0.3), of_any_bits = random.chance(0.3);
  int const around = static_cast<int>(random.below(270)) - 145;
  std::vector<float> values(n);
  for (float& x : values) {
    auto const bits = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32));
    int const exponent = of_many ? static_cast<int>(bits % 270) - 145 : around;
    x = of_any_bits ? std::bit_cast<float>(bits)
                            : static_cast<float>(std::ldexp(random.uniform() * 2 - 1, exponent));
  }
  return values;
}

void check_run(findings& found, codec_rule const& codec, codec_rule const& copy, std::vector<float> const& values) {
  std::size_t const n = values.size(), bytes = codec.bytes(n);
  auto const coded = written(codec, values);
  found.expect(std::all_of(coded.begin() + static_cast<std::ptrdiff_t>(bytes), coded.end(),
                           [](std::byte b) { return b == beyond; }),
               "encode writes beyond the ", bytes, " bytes of ", n, " values");
  found.expect(coded == written(codec, values) && coded == written(copy, values),
               "encode writes something else when it is asked twice, or a copy, for ", n, " values");
  auto const once = read_back(codec, coded, n);
  found.expect(std::all_of(once.begin() + static_cast<std::ptrdiff_t>(n), once.end(),
                           [](float x) { return x == beyond_values; }),
               "decode writes beyond ", n, " values");
  auto const twice = read_back(codec, written(codec, {once.begin(), once.end() - guard}), n);
  for (std::size_t i = 0; i < n; ++i)
    if (std::bit_cast<std::uint32_t>(once[i]) != std::bit_cast<std::uint32_t>(twice[i]))
      return found.add("of ", n, " values ", values[i], " is rounded to ", once[i], ", and that to ", twice[i],
                       ": expected the same bits");
}

/// Of each length up to 40, some up to 1000, a chunk and more: a run is as long as a row, or a chunk of rows.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all;
  for (std::size_t n = 1; n <= 1000; n += n < 40 ? 1 : 160) all.push_back(n);
  all.insert(all.end(), {4096, 16'384, 70'001});
  return all;
}

}  // namespace

void check_codec(findings& found, codec_rule const& codec, codec_rule const& copy) {
  random_stream random(1, 0xc0dec);
  for (std::size_t const n : lengths()) {
    std::size_t const bytes = codec.bytes(n);
    if (!found.expect(bytes >= 1, n, " values take ", bytes, " bytes, expected 1 or more")) continue;
    if (!found.expect(bytes == codec.bytes(n) && bytes == copy.bytes(n), n,
                      " values take another number of bytes when it is asked twice, or a copy"))
      continue;
    for (int round = 0; round < (n > 1000 ? 2 : 20); ++round) check_run(found, codec, copy, some_values(random, n));
    auto const zeros = read_back(codec, written(codec, std::vector<float>(n)), n);
    found.expect(std::all_of(zeros.begin(), zeros.end() - guard, [](float x) { return x == 0; }), n,
                 " zeros come back as something else");
    for (float const x : {0.75F, -0.75F}) {
      auto const alike = read_back(codec, written(codec, std::vector<float>(n, x)), n);
      found.expect(std::all_of(alike.begin(), alike.end() - guard, [x](float y) { return y * x > 0; }), n,
                   " values of ", x, " do not all come back with their sign");
    }
    std::vector<std::byte> any(bytes);
    for (std::byte& b : any) b = static_cast<std::byte>(random.below(256));
    (void)read_back(codec, any, n);  // a sanitizer sees what is wrong with it
  }
}

}  // namespace rubato::testing::detail
