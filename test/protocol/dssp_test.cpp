// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/dssp.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

#include <rubato/protocol/rules.hpp>
#include <rubato/server/agreement.hpp>
#include <rubato/testing/check_policies.hpp>

using namespace rubato;

namespace {

constexpr predicted_staleness policy{2, 14};

/// Two commits of a worker, so many seconds apart, the last one at `last`.
commit_times committing(double interval, double last) {
  return {time_point(seconds(last - interval)), time_point(seconds(last))};
}

/// Grants more than it may.
struct generous : predicted_staleness {
  [[nodiscard]] std::int64_t extra(commit_times const&, commit_times const&, std::int64_t most) const noexcept {
    return most + 1;
  }
};

}  // namespace

TEST_CASE("as many clocks more bring a worker closest to a commit of the slowest one", "[protocol][dssp]") {
  // The next commits of the slowest are at 110, 120, …, those of the reader at 103, 106, 109, …
  CHECK(policy.extra(committing(3, 100), committing(10, 100), 12) == 10);  // 130 and 130
  CHECK(policy.extra(committing(3, 100), committing(10, 100), 9) == 3);    // 109 and 110
  CHECK(policy.extra(committing(3, 100), committing(10, 100), 2) == 2);    // 106 and 110
  CHECK(policy.extra(committing(20, 100), committing(10, 95), 12) == 0);   // 100 and 105; 120 is as far from 115
  CHECK(policy.extra(committing(4, 100), committing(10, 92), 12) == 3);    // 112 and 112
  CHECK(policy.extra(committing(4, 100), committing(10, 90), 12) == 0);    // 100 and 100
  CHECK(policy.extra(committing(0, 100), committing(10, 95), 12) == 0);
  CHECK(policy.extra(committing(1, 100), committing(0, 100), 12) == 0);
  CHECK(policy.extra(committing(1, 100), committing(10, 100), 0) == 0);
}

TEST_CASE("DSSP waits as SSP does with s_L, and promises what SSP does with s_U", "[protocol][dssp]") {
  CHECK(policy.bound() == staleness{14});
  CHECK(policy.need(clock_index{20}, policy.bound()) == clock_index{18});
  CHECK(policy.need(clock_index{20}, 1) == clock_index{19});
  CHECK_THROWS_AS(rules(dssp{.low = 5, .high = 3}), option_error);
}

TEST_CASE("a prediction conforms, and who grants more than it may does not", "[protocol][dssp]") {
  CHECK(testing::check_admission(policy).empty());
  auto const said = testing::check_admission(generous{{2, 14}});
  REQUIRE_FALSE(said.empty());
  CHECK_THAT(said.front(), Catch::Contains("extra is") && Catch::Contains("expected 0 to"));
}

TEST_CASE("processes see whether they extend alike", "[protocol][dssp]") {
  CHECK(fingerprint(admission_rule(policy)) == fingerprint(admission_rule(policy)));
  CHECK(fingerprint(admission_rule(policy)) != fingerprint(admission_rule(generous{{2, 14}})));
  CHECK(fingerprint(admission_rule(policy)) != fingerprint(admission_rule(predicted_staleness{2, 13})));
}
