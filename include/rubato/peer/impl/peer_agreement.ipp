// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "rubato/core/mix.hpp"
#include "rubato/peer/peer_agreement.hpp"

namespace rubato {

namespace detail {

/// A number for many answers, in their order.
class peer_digest {
 public:
  void add(std::uint64_t word) noexcept { words_ = mix64(words_ ^ word) + 1; }
  void add(std::int64_t x) noexcept { add(static_cast<std::uint64_t>(x)); }
  /// As far as C libraries agree on it.
  void add(double x) noexcept { add(std::uint64_t{std::bit_cast<std::uint32_t>(static_cast<float>(x))}); }
  void add(std::span<std::byte const> bytes) noexcept {
    add(std::uint64_t{bytes.size()});
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), sizeof(std::uint64_t)))) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data(), std::min(bytes.size(), sizeof word));
      add(word);
    }
  }
  [[nodiscard]] std::string text() const { return fmt::format("{:016x}", words_); }

 private:
  std::uint64_t words_ = 0;
};

inline std::string text_of_graph(mixing_matrix const& mixing) {
  graph const& g = mixing.topology();
  peer_digest edges, weights;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    for (worker_id const j : g.out(worker_id{i})) edges.add(std::uint64_t{j.value()});
    edges.add(~std::uint64_t{0});
    weights.add(mixing.self(worker_id{i}));
    for (double const w : mixing.of(worker_id{i})) weights.add(w);
  }
  return fmt::format("peers: {}; graph: {}, {} edges, {}; weights: {}, {}", g.size(), g.name(), g.edges(),
                     edges.text(), mixing.name(), weights.text());
}

/// What two steps make of the first four of `size` parameters, or of fewer where there are fewer.
template <class T>
std::string text_of_step(peer_step& step, std::size_t size) {
  std::array<T, 4> x{1, -2, T{0.5}, 3};
  constexpr std::array<T, 4> gradient{1, 1, -2, T{0.25}};
  std::size_t const n = std::min(size, x.size());
  step.start(size);
  auto const bytes = [](auto& of) { return std::as_bytes(std::span(of)).data(); };
  for (int i = 0; i < 2; ++i) {
    std::array<T, 4> const before = x;
    step.apply(0, n, bytes(before), bytes(gradient), std::as_writable_bytes(std::span(x)).data());
  }
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += fmt::format("{}{:.4g}", i == 0 ? "" : ", ", static_cast<double>(x[i]));
  return text;
}

inline std::vector<std::int64_t> numbers_to_ask() {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i <= 40; ++i) all.push_back(i);
  for (std::int64_t const i : {64, 100, 1000, 65536}) all.push_back(i);
  return all;
}

inline void add_gather(peer_digest& d, hop_rules const& p) {
  for (std::int64_t const n : numbers_to_ask()) {
    if (n != 0) d.add(std::uint64_t{p.needed(static_cast<std::size_t>(n))});
    d.add(p.oldest(iteration_index{n}).value());
  }
}

/// By who sends, how old it is, and what the edge weighs. It hears of peers that there are only.
inline void add_weights(peer_digest& d, hop_rules const& p, std::uint32_t peers) {
  for (std::int64_t const k : {0, 1, 10, 1000})
    for (std::int64_t const age : {0, 1, 2, 5, 20, -1})
      for (double const mixing : {1.0, 0.5, 0.25, 0.0625})
        for (std::uint32_t const from : {0U, 1U, 2U, 7U}) {
          iteration_index const made{k - age}, now{k}, oldest = p.oldest(now);
          if (from >= peers || made.value() < 0 || made < oldest || (p.by_iteration() && made != now)) continue;
          d.add(p.weight({.from = worker_id{from}, .to = worker_id{0}, .made = made, .now = now, .oldest = oldest,
                          .mixing = mixing}));
        }
}

}  // namespace detail

std::string agreement_of_peers(mixing_matrix const& mixing, element_type element, std::span<std::byte const> initial,
                               peer_step& step) {
  std::size_t const size = initial.size() / size_of(element);
  detail::peer_digest begins;
  begins.add(initial);
  std::string const made = element == element_type::float64 ? detail::text_of_step<double>(step, size)
                                                            : detail::text_of_step<float>(step, size);
  return fmt::format("{}; parameters: {} of {}; initial parameters: {}; local step: 1, -2, 0.5, 3 become {}",
                     detail::text_of_graph(mixing), size, to_string(element), begins.text(), made);
}

std::string agreement_of(hop_rules const& p, std::uint32_t peers) {
  detail::peer_digest gather, weights, jump;
  detail::add_gather(gather, p);
  detail::add_weights(weights, p, peers);
  for (std::int64_t const lag : detail::numbers_to_ask())
    if (p.jumps && lag >= 2) jump.add(p.jump(lag));
  std::string const gap = p.gap_max ? fmt::format("token queues of {}", *p.gap_max) : p.acks ? "acknowledged" : "free";
  return fmt::format(
      "hop, {}, {}; gather: {} of 8, {} in iteration 100, {}{}, {}; reduce: {}; gap: {}; jump: {}",
      p.by_iteration() ? "by iteration" : "newest", p.order == iteration_order::parallel ? "parallel" : "serial",
      p.needed(8), p.oldest(iteration_index{100}).value(), p.bounds_gap ? "bounds the gap, " : "",
      p.outlives_loss ? "outlives a loss" : "ends with a loss", gather.text(), weights.text(), gap,
      p.jumps ? jump.text() : "none");
}

}  // namespace rubato
