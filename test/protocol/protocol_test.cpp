// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/protocol.hpp>

#include <catch2/catch.hpp>

#include <concepts>
#include <cstdint>

#include <rubato/protocol/admission.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>

using namespace rubato;

namespace {

template <class P, class A, class V, class M, class T>
constexpr bool made_of = std::same_as<admission_of<P>, A> && std::same_as<visibility_of<P>, V> &&
                         std::same_as<merge_of<P>, M> && std::same_as<pace_of<P>, T>;

// The papers' defaults (rules §2, §4).
static_assert(made_of<bsp, barrier, strict, average, every_step>);
static_assert(made_of<ssp, bounded_staleness, eager, sum, every_step>);
static_assert(made_of<asp, unbounded, eager, sum, every_step>);
static_assert(made_of<con_sgd, bounded_staleness, eager, scale, every_step>);

// Each part is a template parameter.
static_assert(made_of<basic_bsp<eager, sum, every>, barrier, eager, sum, every>);
static_assert(
    made_of<basic_ssp<strict, average, every>, bounded_staleness, strict, average, every>);
static_assert(made_of<basic_asp<eager, momentum>, unbounded, eager, momentum, every_step>);
static_assert(made_of<basic_con_sgd<strict>, bounded_staleness, strict, scale, every_step>);

template <class P, class Part>
concept replaceable = requires(P p, Part part) { with(p, part); };
static_assert(replaceable<bsp, every> && replaceable<bsp, unbounded>);
// What is no part of one is refused in a sentence: see compile_fail/with_*
static_assert(!replaceable<barrier, every>);

// Everything here is a constant expression.
constexpr auto slow_bsp = with(bsp{}, every{10});
static_assert(slow_bsp.pace().steps == 10 && slow_bsp.name() == "bsp");

}  // namespace

TEST_CASE("protocols: staleness is 3 unless it is set, and reaches admission") {
  CHECK(ssp{}.admission().bound() == staleness{3});
  CHECK(con_sgd{}.admission().bound() == staleness{3});
  CHECK(ssp{.staleness = 7}.admission().bound() == staleness{7});
  CHECK(con_sgd{.staleness = 0}.admission().bound() == staleness{0});
  CHECK(bsp{}.admission().bound() == staleness{0});
  CHECK(asp{}.admission().bound().is_infinite());
  CHECK_THROWS_AS((ssp{.staleness = -1}), option_error);
}

TEST_CASE("protocols: parts that carry options hand them on") {
  CHECK(con_sgd{.fold = {.lambda = 0.5}}.merge().lambda == 0.5);
  CHECK(basic_ssp<strict, momentum, every>{.fold = {.mu = 0.3}, .tempo = {.steps = 4}}.merge().mu ==
        0.3);
  CHECK(basic_bsp<strict, average, every>{.tempo = {.steps = 4}}.pace().steps == 4);
}

TEST_CASE("with: replaces the part of its kind and keeps the other three and the name") {
  auto const admission = with(ssp{.staleness = 2}, barrier{});
  static_assert(made_of<std::remove_const_t<decltype(admission)>, barrier, eager, sum, every_step>);
  CHECK(admission.name() == "ssp");

  auto const visibility = with(ssp{.staleness = 2}, strict{});
  static_assert(made_of<std::remove_const_t<decltype(visibility)>, bounded_staleness, strict, sum,
                        every_step>);
  CHECK(visibility.admission().bound() == staleness{2});

  auto const merge = with(con_sgd{.staleness = 2}, momentum{.mu = 0.25});
  static_assert(made_of<std::remove_const_t<decltype(merge)>, bounded_staleness, eager, momentum,
                        every_step>);
  CHECK(merge.merge().mu == 0.25);
  CHECK(merge.admission().bound() == staleness{2});
  CHECK(merge.name() == "con_sgd");

  auto const pace = with(bsp{}, every{5});
  static_assert(made_of<std::remove_const_t<decltype(pace)>, barrier, strict, average, every>);
  CHECK(pace.pace().steps == 5);
  CHECK(pace.name() == "bsp");
}

TEST_CASE("with: replaces several parts from left to right, the last of a kind wins") {
  auto const p = with(ssp{.staleness = 1}, strict{}, average{}, every{3}, every{4});
  static_assert(
      made_of<std::remove_const_t<decltype(p)>, bounded_staleness, strict, average, every>);
  CHECK(p.admission().bound() == staleness{1});
  CHECK(p.pace().steps == 4);
  CHECK(p.name() == "ssp");
}

TEST_CASE("composed: is made of the four parts that it is given") {
  composed const p{bounded_staleness{4}, strict{}, scale{.lambda = 0.5}, every{2}, "mine"};
  static_assert(
      made_of<std::remove_const_t<decltype(p)>, bounded_staleness, strict, scale, every>);
  CHECK(p.admission().bound() == staleness{4});
  CHECK(p.merge().lambda == 0.5);
  CHECK(p.pace().steps == 2);
  CHECK(name_of(p) == "mine");
  CHECK(name_of(composed{barrier{}, strict{}, sum{}, every_step{}}) == "custom");
}
