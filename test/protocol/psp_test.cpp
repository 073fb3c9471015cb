// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/psp.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <rubato/server/agreement.hpp>
#include <rubato/testing/check_policies.hpp>

using namespace rubato;

namespace {

/// Answers by how often it has been asked.
struct fickle : unbounded {
  mutable bool last = false;
  [[nodiscard]] bool heeds(worker_id, worker_id, clock_index) const noexcept { return last = !last; }
};

}  // namespace

TEST_CASE("a sample has as many of the others as it is to, all of them equally often, drawn anew each clock",
          "[protocol][psp]") {
  using sizes = std::pair<std::uint32_t, std::uint32_t>;
  for (auto const& [count, of] : std::vector<sizes>{{1, 3}, {2, 6}, {5, 9}, {10, 100}}) {
    sampled_staleness const p{{}, 0, count, of, 1}, other{{}, 0, count, of, 2};
    worker_id const reader{of / 2};
    std::vector<int> times(of);
    std::set<std::vector<bool>> samples;
    bool differ = false;
    constexpr int clocks = 3000;
    for (int c = 0; c < clocks; ++c) {
      std::vector<bool> in;
      std::uint32_t drawn = 0;
      for (std::uint32_t w = 0; w < of; ++w) {
        bool const heeds = w != reader.value() && p.heeds(reader, worker_id{w}, clock_index{c});
        in.push_back(heeds);
        drawn += heeds ? 1 : 0;
        times[w] += heeds ? 1 : 0;
        differ = differ || (w != reader.value() && heeds != other.heeds(reader, worker_id{w}, clock_index{c}));
      }
      REQUIRE(drawn == count);
      samples.insert(in);
    }
    double const expected = clocks * static_cast<double>(count) / (of - 1);
    for (std::uint32_t w = 0; w < of; ++w)
      if (w != reader.value()) CHECK(std::abs(times[w] - expected) < 5 * std::sqrt(expected));
    CHECK(differ);
    CHECK(samples.size() > 1);
  }
}

TEST_CASE("readers draw their own samples; of nobody and of all there is nothing to draw", "[protocol][psp]") {
  sampled_staleness const p{{}, 0, 5, 11, 1};
  int alike = 0;
  for (int c = 0; c < 1000; ++c)
    alike += p.heeds(worker_id{0}, worker_id{9}, clock_index{c}) == p.heeds(worker_id{1}, worker_id{9}, clock_index{c});
  CHECK(std::abs(alike - 500) < 100);
  CHECK(sampled_staleness{{}, 0, 10, 11, 1}.heeds(worker_id{3}, worker_id{4}, clock_index{7}));
  CHECK(sampled_staleness{{}, 0, 1, 1, 1}.heeds(worker_id{0}, worker_id{1}, clock_index{7}));
  CHECK_FALSE(sampled_staleness{{}, 0, 0, 11, 1}.heeds(worker_id{3}, worker_id{4}, clock_index{7}));
}

TEST_CASE("a sample conforms, and an admission that changes its mind does not", "[protocol][psp]") {
  CHECK(testing::check_admission(psp{.staleness = 2, .sample = 3, .of = 10}.admission()).empty());
  auto const said = testing::check_admission(fickle{});
  REQUIRE_FALSE(said.empty());
  CHECK_THAT(said.front(), Catch::Contains("heeds answers differently"));
}

TEST_CASE("processes see whether they draw the same samples", "[protocol][psp]") {
  auto const number = [](std::uint32_t sample, std::uint64_t seed) {
    return fingerprint(admission_rule(psp{.staleness = 2, .sample = sample, .of = 10, .seed = seed}.admission()));
  };
  CHECK(number(3, 1) == number(3, 1));
  CHECK(number(3, 1) != number(4, 1));
  CHECK(number(3, 1) != number(3, 2));
  CHECK(number(9, 1) == number(9, 2));
}
