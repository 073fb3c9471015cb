// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/commit_filter.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/lag.hpp>
#include <rubato/protocol/mean_of_latest.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rounds.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/streaming_diloco.hpp>
#include <rubato/server/agreement.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/testing/conformance.hpp>

using namespace rubato;

namespace {

filter_point point_at(std::int64_t clock) { return {clock_index{clock}, worker_id{0}}; }

/// Row 5 never goes, of one worker or of all.
struct forgets_row {
  std::optional<worker_id> whose{};
  [[nodiscard]] bool takes(filter_point at, key row) const noexcept {
    return row.value() != 7 * 25 || (whose && at.worker != *whose);
  }
};
struct sends_nan {
  static constexpr std::size_t slots = 0;
  worker_id whose;
  template <std::floating_point T>
  [[nodiscard]] T send(filter_point at, T, T& u) const noexcept {
    return at.worker == whose ? std::numeric_limits<T>::quiet_NaN() : std::exchange(u, T(0));
  }
};
struct sends_what_is_not_there {
  static constexpr std::size_t slots = 0;
  template <std::floating_point T>
  [[nodiscard]] T send(filter_point, T, T& u) const noexcept {
    return std::exchange(u, T(0)) + 1;
  }
};
/// Copies share what they count.
struct counts_calls {
  static constexpr std::size_t slots = 0;
  int* calls;
  template <std::floating_point T>
  [[nodiscard]] T send(filter_point, T, T& u) const noexcept {
    return ++*calls % 3 == 0 ? std::exchange(u, T(0)) : T(0);
  }
};
static_assert(commit_filter<forgets_row> && commit_filter<sends_what_is_not_there> && commit_filter<counts_calls>);

/// The sentence that refuses a table.
template <class Table>
std::string refused(rules const& p, Table const& table) {
  try {
    blueprint const plan(p, 1, {describe(table)});
  } catch (option_error const& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a protocol without a filter has none, and others keep theirs when another part is replaced",
          "[protocol][filter]") {
  static_assert(std::same_as<decltype(filter_of(bsp{})), send_all>);
  static_assert(std::same_as<decltype(with(gaia{}, every{10}, average{}).filter()), significance>);
  static_assert(std::same_as<decltype(with(bsp{}, one_fragment{}).filter()), one_fragment>);
  static_assert(std::same_as<decltype(with(gaia{}, send_all{}).filter()), send_all>);
  CHECK_FALSE(rules(bsp{}).filter);
  REQUIRE(rules(gaia{}).filter);
  CHECK(with(rules(bsp{}), one_fragment{}).filter->by_row());
  CHECK_FALSE(with(rules(gaia{}), send_all{}).filter);
  CHECK(rules(lag{}).filter->slots() == 2);
  CHECK(rules(lag{}).filter->sums() == 2);
}

TEST_CASE("significance: the bound is v/sqrt(t) of the parameter, and what is sent or carried is all",
          "[protocol][filter]") {
  significance const f{.threshold = 0.5};
  for (std::int64_t const clock : {0, 1, 3, 8, 99})
    for (double const w : {2.0, -2.0, 1e-3})
      for (double const share : {0.1, 0.99, 1.01, 5.0}) {
        double const pushed = w * share * 0.5 / std::sqrt(static_cast<double>(clock + 1));
        double u = pushed;
        double const sent = f.send(point_at(clock), w, u);
        CHECK(sent == (share > 1 ? pushed : 0));
        CHECK(u == (share > 1 ? 0 : pushed));
      }
  for (double const w : {0.0, std::nan("")}) {
    double u = 1e-9;
    CHECK(f.send(point_at(0), w, u) == 1e-9);
    CHECK(u == 0);
  }
  auto const sent = [&f](double w, double pushed) { return f.send(point_at(0), w, pushed) != 0; };
  CHECK(sent(0, 1e-170));
  CHECK(sent(1e-170, 1e-170));
  CHECK_FALSE(sent(1e-170, 1e-171));
  CHECK(sent(1e160, 1e170));
  CHECK_FALSE(sent(1e200, 1e170));
  double u = std::nan("");
  CHECK(std::isnan(f.send(point_at(0), 1.0, u)));
  float small = 1e-3F;
  CHECK(significance{.threshold = 0}.send(point_at(0), 1.0F, small) == 1e-3F);
}

TEST_CASE("staggered: P commits in H local steps, as far apart as can be", "[protocol][filter]") {
  for (std::int64_t const h : {1, 5, 12, 500})
    for (std::int64_t p = 1; p <= std::min<std::int64_t>(h, 7); ++p) {
      staggered const pace{.steps = h, .fragments = p};
      std::int64_t steps = 0;
      for (std::int64_t c = 0; c < 10 * p; ++c) {
        std::int64_t const due = pace.due({.clock = clock_index{c}, .committed_at = {}}).steps;
        CHECK((due == h / p || due == h / p + 1));
        steps += due;
        if ((c + 1) % p == 0) CHECK(steps == (c + 1) / p * h);
      }
    }
}

TEST_CASE("lazy_upload: the first difference is sent, then those that are large beside how far parameters moved",
          "[protocol][filter]") {
  lazy_upload f{.window = 2, .trigger = 0.5};
  auto const decides = [&](std::int64_t clock, double changed, double moved) {
    f.decide(point_at(clock), {changed, moved});
    return f.sends;
  };
  CHECK(decides(0, 0, 100));  // where parameters begin is no move
  CHECK(f.moves.empty());
  CHECK_FALSE(decides(1, 0.5, 1));
  CHECK(decides(2, 1.01, 1));
  CHECK_FALSE(decides(3, 1, 1));  // of the last two
  CHECK(f.moves.size() == 2);
  CHECK_FALSE(decides(4, 0, std::nan("")));
  CHECK(f.moves.size() == 2);
  f.decide({.clock = clock_index{5}, .last = true}, {0, 1});
  CHECK(f.sends);
  double u = 3, last = 2, before = 0;
  CHECK(f.send(point_at(6), 7.0, u, last, before) == 1);
  CHECK((u == 0 && last == 3 && before == 7));
  u = 4;
  CHECK(f.send({.clock = clock_index{7}, .last = true}, 8.0, u, last, before) == -3);
  CHECK((u == 0 && last == 0));
}

TEST_CASE("what filters cannot do with a table is refused by a sentence", "[protocol][filter]") {
  using Catch::Matchers::Contains;
  CHECK(refused(gaia{}, dense<float>{.rows = 3}) == "");
  CHECK(refused(rules(with(ssp{}, one_fragment{})), dense<std::int32_t, sum>{.rows = 3}) == "");
  CHECK(refused(rules(with(ssp{}, one_fragment{})), sparse<float>{}) == "");
  CHECK_THAT(refused(gaia{}, dense<std::int64_t, sum>{.rows = 3}), Contains("tables of float or double"));
  CHECK_THAT(refused(gaia{}, sparse<float>{}), Contains("use a dense table, or a filter by row"));
  CHECK_THAT(refused(gaia{}, dense<float>{.rows = 3, .filter = {.threshold = 0.5}}),
             Contains("leaves entries below 0.5 out of commits, and the protocol has a filter"));
  multi_version const kept{dense<float>{.rows = 3, .filter = {.threshold = 0}}};
  CHECK_THAT(refused(with(rules(dyn_sgd{}), lazy_upload{}), kept),
             Contains("use another merge or a filter without slots"));
  CHECK(refused(with(rules(dyn_sgd{}), significance{}), kept) == "");
}

TEST_CASE("differences go to a merge that keeps what it was sent, and to servers that leave nothing out",
          "[protocol][filter]") {
  using Catch::Matchers::Contains;
  dense<float> const table{.rows = 3};
  CHECK(refused(with(rules(ssp{}), momentum{.mu = 1}, lazy_upload{}), table) == "");
  CHECK(refused(with(rules(ssp{}), momentum{.mu = 1}, lazy_upload{}, buffered{.count = 2}, unbounded{}), table) == "");
  CHECK(refused(with(rules(ssp{}), mean_of_latest{}, lazy_upload{}), table) == "");
  CHECK_THAT(refused(with(rules(ssp{}), lazy_upload{}), table), Contains("use mean_of_latest"));
  CHECK_THAT(refused(with(rules(lag{}), momentum{.mu = 0.9}), table), Contains("use mean_of_latest"));
  CHECK_THAT(refused(lag{}, dense<float, average>{.rows = 3}), Contains("use mean_of_latest"));
  CHECK_THAT(refused(with(rules(lag{}), unbounded{}, quorum{.count = 2}), table), Contains("use buffered"));
}

TEST_CASE("processes do not agree on filters that differ in a number, or that only one has", "[protocol][filter]") {
  auto const agreed = [](rules const& p) { return blueprint(p, 1, {describe(dense<float>{.rows = 3})}).agreement(); };
  CHECK(agreed(gaia{}) == agreed(gaia{}));
  CHECK(agreed(gaia{}) != agreed(gaia{.significant = {.threshold = 0.02}}));
  CHECK(agreed(gaia{}) != agreed(ssp{}));
  CHECK(agreed(ssp{}).find("filter") == std::string::npos);
  CHECK(fingerprint(filter_rule(one_fragment{4})) != fingerprint(filter_rule(one_fragment{5})));
  CHECK(fingerprint(filter_rule(lazy_upload{.window = 2})) != fingerprint(filter_rule(lazy_upload{.window = 3})));
  CHECK(fingerprint(filter_rule(lazy_upload{.trigger = 0.1})) != fingerprint(filter_rule(lazy_upload{.trigger = 0.2})));
}

TEST_CASE("check_filter finds nothing in the library's filters, and what is wrong with others", "[protocol][filter]") {
  CHECK(testing::check_protocol(gaia{}).empty());
  CHECK(testing::check_protocol(streaming_diloco{}).empty());
  CHECK(testing::check_protocol(lag{}).empty());
  auto const first = [](testing::sentences const& all) { return all.empty() ? std::string() : all.front(); };
  CHECK_THAT(first(testing::check_filter(forgets_row{})), Catch::Matchers::Contains("row 175 goes with none of"));
  CHECK_THAT(first(testing::check_filter(forgets_row{worker_id{3}})),
             Catch::Matchers::Contains("none of 10000 commits of worker 3"));
  CHECK_THAT(first(testing::check_filter(sends_nan{worker_id{3}})), Catch::Matchers::Contains("of worker 3 in float"));
  CHECK_THAT(first(testing::check_filter(sends_what_is_not_there{})),
             Catch::Matchers::Contains("of an element that was not pushed"));
  int calls = 0;
  CHECK_THAT(first(testing::check_filter(counts_calls{&calls})),
             Catch::Matchers::Contains("a copy that was asked the same sends something else"));
}
