// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <span>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/peer/exchange.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/local_step.hpp"

namespace rubato {

namespace detail {
/// How far peers send in iteration k, where there are two or more.
inline std::uint32_t exponential_hop(std::uint32_t peers, iteration_index k) {
  auto const powers = static_cast<std::uint32_t>(std::bit_width(peers - 1));
  return std::uint32_t{1} << (static_cast<std::uint64_t>(k.value()) % powers);
}
inline void sort_once_each(std::vector<worker_id>& those) {
  std::ranges::sort(those);
  those.erase(std::unique(those.begin(), those.end()), those.end());
}
/// A stream for an iteration of one peer, or of all.
inline random_stream draws_of(std::uint64_t seed, std::uint32_t peer, iteration_index k) {
  return random_stream(seed, peer, static_cast<std::uint64_t>(k.value()));
}
}  // namespace detail

std::vector<worker_id> one_peer_exponential::out(graph const& g, worker_id i, iteration_index k) const {
  std::uint32_t const n = g.size();
  if (n == 1) return {};
  return {worker_id{(i.value() + detail::exponential_hop(n, k)) % n}};
}

std::vector<worker_id> one_peer_exponential::in(graph const& g, worker_id j, iteration_index k) const {
  std::uint32_t const n = g.size();
  if (n == 1) return {};
  return {worker_id{(j.value() + n - detail::exponential_hop(n, k)) % n}};
}

std::vector<worker_id> one_peer_exponential::partners(graph const& g, worker_id i) const {
  std::uint32_t const n = g.size();
  std::vector<worker_id> those;
  for (std::int64_t k = 0; k < std::bit_width(n - 1); ++k) {
    std::uint32_t const hop = detail::exponential_hop(n, iteration_index{k});
    those.emplace_back((i.value() + hop) % n);
    those.emplace_back((i.value() + n - hop) % n);
  }
  detail::sort_once_each(those);
  return those;
}

std::vector<worker_id> every_neighbor::out(graph const& g, worker_id i, iteration_index) const {
  auto const all = g.out(i);
  return {all.begin(), all.end()};
}

std::vector<worker_id> every_neighbor::in(graph const& g, worker_id j, iteration_index) const {
  auto const all = g.in(j);
  return {all.begin(), all.end()};
}

std::vector<worker_id> every_neighbor::partners(graph const& g, worker_id i) const {
  auto const to = g.out(i), from = g.in(i);
  std::vector<worker_id> those(to.begin(), to.end());
  those.insert(those.end(), from.begin(), from.end());
  detail::sort_once_each(those);
  return those;
}

void random_partner::check() const {
  if (!(probability > 0 && probability <= 1))
    throw option_error("random_partner: the probability must be above 0 and at most 1, but is " +
                       detail::text_of(probability));
}

std::vector<worker_id> random_partner::out(graph const& g, worker_id i, iteration_index k) const {
  auto const neighbors = g.out(i);
  random_stream draws = detail::draws_of(seed, i.value(), k);
  if (neighbors.empty() || !draws.chance(probability)) return {};
  return {neighbors[static_cast<std::size_t>(draws.below(neighbors.size()))]};
}

std::vector<worker_id> random_partner::in(graph const& g, worker_id j, iteration_index k) const {
  std::vector<worker_id> those;
  for (worker_id const i : g.in(j))
    if (out(g, i, k) == std::vector{j}) those.push_back(i);
  return those;
}

std::string random_partner::text() const {
  return "random partner, seed " + std::to_string(seed) + ", probability " + detail::text_of(probability);
}

void random_groups::check() const {
  if (size < 2)
    throw option_error("random_groups: a group must have room for 2 or more, but for " + std::to_string(size));
}

std::vector<worker_id> random_groups::group(graph const& g, worker_id i, iteration_index k) const {
  std::size_t const n = g.size();
  std::vector<worker_id> order(n);
  for (std::uint32_t p = 0; p < n; ++p) order[p] = worker_id{p};
  detail::draws_of(seed, ~std::uint32_t{0}, k).shuffle(std::span(order));
  std::size_t const groups = (n + size - 1) / size;
  auto const at = static_cast<std::size_t>(std::ranges::find(order, i) - order.begin());
  std::size_t const mine = at * groups / n;  // the first of group c is at n·c / groups, rounded up
  auto const first_of = [&](std::size_t c) { return (n * c + groups - 1) / groups; };
  std::vector<worker_id> those(order.begin() + static_cast<std::ptrdiff_t>(first_of(mine)),
                               order.begin() + static_cast<std::ptrdiff_t>(first_of(mine + 1)));
  std::ranges::sort(those);
  return those;
}

std::vector<worker_id> random_groups::out(graph const& g, worker_id i, iteration_index k) const {
  std::vector<worker_id> others = group(g, i, k);
  std::erase(others, i);
  return others;
}

std::string random_groups::text() const {
  return "random groups of " + std::to_string(size) + ", seed " + std::to_string(seed);
}

}  // namespace rubato
