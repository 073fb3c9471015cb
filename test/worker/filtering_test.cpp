// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/filtering.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include <rubato/partition/locator.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/protocol/filter_rule.hpp>
#include <rubato/protocol/fragments.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/storage/update.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::values_of;

namespace {

using doubles = std::vector<double>;
using numbers = std::vector<std::uint64_t>;

/// Four rows of two on each of two servers.
locator const eight_rows{range{}, {8, 2}, true};

update_buffer whole(doubles const& values) { return update_buffer(test::whole(values)); }
update_buffer keyed(numbers rows, doubles const& values) {
  return update_buffer(test::keyed(std::move(rows), values));
}

detail::filtering<double> filtering_of(filter_rule f) { return {eight_rows, 2, std::move(f), worker_id{3}, {}}; }

/// Sends what differs from what the element's slot holds, and only if all of the commit is above 10.
struct differences {
  static constexpr std::size_t slots = 1, sums = 1;
  bool sends = false;

  template <std::floating_point T>
  [[nodiscard]] std::array<double, 1> measure(filter_point, T, T u, T last) const noexcept {
    return {static_cast<double>(std::abs(u - last))};
  }
  void decide(filter_point, std::array<double, 1> const& all) noexcept { sends = all[0] > 10; }
  template <std::floating_point T>
  [[nodiscard]] T send(filter_point, T, T& u, T& last) const noexcept {
    return sends ? u - std::exchange(last, std::exchange(u, T(0))) : T(0);
  }
};
static_assert(commit_filter<differences>);

}  // namespace

TEST_CASE("filtering: an element filter is told what was read, and what it leaves is carried", "[worker][filter]") {
  auto f = filtering_of(significance{.threshold = 0.5});
  doubles const read{1, 1, 1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 4, 4};
  f.saw_whole(read.data());
  f.begin(clock_index{0}, false);
  auto [sent, carried] = f.split(1, whole({1, 3, 1, 1, 0, 0, -3, 0}));  // above 2 of 4
  CHECK_FALSE(sent->whole);
  CHECK(sent->rows == numbers{0, 3});
  CHECK(values_of<double>(*sent) == doubles{0, 3, -3, 0});
  CHECK(carried->rows == numbers{0, 1});
  CHECK(values_of<double>(*carried) == doubles{1, 0, 1, 1});
}

TEST_CASE("filtering: what goes to a lazy merge is not padded with rows that do not go", "[worker][filter]") {
  for (bool const may_pad : {true, false}) {
    detail::filtering<double> f(eight_rows, 2, significance{.threshold = 0.5}, worker_id{3}, {}, may_pad);
    f.saw_whole(doubles(16, 1.0).data());
    f.begin(clock_index{0}, false);
    auto const parts = f.split(1, whole({3, 3, 3, 3, 0, 0, 3, 3}));
    CHECK(parts.sent->whole == may_pad);
    CHECK(parts.sent->rows == (may_pad ? numbers{} : numbers{0, 1, 3}));
    CHECK(f.split(1, whole(doubles(8, 3.0))).sent->whole);
  }
}

TEST_CASE("filtering: keyed updates are compared with their rows, and rows that were not read are sent",
          "[worker][filter]") {
  auto f = filtering_of(significance{.threshold = 0.5});
  doubles const read{100, 100, 1, 1};
  numbers const keys{6, 1};
  f.saw_rows(keys, read.data());
  f.begin(clock_index{0}, false);
  auto [sent, carried] = f.split(1, keyed({3, 2}, {1e-6, 0, 49, 51}));  // keys 7 and 6
  CHECK(sent->rows == numbers{3, 2});
  CHECK(values_of<double>(*sent) == doubles{1e-6, 0, 0, 51});
  CHECK(carried->rows == numbers{2});
  CHECK(values_of<double>(*carried) == doubles{49, 0});
  f.begin(clock_index{1}, true);  // the last one
  auto [last, nothing] = f.split(1, std::move(carried));
  CHECK(values_of<double>(*last) == doubles{49, 0});
  CHECK_FALSE(nothing);
}

TEST_CASE("filtering: a row filter sends rows as they are, those of zeros too, and no other", "[worker][filter]") {
  auto f = filtering_of(one_fragment{.fragments = 2});
  f.begin(clock_index{4}, false);
  auto [sent, carried] = f.split(1, whole({0, 0, 1, 1, 2, 2, 3, 3}));
  CHECK_FALSE(sent->whole);
  CHECK(sent->rows == numbers{0, 2});
  CHECK(values_of<double>(*sent) == doubles{0, 0, 2, 2});
  CHECK(carried->rows == numbers{1, 3});
  f.begin(clock_index{5}, false);
  auto [odd, even] = f.split(0, keyed({1, 2}, {5, 5, 6, 6}));
  CHECK(odd->rows == numbers{1});
  CHECK(even->rows == numbers{2});
  f.begin(clock_index{6}, true);
  CHECK(values_of<double>(*f.split(0, keyed({1}, {5, 5})).sent) == doubles{5, 5});
}

TEST_CASE("filtering: sums are of all servers' parts, slots stay from commit to commit", "[worker][filter]") {
  auto f = filtering_of(differences{});
  auto const commit = [&](std::int64_t clock, double x, double y) {
    auto one = whole(doubles(8, x)), two = whole(doubles(8, y));
    f.begin(clock_index{clock}, false);
    f.measure(0, *one);
    f.measure(1, *two);
    f.decide();
    std::vector<divided_update> both;
    both.push_back(f.split(0, std::move(one)));
    both.push_back(f.split(1, std::move(two)));
    return both;
  };
  CHECK(f.asks_all());
  auto const few = commit(0, 0.6, 0.6);  // 9.6 in all
  CHECK_FALSE(few[0].sent);
  CHECK(values_of<double>(*few[1].carried) == doubles(8, 0.6));
  auto const many = commit(1, 1, 2);
  CHECK(values_of<double>(*many[0].sent) == doubles(8, 1));
  CHECK(values_of<double>(*many[1].sent) == doubles(8, 2));
  CHECK_FALSE(many[1].carried);
  auto const more = commit(2, 1, 5);
  CHECK_FALSE(more[0].sent);  // zeros
  CHECK(values_of<double>(*more[1].sent) == doubles(8, 3));
}
