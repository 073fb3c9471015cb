// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/rounds.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <rubato/protocol/discount.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/fed_buff.hpp>
#include <rubato/protocol/k_async.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/staleness_aware.hpp>
#include <rubato/server/agreement.hpp>
#include <rubato/testing/check_policies.hpp>

using namespace rubato;

namespace {

commit_info of_age(std::uint64_t age, std::uint32_t workers = 4) {
  commit_info c{};
  c.workers = workers;
  c.age = age;
  return c;
}

/// In a hundred rounds or so it leaves out worker 3 altogether.
struct forgets_one : unbounded {
  static constexpr bool by_round = true;
  [[nodiscard]] bool takes_part(worker_id w, version_index) const noexcept { return w.value() != 3; }
};

}  // namespace

TEST_CASE("as many are drawn as are to be, all of them equally often, and others by another seed",
          "[protocol][rounds]") {
  for (auto const& [count, of] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 2}, {2, 5}, {3, 4}, {10, 100}, {7, 7}}) {
    sampled const one{{}, count, of, 1}, other{{}, count, of, 2};
    std::vector<int> times(of);
    std::set<std::vector<bool>> draws;
    bool differ = false;
    constexpr int rounds = 3000;
    for (int r = 0; r < rounds; ++r) {
      std::vector<bool> in;
      std::uint32_t drawn = 0;
      for (std::uint32_t w = 0; w < of; ++w) {
        in.push_back(one.takes_part(worker_id{w}, version_index{r}));
        drawn += in.back() ? 1 : 0;
        times[w] += in.back() ? 1 : 0;
        differ = differ || in.back() != other.takes_part(worker_id{w}, version_index{r});
      }
      REQUIRE(drawn == count);
      draws.insert(in);
    }
    double const expected = rounds * static_cast<double>(count) / of;
    for (int const t : times) CHECK(std::abs(t - expected) < 5 * std::sqrt(expected) + 1);
    CHECK(differ == (count < of));
    CHECK((count == of || draws.size() > 1));
    CHECK(one.takes_part(worker_id{of + 1}, version_index{5}) == one.takes_part(worker_id{1 % of}, version_index{5}));
  }
}

TEST_CASE("a discount goes by the age", "[protocol][rounds]") {
  CHECK(discount{}.weight(of_age(0)) == 1);
  CHECK(discount{}.weight(of_age(1)) == 1);
  CHECK(discount{}.weight(of_age(4)) == 0.25);
  discount const buffer = fed_buff{}.merge();
  CHECK(buffer.weight(of_age(0)) == 0.25);
  CHECK(buffer.weight(of_age(3)) == 0.125);
  CHECK(discount{.power = 0}.weight(of_age(9)) == 1);
}

TEST_CASE("policies of rounds conform, and one that leaves a worker out for ever does not",
          "[protocol][rounds]") {
  CHECK(testing::check_admission(each_round{}).empty());
  CHECK(testing::check_admission(sampled{{}, 2, 9, 1}).empty());
  CHECK(testing::check_visibility(quorum{.count = 3}).empty());
  CHECK(testing::check_visibility(buffered{.count = 3}).empty());
  CHECK(testing::check_visibility(quorum{.count = 0}).size() == 1);
  CHECK(testing::check_merge(discount{.power = 0.5, .offset = 1, .averaged = true}).empty());
  auto const said = testing::check_admission(forgets_one{});
  REQUIRE(said.size() == 1);
  CHECK_THAT(said.front(), Catch::Contains("worker 3 takes part in none"));
}

TEST_CASE("processes see whether they mean the same rounds", "[protocol][rounds]") {
  staleness const any = staleness::infinite();
  CHECK(fingerprint(visibility_rule(quorum{2}), any) == fingerprint(visibility_rule(quorum{2}), any));
  CHECK(fingerprint(visibility_rule(quorum{2}), any) != fingerprint(visibility_rule(quorum{3}), any));
  CHECK(fingerprint(visibility_rule(quorum{2}), any) != fingerprint(visibility_rule(buffered{2}), any));
  CHECK(fingerprint(admission_rule(each_round{})) != fingerprint(admission_rule(unbounded{})));
  CHECK(fingerprint(admission_rule(sampled{{}, 2, 9, 1})) != fingerprint(admission_rule(sampled{{}, 2, 9, 2})));
  CHECK(fingerprint(merge_rule(discount{}), any) != fingerprint(merge_rule(discount{.power = 0.5}), any));
}
