// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The processes of a run, by the code that runs over TCP, in a network that fails as each seed draws. Longer
// searches, as `rubato-test-properties --from simulated/processes_under_faults.cpp --seeds 100000 --faults`, are for
// before a release.
#include <catch2/catch.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <rubato/core/rare.hpp>

#include "seeds.hpp"
#include "simulated/search.hpp"
#include "simulated/under_faults.hpp"

using namespace rubato;

// Some rules of a server no search can see broken where processes are honest, since others stand before them. A commit
// is checked for its sender's life, for a sender that was lost and for its stamp, but
//
// - one link carries the commits of a life, each once and in the order sent, so that stamps come in order;
// - at each server the word that freezes the workers of a lost life is followed by the one that ends that life's
//   sessions, and only then by the one that lets in the next life, whose sessions need a proof with a secret of its
//   own: so nothing comes from a life that is over;
// - even if it did, the stamp would have to be the next one of a life that began at a clock of its own.
//
// Therefore some workers lie (`fault::liars`): a life or a stamp that is believed shows within a thousand seeds by what
// tables hold, and a refused commit that takes memory at once. What even a liar cannot show here, as it would have to
// be given up just while a commit arrives, are rows of such a commit that stay its own: that is for
// server_limits_test.cpp.
TEST_CASE("runs of several processes keep their rules under faults, and all that seldom happens does",
          "[simulated][processes]") {
  constexpr std::uint64_t usual = 4000;
  std::uint64_t const seeds = test::seed_count(usual);
  test::search_tally tally;
  for (std::uint64_t i = 0; i < seeds; ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    testing::trial_result const r = test::watched_trial(seed).run();
    if (!r.found.empty()) FAIL(r.text());
    tally.add(r);
  }
  tally.tell("processes under faults");
  if (seeds < usual) return;
  CHECK(tally.well() > seeds / 4);
  CHECK(tally.harmful() > seeds / 8);
  CHECK(test::never_reached(rare_paths(), test::paths_of::others) == std::vector<std::string>{});
}

// Once in some hundred thousand. As long as seeds draw what they drew then.
TEST_CASE("seeds that longer searches have found something by find it no more", "[simulated][processes]") {
  std::uint64_t const seed = GENERATE(
      100'778U,   // a life that began anew took along versions that a commit of the last one needed
      138'747U,   // an impostor of the coordinator was killed, and the search blamed a server
      656'457U,   // a farewell stood behind hundreds of acknowledgements for too long
      3'203'944U,   // two came for one place, and the search took the first for one that nobody had replaced
      3'270'990U);  // whose connection broke again and again was refused for being late to say who it is
  testing::trial_result const r = test::watched_trial(seed).run();
  INFO(r.text());
  CHECK(r.found.empty());
}

TEST_CASE("runs whose workers renew their copies keep their rules under faults", "[simulated][processes][essp]") {
  for (std::uint64_t i = 0; i < test::seed_count(400); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    testing::trial_result const r = test::watched_trial(seed, true).run();
    if (!r.found.empty()) FAIL(r.text());
  }
}

TEST_CASE("a run of several processes under faults is decided by its seed", "[simulated][processes]") {
  for (std::uint64_t seed = test::first_seed(); seed < test::first_seed() + 20; ++seed) {
    testing::trial_result const once = test::watched_trial(seed).run();
    testing::trial_result const again = test::watched_trial(seed).run();
    INFO("seed " << seed);
    CHECK(once.hash == again.hash);
    CHECK(once.events == again.events);
    CHECK(once.story == again.story);
  }
}
