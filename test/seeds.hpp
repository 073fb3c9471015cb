// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>

/// The seeds of property tests. Each test program takes
///   --seed N    run only seed N: what a failing test told you to repeat
///   --seeds N   run N seeds; from --seed on, if that is given too
/// or the same from the environment, as RUBATO_SEED and RUBATO_SEEDS; options win.
///
///     for (std::uint64_t i = 0; i < test::seed_count(500); ++i) {
///       std::uint64_t const seed = test::first_seed() + i;
///       INFO("repeat with --seed " << seed);
namespace rubato::test {

/// How many seeds to run: `usual`, unless the caller of the program said otherwise. A sanitizer's
/// build usually runs a tenth of them, and one at least.
[[nodiscard]] std::uint64_t seed_count(std::uint64_t usual);

/// The first of them; 1 unless the caller of the program said otherwise.
[[nodiscard]] std::uint64_t first_seed();

/// Whether this is a sanitizer's build. A long test of numbers, whose code others run there, may leave it out.
[[nodiscard]] bool sanitized();

/// What main() was given, as text; empty where it was given nothing.
struct seed_options {
  std::string first;
  std::string count;
};
seed_options& options();

}  // namespace rubato::test
