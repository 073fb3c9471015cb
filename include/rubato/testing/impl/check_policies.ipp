// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <vector>

#include "rubato/testing/check_policies.hpp"

namespace rubato::testing::detail {

namespace {

/// An element and what is kept beside it.
template <parameter T>
struct sample_element {
  T w, d, copy;
  std::vector<T> slots;

  /// Makes a step of it; d is the change.
  void step(element_rule const& rule, fold_step const& at) {
    std::vector<T*> at_slots;
    for (T& s : slots) at_slots.push_back(&s);
    rule.step(at, {1, &w, &d, &copy, at_slots.data()});
  }
  [[nodiscard]] bool is_finite() const {
    return std::isfinite(d) && std::isfinite(copy) &&
           std::ranges::all_of(slots, [](T s) { return std::isfinite(s); });
  }
  friend bool operator==(sample_element const&, sample_element const&) = default;
};

template <parameter T>
void check_elements_of(findings& found, element_rule const& rule, element_rule const& other, char const* type) {
  sample_element<T> fresh{T(0.5), T(0), T(0.5), {}};
  for (std::size_t i = 0; i < rule.slots(); ++i) fresh.slots.push_back(static_cast<T>(rule.initial(i)));
  if (rule.lazy()) {
    auto still = fresh;
    still.step(rule, {});
    found.expect(still.d == 0, "step moves an element by ", still.d, " for an update of 0 in ", type,
                 ", but the merge says that it leaves rows without an update alone");
  }
  auto path = fresh;
  for (std::int64_t n = 0; n < 100; ++n) {
    fold_step const at{.number = n, .workers = static_cast<std::uint32_t>(n % 5 + 1)};
    path.d = static_cast<T>(n * 37 % 13 - 6) / T(7);
    auto again = path, elsewhere = path;
    path.step(rule, at);
    sample_element<T> between{T(-3), T(2), T(1), fresh.slots};
    between.step(rule, {.number = n + 7, .workers = 2});
    again.step(rule, at);
    elsewhere.step(other, at);
    found.expect(path.is_finite(), "step number ", n, " in ", type, " is not finite, from an update below 1");
    if (!path.is_finite()) return;
    found.expect(path == again && path == elsewhere, "step number ", n, " in ", type,
                 " differs when it is made again: it must depend on nothing but what it is given");
    path.w += path.d;
  }
}

}  // namespace

void check_elements(findings& found, element_rule const& rule, element_rule const& other) {
  for (std::size_t i = 0; i < rule.slots(); ++i)
    found.expect(std::isfinite(rule.initial(i)), "slot ", i, " begins with ", rule.initial(i),
                 ", expected a finite number");
  check_elements_of<float>(found, rule, other, "float");
  check_elements_of<double>(found, rule, other, "double");
}

namespace {

void check_rows(findings& found, filter_rule const& filter, worker_id who) {
  filter_rule const other(filter);
  std::vector<key> rows;
  for (std::uint64_t k = 0; k < 100; ++k) rows.push_back(key{k * k * 7});
  std::vector<std::uint8_t> taken(rows.size()), again(rows.size()), ever(rows.size());
  for (std::int64_t c = 0; c < 10'000; ++c) {
    filter_point const at{clock_index{c}, who};
    filter.takes(at, rows, taken.data());
    other.takes(at, rows, again.data());
    found.expect(taken == again, "takes answers differently at clock ", c, " of worker ", who.value(),
                 " when asked twice");
    for (std::size_t i = 0; i < rows.size(); ++i) ever[i] |= taken[i];
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    found.expect(ever[i] != 0, "row ", rows[i].value(),
                 " goes with none of 10000 commits of worker ", who.value(), ": its updates would be carried for ever");
}

/// What a filter does with an element, and keeps beside it.
template <parameter T>
struct filtered_element {
  filter_rule filter;
  T u{};
  std::vector<T> slots = std::vector<T>(filter.slots());
  std::vector<double> sums = std::vector<double>(filter.sums());

  [[nodiscard]] T send(filter_point const& at, T w) {
    T sent{};
    std::vector<T*> at_slots;
    for (T& s : slots) at_slots.push_back(&s);
    filter_run<T> const run{1, &w, &u, &sent, at_slots.data()};
    std::ranges::fill(sums, 0.0);
    filter.measure(at, run, sums);
    filter.decide(at, sums);
    filter.send(at, run);
    return sent;
  }
  [[nodiscard]] bool is_finite() const {
    auto const finite = [](auto x) { return std::isfinite(x); };
    return finite(u) && std::ranges::all_of(slots, finite) && std::ranges::all_of(sums, finite);
  }
};

template <parameter T>
void check_sent(findings& found, filter_rule const& filter, worker_id who, char const* type) {
  auto const whom = text(" of worker ", who.value(), " in ", type);
  filtered_element<T> one{filter}, other{filter};
  for (std::int64_t n = 0; n < 200; ++n) {
    filter_point const at{clock_index{n}, who};
    T const w = static_cast<T>(n % 11 - 5) / T(4), pushed = static_cast<T>(n * 37 % 13 - 6) / T(7 + 90 * (n % 3));
    one.u += pushed;
    other.u += pushed;
    T const sent = one.send(at, w), again = other.send(at, w);
    bool const finite = found.expect(std::isfinite(sent) && one.is_finite(), "at clock ", n, whom,
                                     " what is sent, kept or summed is not finite, from updates below 1");
    bool const alike = found.expect(sent == again && one.u == other.u && one.slots == other.slots, "at clock ", n,
                                    whom, " a copy that was asked the same sends something else");
    if (!finite || !alike) return;
  }
  if (filter.slots() != 0) return;
  filtered_element<T> still{filter};
  found.expect(still.send({clock_index{3}, who}, T(0.5)) == 0 && still.u == 0, "at clock 3", whom,
               " something is sent or carried of an element that was not pushed");
}

}  // namespace

void check_filter(findings& found, filter_rule const& filter) {
  for (std::uint32_t const w : {0U, 1U, 2U, 3U, 7U, 30U, 99U}) {
    if (filter.by_row()) check_rows(found, filter, worker_id{w});
    if (!filter.by_element()) continue;
    check_sent<float>(found, filter, worker_id{w}, "float");
    check_sent<double>(found, filter, worker_id{w}, "double");
  }
}

void check_admission(findings& found, staleness bound, std::string const& whom,
                     std::function<clock_index(clock_index, staleness)> const& need_of,
                     std::function<clock_index(clock_index, staleness)> const& cache_need_of) {
  auto const clocks = sample_clocks();
  auto const allowed = sample_staleness(bound);
  for (staleness const s : allowed)
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      clock_index const c = clocks[i];
      auto const at = text(" at clock ", c.value(), " and staleness ", text(s), whom);
      clock_index const need = need_of(c, s);
      clock_index const cache_need = cache_need_of(c, s);
      found.expect(need == need_of(c, s) && cache_need == cache_need_of(c, s),
                   "need and cache_need answer differently when asked twice", at);
      found.expect(need <= c, "need is ", text(need), at,
                   ": a worker would wait for itself, expected at most the clock");
      found.expect(need >= c - s, "need is ", text(need), at, ", expected at least ", text(c - s),
                   ", or the read is staler than it asked for");
      found.expect(cache_need >= c - s, "cache_need is ", text(cache_need), at, ", expected at least ",
                   text(c - s), ", or a cached copy is staler than the read asked for");
      if (i == 0) continue;
      found.expect(need >= need_of(clocks[i - 1], s), "need falls as the clock grows", at);
      found.expect(cache_need >= cache_need_of(clocks[i - 1], s), "cache_need falls as the clock grows",
                   at);
    }
  for (clock_index const c : clocks)
    for (std::size_t i = 1; i < allowed.size(); ++i) {
      auto const at = text(" at clock ", c.value(), " from staleness ", text(allowed[i - 1]), " to ",
                           text(allowed[i]), whom);
      found.expect(need_of(c, allowed[i]) <= need_of(c, allowed[i - 1]),
                   "need rises as more staleness is allowed,", at);
      found.expect(cache_need_of(c, allowed[i]) <= cache_need_of(c, allowed[i - 1]),
                   "cache_need rises as more staleness is allowed,", at);
    }
}

}  // namespace rubato::testing::detail
