// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/peer_conformance.hpp>
//
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <rubato/peer/hop.hpp>
#include <string>

using namespace rubato;
using testing::sentences;

namespace {

bool complains_of(sentences const& all, std::string const& part) {
  return std::ranges::any_of(all, [&](auto const& s) { return s.find(part) != std::string::npos; });
}

constexpr testing::search few_runs{.schedules = 40};

/// All that live: a user's own, which no shipped one is.
struct gather_living {
  static constexpr keeping kept = keeping::by_iteration;
  static constexpr bool bounds_gap = true;
  static constexpr bool outlives_loss = true;
  [[nodiscard]] static constexpr std::size_t needed(std::size_t n) noexcept { return n; }
  [[nodiscard]] static constexpr iteration_index oldest(iteration_index k) noexcept { return k; }
};

/// A gather whose answers a test may bend.
template <bool BoundsGap = true, keeping Kept = keeping::newest>
struct bent_gather {
  std::size_t (*needs)(std::size_t) = [](std::size_t n) { return n; };
  std::int64_t (*since)(std::int64_t) = [](std::int64_t k) { return k - 2; };

  static constexpr keeping kept = Kept;
  static constexpr bool bounds_gap = BoundsGap;
  static constexpr bool outlives_loss = true;
  [[nodiscard]] std::size_t needed(std::size_t n) const noexcept { return needs(n); }
  [[nodiscard]] iteration_index oldest(iteration_index k) const noexcept {
    return iteration_index{since(k.value())};
  }
};

struct bent_reduce {
  double (*f)(update_info const&);
  [[nodiscard]] double weight(update_info const& u) const noexcept { return f(u); }
};

struct bent_jump {
  std::int64_t by = 0;
  static constexpr bool jumps = true;
  [[nodiscard]] std::int64_t jump(std::int64_t lag) const noexcept { return lag + by; }
};

}  // namespace

TEST_CASE("check_hop accepts what is shipped", "[testing][hop]") {
  auto const none = sentences{};
  CHECK(testing::check_hop(hop(), few_runs) == none);
  CHECK(testing::check_hop(hop(gather_all_but{2}, token_queues{1}, bounded_jump{}), few_runs) ==
        none);
  CHECK(testing::check_hop(hop(gather_newest{5}, reduce_plainly{}), few_runs) == none);
  CHECK(testing::check_hop(
            hop(gather_hybrid{2, 1}, token_queues{3}, bounded_jump{}, iteration_order::serial),
            few_runs) == none);
}

TEST_CASE("check_hop accepts a gather of the user's own", "[testing][hop]") {
  CHECK(testing::check_hop(hop(gather_living{}, token_queues{2}), few_runs) == sentences{});
}

TEST_CASE("check_gather accepts what is shipped, and catches each broken promise",
          "[testing][hop]") {
  CHECK(testing::check_gather(gather_all{}) == sentences{});
  CHECK(testing::check_gather(gather_all_but{3}) == sentences{});
  CHECK(testing::check_gather(gather_newest{0}) == sentences{});
  CHECK(testing::check_gather(gather_newest{7}) == sentences{});
  CHECK(testing::check_gather(gather_hybrid{4, 2}) == sentences{});
  CHECK(testing::check_gather(bent_gather{}) == sentences{});

  using bent = bent_gather<>;
  using loose = bent_gather<false>;
  auto const complaint_of = [](auto const& g, std::string const& part) {
    return complains_of(testing::check_gather(g), part);
  };
  CHECK(complaint_of(loose{[](std::size_t) { return std::size_t{0}; }}, "gather: needed is 0"));
  CHECK(complaint_of(loose{[](std::size_t n) { return n == 9 ? std::size_t{3} : n - 1; }},
                     "gather: needed(9) is 3, less than needed(8), which is 7"));
  CHECK(complaint_of(loose{[](std::size_t n) { return n + 1; }},
                     "gather: needed(1) is 2, expected at most 1"));
  CHECK(complaint_of(bent{[](std::size_t n) { return n - 1; }}, "bounds_gap"));
  CHECK(complaint_of(bent{.since = [](std::int64_t k) { return k + 1; }},
                     "gather: oldest(0) is 1, in the future"));
  CHECK(complaint_of(bent{.since = [](std::int64_t k) { return k == 9 ? std::int64_t{2} : k; }},
                     "gather: oldest(9) is 2, less than before"));
  CHECK(complaint_of(gather_newest{staleness::infinite()}, "finite staleness"));
  CHECK(complaint_of(bent_gather<true, keeping::by_iteration>{}, "kept by iteration"));
}

