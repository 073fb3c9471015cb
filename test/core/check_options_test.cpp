// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/check_options.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <rubato/core/error.hpp>
#include <rubato/partition/partition_rule.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/hop_rules.hpp>
#include <rubato/protocol/adam.hpp>
#include <rubato/protocol/async_diloco.hpp>
#include <rubato/protocol/dc_asgd.hpp>
#include <rubato/protocol/discount.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/lag.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/nesterov.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/slow_mo.hpp>
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
  CHECK_THROWS_WITH(rules(dc_asgd{.fold = {.lambda = std::nan("")}}), Contains("compensation: lambda is"));
  CHECK_THROWS_WITH(merge_rule(compensate_adaptive{.forget = 2}), Contains("compensation: forget is 2, expected 0 or"));
}

namespace {
/// Its bound cannot be one, and it says so first.
struct bounded_below {
  std::int64_t s = -1;
  void check() const { detail::expect_option(s >= 0, "bounded_below: s", s, "0 or more"); }
  [[nodiscard]] staleness bound() const noexcept { return staleness{s}; }
  [[nodiscard]] clock_index need(clock_index c, staleness) const noexcept { return c; }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness) const noexcept { return c; }
};
/// So with a partition, and parts of Hop.
struct nowhere {
  void check() const { throw option_error("nowhere: it has no server"); }
  [[nodiscard]] server_id server_of(key, table_shape) const { return {}; }
};
struct gather_nobody : gather_all {
  void check() const { throw option_error("gather_nobody: it gathers from nobody"); }
};
}  // namespace

TEST_CASE("options are checked before a policy is asked anything, of whatever kind it is", "[protocol]") {
  CHECK_THROWS_WITH(admission_rule(bounded_below{}), Contains("bounded_below: s is -1, expected 0 or more"));
  CHECK_NOTHROW(admission_rule(bounded_below{.s = 0}));
  CHECK_THROWS_WITH(partition_rule(nowhere{}), Contains("nowhere: it has no server"));
  CHECK_THROWS_WITH(hop_rules(hop(gather_nobody{})), Contains("it gathers from nobody"));
}

TEST_CASE("options of steps that would leave all bounds are refused, by name", "[protocol]") {
  auto const refused = [](auto const& merge, char const* why) {
    CHECK_THROWS_WITH(merge_rule(merge), Contains(why));
  };
  refused(momentum{.mu = 1.5}, "momentum: mu is 1.5, expected above -1, and at most 1");
  refused(momentum{.mu = std::nan("")}, "momentum: mu is");
  refused(momentum{.mu = -1}, "momentum: mu is -1");
  refused(momentum{.eta = infinite}, "momentum: eta is inf, expected a finite number");
  refused(scale{.lambda = std::nan("")}, "scale: lambda is");
  refused(slow_momentum{.beta = 1}, "slow_momentum: beta is 1");
  refused(slow_momentum{.alpha = infinite}, "slow_momentum: alpha is inf, expected a finite number");
  refused(nesterov{.mu = 2}, "nesterov: mu is 2");
  refused(nesterov{.rate = std::nan("")}, "nesterov: rate is");
  refused(adam{.beta1 = 1}, "adam: beta1 is 1");
  refused(yogi{.beta2 = -1}, "yogi: beta2 is -1");
  refused(adagrad{.tau = 0}, "adagrad: tau is 0, expected above 1e-30, finite");
  refused(adam{.rate = -infinite}, "adam: rate is -inf");
  refused(elastic{.alpha = 1}, "elastic: alpha is 1, expected above 0, and below 1");
  refused(elastic{.alpha = 0}, "elastic: alpha is 0");
  refused(elastic{.beta = 0}, "elastic: beta is 0");
  refused(discount{.power = -2}, "discount: power is -2, expected 0 or more");
  refused(discount{.offset = -1}, "discount: offset is -1, expected above -1");
  refused(delayed_nesterov{.buffer = -1}, "delayed_nesterov: buffer is -1");
  refused(delayed_nesterov{.buffer = 4, .activation = 0.3}, "delayed_nesterov: activation is 0.3, expected 0 to 1/N");
  refused(delayed_nesterov{.mu = 1}, "delayed_nesterov: mu is 1");
  for (double const mu : {-0.5, 0.0, 1.0}) CHECK_NOTHROW(merge_rule(momentum{.mu = mu}));
  CHECK_NOTHROW(merge_rule(delayed_nesterov{.buffer = 4, .activation = 0.25}));
  CHECK_NOTHROW(merge_rule(discount{.power = 0, .offset = -0.5}));
}

TEST_CASE("an admission that draws among the workers must be told how many there are", "[protocol]") {
  CHECK_THROWS_WITH(rules(psp{}), Contains("of is 0, expected the number of workers that the run begins with"));
  CHECK_THROWS_WITH(rules(fed_avg{}), Contains("sampled: of is 0"));
  CHECK_THROWS_WITH(rules(fed_avg{.clients = 3, .of = 2}), Contains("sampled: count is 3, expected 1 or more"));
  CHECK_THROWS_WITH(rules(fed_avg{.clients = 0, .of = 2}), Contains("sampled: count is 0"));
  CHECK_THROWS_WITH(rules(dssp{.low = 9, .high = 2}), Contains("low is 9, expected at most high"));
  CHECK(rules(psp{.of = 7}).admission.run_workers() == 7);
  CHECK(rules(fed_avg{.clients = 2, .of = 5}).admission.run_workers() == 5);
  CHECK(rules(ssp{}).admission.run_workers() == 0);
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
