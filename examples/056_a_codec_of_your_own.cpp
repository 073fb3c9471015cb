// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A codec of one's own: one bit for a value, its sign, and the mean magnitude of all. Prints what the conformance test
// says, and beside the library's codecs how much is sent and how far from the end training ends: what a codec takes away
// from an update goes with the next one.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <span>
#include <vector>

namespace rb = rubato;

struct signs {
  static std::size_t bytes(std::size_t n) noexcept { return sizeof(float) + (n + 7) / 8; }

  static void encode(std::span<float const> values, std::span<std::byte> to) noexcept {
    double sum = 0;  // of floats that are all as large it is exact, so that what is rounded once stays
    for (float const x : values) sum += std::isfinite(x) ? std::abs(x) : 0.0F;
    auto const mean = static_cast<float>(sum / static_cast<double>(values.size()));
    std::memcpy(to.data(), &mean, sizeof mean);
    for (std::byte& b : to.subspan(sizeof mean)) b = std::byte{0};
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::signbit(values[i])) to[sizeof mean + i / 8] |= std::byte{1} << (i % 8);
  }

  static void decode(std::span<std::byte const> from, std::span<float> to) noexcept {
    float mean = 0;
    std::memcpy(&mean, from.data(), sizeof mean);
    for (std::size_t i = 0; i < to.size(); ++i) {
      bool const negative = (from[sizeof mean + i / 8] & (std::byte{1} << (i % 8))) != std::byte{0};
      to[i] = negative ? -mean : mean;
    }
  }
};
static_assert(rb::codec<signs>);

void train(char const* name, rb::table_codec const& codec) {
  constexpr std::size_t rows = 1000;
  rb::cluster cluster{rb::simulated{.workers = 4, .servers = 2}, rb::bsp{},
                      rb::dense<float>{.rows = rows, .codec = codec}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(rows), delta(rows);
    for (int clock = 0; clock < 200; ++clock) {
      worker.pull(w);
      for (std::size_t i = 0; i < rows; ++i)  // parameter i goes to 1 + i % 7
        delta[i] = 0.05F * (static_cast<float>(1 + i % 7) - w[i]);
      worker.push(delta);
      worker.step();
    }
  });
  double left = 0;
  std::vector<float> const w = cluster.parameters();
  for (std::size_t i = 0; i < rows; ++i) left += std::abs(static_cast<double>(1 + i % 7) - double{w[i]});
  std::printf("%-28s %4llu kB sent, %4llu received, %.3f from the end on average\n", name,
              static_cast<unsigned long long>(report.total().bytes_sent / 1000),
              static_cast<unsigned long long>(report.total().bytes_received / 1000), left / rows);
}

int main() {
  auto const violations = rb::testing::check_codec(signs{});
  std::printf("%zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());
  train("as they are", {});
  train("bfloat16", {.updates = rb::bfloat16{}, .answers = rb::bfloat16{}});
  train("int8", {.updates = rb::int8_blocks{}, .answers = rb::int8_blocks{}});
  train("signs, and bfloat16 answers", {.updates = signs{}, .answers = rb::bfloat16{}});
}
