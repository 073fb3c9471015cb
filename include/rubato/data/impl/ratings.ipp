// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/data/ratings.hpp"

namespace rubato::data {
namespace {

std::string text_of(rating const& r) {
  return "ratings: the rating of item " + std::to_string(r.item) + " by user " + std::to_string(r.user);
}

void check_rating(rating const& r, std::size_t users, std::size_t items) {
  if (r.user >= users)
    throw data_error(text_of(r) + ": expected a user below " + std::to_string(users));
  if (r.item >= items)
    throw data_error(text_of(r) + ": expected an item below " + std::to_string(items));
  if (!std::isfinite(r.value))
    throw data_error(text_of(r) + " is " + std::to_string(r.value) + ", expected a finite number");
}

/// Which of the items a user has rated: distinct ones, ascending.
std::set<std::uint32_t> draw(std::size_t n, std::size_t of, random_stream& random) {
  std::set<std::uint32_t> drawn;  // Floyd's way: n draws, whatever has been drawn
  for (std::size_t last = of - n; last < of; ++last) {
    auto const one = static_cast<std::uint32_t>(random.below(last + 1));
    if (!drawn.insert(one).second) drawn.insert(static_cast<std::uint32_t>(last));
  }
  return drawn;
}

std::vector<double> draw_factors(std::size_t rows, std::size_t factors, random_stream& random) {
  std::vector<double> all(rows * factors);
  double const scale = 1 / std::sqrt(std::sqrt(static_cast<double>(factors)));  // of products: variance 1
  for (double& x : all) x = scale * random.normal();
  return all;
}

void check_options(ratings_options const& o) {
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  auto const expect = [](bool holds, char const* sentence) {
    if (!holds) throw option_error(std::string("synthetic ratings: ") + sentence);
  };
  expect(o.users >= 1 && o.users <= most, "users must be from 1 to 2^32 - 1");
  expect(o.items >= 1 && o.items <= most, "items must be from 1 to 2^32 - 1");
  expect(o.factors >= 1 && o.factors <= most, "factors must be from 1 to 2^32 - 1");
  expect(o.per_user <= o.items, "per_user must not be above items");
  expect(o.noise >= 0 && std::isfinite(o.noise), "noise must be finite and at least 0");
}

}  // namespace

ratings::ratings(std::size_t users, std::size_t items, std::vector<rating> all) {
  for (rating const& r : all) check_rating(r, users, items);
  std::ranges::sort(all, {}, [](rating const& r) { return std::tuple(r.user, r.item); });
  auto const twice = std::ranges::adjacent_find(
      all, [](rating const& a, rating const& b) { return a.user == b.user && a.item == b.item; });
  if (twice != all.end()) throw data_error(text_of(*twice) + " is there twice, expected once");

  state s;
  s.by_user.first.resize(users + 1);
  s.by_item.first.resize(items + 1);
  for (rating const& r : all) {
    s.by_user.entries.push_back({r.item, r.value});
    ++s.by_user.first[r.user + std::size_t{1}];
    ++s.by_item.first[r.item + std::size_t{1}];
  }
  for (lines* const l : {&s.by_user, &s.by_item})
    std::partial_sum(l->first.begin(), l->first.end(), l->first.begin());
  s.by_item.entries.resize(all.size());
  std::vector<std::size_t> next = s.by_item.first;
  for (rating const& r : all) s.by_item.entries[next[r.item]++] = {r.user, r.value};
  state_ = std::make_shared<state const>(std::move(s));
}

held_out_ratings ratings::split(double test_share, std::uint64_t seed) const {
  if (!(test_share >= 0 && test_share <= 1))
    throw option_error("split: a test share of " + std::to_string(test_share) + ", expected 0 to 1");
  auto const tests = static_cast<std::size_t>(std::floor(test_share * static_cast<double>(size()) + 0.5));
  std::vector<char> held(size());
  std::fill_n(held.begin(), std::min(tests, size()), char{1});
  random_stream(seed).shuffle(std::span(held));
  std::vector<rating> train, test;
  auto next = held.begin();
  for (std::size_t u = 0; u < users(); ++u)
    for (entry const& e : of_user(u))
      (*next++ != 0 ? test : train).push_back({static_cast<std::uint32_t>(u), e.other, e.value});
  return {ratings(users(), items(), std::move(train)), ratings(users(), items(), std::move(test))};
}

ratings make_synthetic_ratings(ratings_options const& o) {
  check_options(o);
  random_stream random(o.seed);
  std::vector<double> const users = draw_factors(o.users, o.factors, random);
  std::vector<double> const items = draw_factors(o.items, o.factors, random);
  std::vector<rating> all;
  all.reserve(o.users * o.per_user);
  for (std::uint32_t u = 0; u < o.users; ++u)
    for (std::uint32_t const i : draw(o.per_user, o.items, random)) {
      double const* const of_user = users.data() + u * o.factors;
      double const value = std::inner_product(of_user, of_user + o.factors, items.data() + i * o.factors, 0.0);
      all.push_back({u, i, static_cast<float>(value + o.noise * random.normal())});
    }
  return ratings(o.users, o.items, std::move(all));
}

}  // namespace rubato::data
