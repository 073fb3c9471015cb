// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/check_options.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/lag.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/streaming_diloco.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/storage/codec.hpp>

using namespace rubato;
using Catch::Contains;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A pace of one's own with something to check.
struct every_so_often {
  std::int64_t steps = 1;
  void check() const { detail::expect_option(steps < 10, "every_so_often: steps", steps, "less than 10"); }
  [[nodiscard]] commit_due due(pace_point const&) const noexcept { return {.steps = steps}; }
};
static_assert(pace_policy<every_so_often>);

/// The same of reads, and of a codec.
struct renewing_after {
  std::int64_t clocks = 1;
  void check() const { detail::expect_option(clocks >= 0, "renewing_after: clocks", clocks, "0 or more"); }
  [[nodiscard]] bool renews(read_point at) const noexcept { return at.age.clocks() > clocks; }
};
static_assert(read_policy<renewing_after>);
struct nothing_of {
  std::size_t each = 1;
  void check() const { detail::expect_option(each >= 1, "nothing_of: bytes", each, "1 or more"); }
  [[nodiscard]] std::size_t bytes(std::size_t n) const noexcept { return n * each; }
  void encode(std::span<float const>, std::span<std::byte>) const noexcept {}
  void decode(std::span<std::byte const>, std::span<float>) const noexcept {}
};
static_assert(codec<nothing_of>);

}  // namespace

TEST_CASE("options that no policy can mean are refused when its protocol is used, by name", "[protocol]") {
  CHECK_THROWS_WITH(rules(streaming_diloco{.steps = 4, .fragments = 0}), Contains("fragments is 0, expected 1"));
  CHECK_THROWS_WITH(rules(streaming_diloco{.steps = 4, .fragments = 5}), Contains("staggered: steps is 4"));
  CHECK_THROWS_WITH(rules(streaming_diloco{.steps = std::int64_t{1} << 62}), Contains("staggered: steps is 4611686"));
  CHECK_NOTHROW(rules(streaming_diloco{.steps = 4, .fragments = 4}));
  CHECK_THROWS_WITH(rules(lag{.window = -5}), Contains("lazy_upload: window is -5, expected 1 or more"));
  CHECK_THROWS_WITH(rules(lag{.window = 0}), Contains("window is 0"));
  CHECK_THROWS_WITH(rules(lag{.trigger = infinite}), Contains("trigger is inf"));
  CHECK_THROWS_WITH(rules(gaia{.significant = {.threshold = -1}}), Contains("significance: threshold is -1"));
  CHECK_THROWS_WITH(rules(vap{.first = std::nan("")}), Contains("bounded_value: first is"));
  CHECK_THROWS_WITH(rules(dssp{.low = 1, .high = 1'000'001}), Contains("less than a million above low"));
  CHECK_NOTHROW(rules(dssp{.low = 1, .high = 1'000'000}));
  CHECK_THROWS_WITH(rules(dc_asgd{.fold = {.rate = 0}}), Contains("compensation: rate is 0, expected"));
  CHECK_THROWS_WITH(rules(dc_asgd{.fold = {.rate = 1e-31}}), Contains("compensation: rate is 1e-31, expected"));
  CHECK_THROWS_AS(rules(dc_asgd{.fold = {.rate = infinite}}), option_error);
}

TEST_CASE("a policy's options are checked wherever it becomes a value", "[protocol]") {
  CHECK_THROWS_AS(pace_rule(every_so_often{12}), option_error);
  CHECK_THROWS_WITH(with(rules(ssp{}), every_so_often{12}), Contains("steps is 12, expected less than 10"));
  CHECK_THROWS_AS(merge_rule(compensate{.rate = -1}), option_error);
  CHECK_THROWS_AS(admission_rule(bounded_value{{}, -1}), option_error);
  CHECK_THROWS_AS(filter_rule(one_fragment{0}), option_error);
  CHECK_THROWS_AS(with(rules(ssp{}), renewing_after{-1}), option_error);
  CHECK_THROWS_WITH(codec_rule(nothing_of{0}), Contains("nothing_of: bytes is 0, expected 1 or more"));
  CHECK_NOTHROW(with(rules(ssp{}), every_so_often{9}));
}

TEST_CASE("a compensated update is a number at any learning rate", "[protocol]") {
  float const u = 1e-26F;
  CHECK(compensate{.rate = 1e-25}.step(fold_step{}, 1.0F, u, 1.0F) == u);
  float mean = 0;
  CHECK(std::isfinite(compensate_adaptive{.rate = 1e-25}.step(fold_step{}, 1.0F, u, 0.5F, mean)));
}