TEST_CASE("check_reduce accepts what is shipped, and catches weights that are none",
          "[testing][hop]") {
  CHECK(testing::check_reduce(reduce_by_mixing{}) == sentences{});
  CHECK(testing::check_reduce(reduce_by_age{}) == sentences{});
  CHECK(testing::check_reduce(reduce_plainly{}) == sentences{});
  auto const complaint_of = [](double (*f)(update_info const&), std::string const& part) {
    return complains_of(testing::check_reduce(bent_reduce{f}), part);
  };
  CHECK(complaint_of([](update_info const&) { return -1.0; },
                     "reduce: the weight of a peer's own update"));
  CHECK(complaint_of([](update_info const& u) { return u.from == u.to ? 1.0 : -0.5; },
                     "reduce: the weight of a neighbor's update"));
  CHECK(complaint_of([](update_info const&) { return std::numeric_limits<double>::quiet_NaN(); },
                     "expected a finite number"));
  // What a weight by the age looks like before it is tested: nothing for what is just in time.
  CHECK(
      complaint_of([](update_info const& u) { return u.from == u.to ? 0.0 : 1.0; }, "more than 0"));
  CHECK(complaint_of(
      [](update_info const& u) { return 1.0 / static_cast<double>(distance(u.made, u.now)); },
      "reduce: "));
}

TEST_CASE("check_gap and check_jump", "[testing][hop]") {
  CHECK(testing::check_gap(free_gap{}) == sentences{});
  CHECK(testing::check_gap(notify_ack{}) == sentences{});
  CHECK(testing::check_gap(token_queues{1}) == sentences{});
  CHECK(complains_of(testing::check_gap(token_queues{0}), "gap: gap_max is 0"));
  CHECK(testing::check_jump(no_jump{}) == sentences{});
  CHECK(testing::check_jump(bounded_jump{}) == sentences{});
  CHECK(testing::check_jump(bounded_jump{.trigger = 5, .iterations_max = 3}) == sentences{});
  CHECK(testing::check_jump(bent_jump{}) == sentences{});
  CHECK(complains_of(testing::check_jump(bent_jump{1}),
                     "jump: jump(2) is 3, expected at most 2: beyond"));
  CHECK(
      complains_of(testing::check_jump(bounded_jump{.trigger = 1}), "jump: bounded_jump: trigger"));
}

TEST_CASE("check_hop catches in runs what a policy does not keep to", "[testing][hop]") {
  using loose = bent_gather<false>;
  // Waits for more than there is: an error of every run.
  auto const waits =
      testing::check_hop(hop(loose{[](std::size_t n) { return n + 1; }}, token_queues{}), few_runs);
  CHECK(complains_of(waits, "gather: needed"));
  CHECK(complains_of(waits, "schedule 1: hop: node 0"));
  // Says that all are waited for, and waits for one less.
  auto const hurries = testing::check_hop(
      hop(bent_gather<>{[](std::size_t n) { return n < 2 ? n : n - 1; }}), few_runs);
  CHECK(complains_of(hurries, "gather: needed(2) is 1, but bounds_gap"));
  CHECK(complains_of(hurries, "(HOP-2)"));
  CHECK(complains_of(hurries, "schedule "));
  // Waits for updates of an iteration that nobody is in.
  auto const foresees = testing::check_hop(
      hop(bent_gather<>{.since = [](std::int64_t k) { return k + 1; }}, reduce_plainly{}),
      few_runs);
  CHECK(complains_of(foresees, "in the future"));
  CHECK(complains_of(foresees, "deadlock"));
  // Averages that are none.
  auto const negative = testing::check_hop(
      hop(bent_reduce{[](update_info const& u) { return u.from == u.to ? 3.0 : -1.0; }}), few_runs);
  CHECK(complains_of(negative, "reduce: "));
  CHECK(complains_of(negative, "must be 0 or more"));
}

TEST_CASE("check_hop gives each peer as many neighbors as the gather waits for", "[testing][hop]") {
  CHECK(testing::check_hop(hop(gather_all_but{7}, token_queues{2}, bounded_jump{}),
                           {.schedules = 5}) == sentences{});
  // None has so many: nothing is run.
  auto const never = testing::check_hop(
      hop(bent_gather<false>{[](std::size_t) { return std::size_t{0}; }}, token_queues{}),
      few_runs);
  CHECK(complains_of(never, "gather: needed is 0"));
  CHECK_FALSE(complains_of(never, "schedule "));
}
