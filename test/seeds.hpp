// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>

/// The seeds of property tests. Each test program takes
///   --seed N    run only seed N: what a failing test told you to repeat
///   --seeds N   run N seeds; from --seed on, if that is given too
///   --faults    of searches under faults: print how often each kind of fault happened
/// or the first two from the environment, as RUBATO_SEED and RUBATO_SEEDS; options win.
///
///     for (std::uint64_t i = 0; i < test::seed_count(500); ++i) {
///       std::uint64_t const seed = test::first_seed() + i;
///       INFO(test::repeat_by(seed));
namespace rubato::test {

/// How many seeds to run: `usual`, unless the caller of the program said otherwise. A sanitizer's
/// build usually runs a tenth of them, and one at least.
[[nodiscard]] std::uint64_t seed_count(std::uint64_t usual);

/// The first of them; 1 unless the caller of the program said otherwise.
[[nodiscard]] std::uint64_t first_seed();

/// What runs this seed alone of the test case that is running, and others of its file, as a sentence with the whole
/// command: "repeat by build/release/test/rubato-test-properties --from simulated/ssp_strict.cpp --seed 77".
[[nodiscard]] std::string repeat_by(std::uint64_t seed);

/// Whether this is a sanitizer's build. A long test of numbers, whose code others run there, may leave it out.
[[nodiscard]] bool sanitized();

/// What main() was given, as text; empty where it was given nothing.
struct seed_options {
  std::string first;
  std::string count;
  bool faults = false;
  std::string program = {};  ///< as it was called
  std::string file = {};     ///< below test/, of the test case that is running
};
seed_options& options();

}  // namespace rubato::test
