// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <vector>

#include "rubato/core/mix.hpp"
#include "rubato/server/agreement.hpp"

namespace rubato {

namespace detail {

/// A number for many answers, in their order.
class digest {
 public:
  void add(std::uint64_t word) { words_ = mix64(words_ ^ word) + 1; }
  void add(std::int64_t x) { add(static_cast<std::uint64_t>(x)); }
  void add(clock_index c) { add(c.value()); }
  void add(version_index v) { add(static_cast<std::uint64_t>(v.value())); }
  /// By its bits; what is no number has many, and compilers differ in which.
  void add(double x) { add(std::isnan(x) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(x)); }
  void add(std::optional<double> x) {
    add(std::uint64_t{x.has_value()});
    if (x) add(*x);
  }
  [[nodiscard]] std::uint64_t value() const { return words_; }

 private:
  std::uint64_t words_ = 0;
};

constexpr std::int64_t clock_asked_max = std::int64_t{1} << 20;

/// All from 0 on for a while, then some of each order of magnitude.
inline std::vector<std::int64_t> clocks_to_ask(std::int64_t dense_below) {
  std::vector<std::int64_t> clocks;
  for (std::int64_t c = 0; c < dense_below; ++c) clocks.push_back(c);
  for (std::int64_t power = std::max<std::int64_t>(dense_below, 2); power <= clock_asked_max; power *= 2)
    for (std::int64_t const c : {power, power + 1, power + power / 2})
      if (c <= clock_asked_max) clocks.push_back(c);
  return clocks;
}

inline void add_answers(digest& d, admission_rule const& a, worker_id who, std::vector<std::int64_t> const& clocks) {
  for (std::int64_t const s : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{5}, std::int64_t{20},
                               std::int64_t{100}, std::int64_t{1000}, a.bound().clocks()}) {
    staleness const allowed = std::min(staleness{s}, a.bound());
    for (std::int64_t const c : clocks) {
      d.add(a.need(clock_index{c}, allowed, who));
      d.add(a.cache_need(clock_index{c}, allowed, who));
    }
  }
}

/// What an update is worth, by how old it is, how far others are, and how many there are.
inline void add_weights(digest& d, merge_rule const& m, std::int64_t apart_max) {
  for (std::int64_t const stamp : {0, 1, 2, 5, 10, 100, 1000, 1 << 20})
    for (std::int64_t const behind : {-10, -1, 0, 1, 2, 3, 10, 100, 1000})
      for (std::int64_t const lag : {0, 1, 2, 3, 4, 5, 7, 10, 20, 50, 100, 1000, 1 << 20}) {
        std::int64_t const c_min = stamp - behind;
        std::int64_t const c_max = std::max(stamp, c_min) + lag;
        if (c_min < 0 || c_max - std::min(c_min, stamp) > apart_max) continue;
        for (std::uint32_t const workers : {1U, 2U, 3U, 8U, 30U, 1000U}) {
          commit_info const c{.from = {},
                              .stamp = clock_index{stamp},
                              .c_min = clock_index{c_min},
                              .c_max = clock_index{c_max},
                              .workers = workers,
                              .version = version_index{stamp},
                              .age = static_cast<std::uint64_t>(lag)};
          d.add(m.weight(c));
          if (m.versioned()) d.add(m.map(c));
        }
      }
}

/// And by whom it is of, which few go by.
inline void add_weights_of_workers(digest& d, merge_rule const& m) {
  for (std::uint32_t from = 0; from < 1024; from = from < 32 ? from + 1 : 2 * from)
    for (std::int64_t const stamp : {0, 1, 7}) {
      commit_info const c{.from = worker_id{from},
                          .stamp = clock_index{stamp},
                          .c_min = clock_index{stamp},
                          .c_max = clock_index{stamp},
                          .workers = 1024,
                          .version = version_index{stamp},
                          .age = 1};
      d.add(m.weight(c));
      if (m.versioned()) d.add(m.map(c));
    }
}

inline void add_versions(digest& d, merge_rule const& m) {
  for (std::uint32_t const updates : {1U, 2U, 3U, 8U, 30U, 1000U})
    for (std::int64_t const version : {0, 1, 10, 1000, 1 << 20}) {
      version_state const v{version_index{version}, updates};
      d.add(m.share(v));
      for (std::int64_t const ahead : {-1, 0, 1, 2, 10, 100})
        for (std::int64_t const spread : {0, 1, 2, 10}) {
          std::int64_t const least = version + ahead;
          if (least < 0) continue;
          clock_index const c_max{least + spread};
          d.add(m.expire(v, {.least = version_index{least}, .c_min = clock_index{least}, .c_max = c_max}));
          d.add(m.version_after({.own = version_index{version}, .top = version_index{least}, .c_max = c_max}));
        }
    }
}

/// What it answers along a path, of an element, as floats have it: doubles may differ in their last bits where one
/// compiler contracts what another does not.
inline void add_steps(digest& d, element_rule const& e) {
  d.add(std::uint64_t{e.slots()} * 8 + std::uint64_t{e.lazy()} * 4 + static_cast<std::uint64_t>(e.copy()));
  std::vector<double> kept;
  for (std::size_t i = 0; i < e.slots(); ++i) d.add(kept.emplace_back(e.initial(i)));
  std::vector<double*> slots;
  for (double& slot : kept) slots.push_back(&slot);
  double w = 0.3, copy = 0.2;
  for (std::int64_t n = 0; n < 64; ++n) {
    double change = static_cast<double>(n * 37 % 13 - 6) / 7;
    double const before = w;
    e.step({.number = n, .workers = static_cast<std::uint32_t>(n % 7 + 1)}, {1, &before, &change, &copy, slots.data()});
    w += change;
    for (double const x : {change, copy}) d.add(static_cast<double>(static_cast<float>(x)));
  }
}

/// What it sends of an element along a path, as floats have it, and which sums it takes.
inline void add_sent(digest& d, filter_rule filter) {
  std::vector<double> kept(filter.slots()), sums(filter.sums());
  std::vector<double*> slots;
  for (double& slot : kept) slots.push_back(&slot);
  double w = 0.3, u = 0, sent = 0;
  for (std::int64_t n = 0; n < 64; ++n) {
    filter_point const at{clock_index{n}, worker_id{static_cast<std::uint32_t>(n % 3)}};
    u += static_cast<double>(n * 37 % 13 - 6) / static_cast<double>(7 + 100 * (n % 5));
    std::ranges::fill(sums, 0.0);
    filter_run<double> const run{1, &w, &u, &sent, slots.data()};
    filter.measure(at, run, sums);
    filter.decide(at, sums);
    filter.send(at, run);
    w += sent;
    for (double const x : {sent, u}) d.add(static_cast<double>(static_cast<float>(x)));
  }
}

inline void add_rows(digest& d, filter_rule const& filter) {
  std::vector<key> rows;
  for (std::uint64_t k = 0; k < 1024; ++k) rows.push_back(key{k});
  std::vector<std::uint8_t> taken(rows.size());
  for (std::int64_t const c : clocks_to_ask(65)) {
    filter.takes({clock_index{c}, worker_id{0}}, rows, taken.data());
    for (std::size_t k = 0; k < taken.size(); k += 8) {
      std::uint64_t word = 0;
      for (std::size_t bit = 0; bit < 8; ++bit) word |= std::uint64_t{taken[k + bit]} << bit;
      d.add(word);
    }
  }
}

}  // namespace detail

std::uint64_t fingerprint(filter_rule const& f) {
  if (f.fingerprint()) return *f.fingerprint();
  detail::digest d;
  d.add(std::uint64_t{f.slots()} * 8 + std::uint64_t{f.by_row()} * 2 + std::uint64_t{f.by_element()});
  d.add(std::uint64_t{f.sums()});
  if (f.by_row()) detail::add_rows(d, f);
  if (f.by_element()) detail::add_sent(d, f);
  return d.value();
}

std::uint64_t fingerprint(codec_rule const& c) {
  if (c.fingerprint()) return *c.fingerprint();
  detail::digest d;
  std::vector<float> values, back;
  std::vector<std::byte> coded;
  for (std::size_t n = 1; n <= 100; n += n < 4 ? 1 : 32) {
    values.resize(n);
    back.resize(n);
    for (std::size_t i = 0; i < n; ++i)
      values[i] = std::ldexp(static_cast<float>(i * 37 % 101) - 50.0F, static_cast<int>(i * 13 % 41) - 20);
    coded.assign(c.bytes(n), std::byte{});
    c.encode(values, coded);
    c.decode(coded, back);
    d.add(std::uint64_t{coded.size()});
    for (std::byte const b : coded) d.add(std::uint64_t{std::to_integer<std::uint8_t>(b)});
    for (float const x : back) d.add(double{x});
  }
  return d.value();
}

std::uint64_t fingerprint(admission_rule const& a) {
  if (a.fingerprint()) return *a.fingerprint();
  admission_rule const copy = a.unshared();
  detail::digest d;
  d.add(a.bound().clocks());
  for (std::uint32_t w = 0; a.samples() && w < 1024; ++w)
    for (std::int64_t const round : {0, 1, 2, 3, 5, 10, 100, 1000, 1 << 20})
      d.add(std::uint64_t{copy.takes_part(worker_id{w}, version_index{round})});
  for (std::uint32_t w = 0; a.heeds_some() && w < 1024; w = w < 32 ? w + 1 : w * 2)
    for (std::uint32_t of = 0; of < 1024; of = of < 32 ? of + 1 : of * 2)
      for (std::int64_t const c : {0, 1, 2, 3, 10, 1000, 1 << 20})
        d.add(std::uint64_t{w != of && copy.heeds(worker_id{w}, worker_id{of}, clock_index{c})});
  time_point const now(seconds(100));
  for (double const own : {0.0, 0.1, 1.0, 3.0})
    for (double const slowest : {0.0, 0.5, 1.0, 7.0})
      for (double const since : {0.0, 0.3, 5.0})
        for (std::int64_t const most : {1, 2, 12, 100})
          if (time_point const other = now - seconds(since); a.extends())
            d.add(copy.extra({now - seconds(own), now}, {other - seconds(slowest), other}, most));
  for (std::int64_t const c : {0, 1, 2, 3, 10, 1000, 1 << 20})
    if (a.limits()) d.add(copy.limit(clock_index{c}));
  if (a.by_round()) d.add(std::uint64_t{1});
  detail::add_answers(d, copy, worker_id{0}, detail::clocks_to_ask(1025));
  for (std::uint32_t w = 1; a.asks_who() && w < 1024; ++w)
    detail::add_answers(d, copy, worker_id{w}, {0, 1, 10, 1000, detail::clock_asked_max});
  return d.value();
}

std::uint64_t fingerprint(visibility_rule const& v, staleness bound) {
  if (v.fingerprint()) return *v.fingerprint();
  detail::digest d;
  d.add(std::uint64_t{v.holds_back()} + 2 * std::uint64_t{v.synchronized()});
  if (auto const& rounds = v.rounds()) {
    d.add(std::uint64_t{rounds->size});
    d.add(std::uint64_t{rounds->late == late_commit::drop});
    return d.value();
  }
  if (!v.holds_back()) return d.value();  // is never asked
  visibility_rule const copy = v.unshared();
  for (std::int64_t const c : detail::clocks_to_ask(1025))
    d.add(copy.horizon({.c_min = clock_index{c}, .bound = bound}));
  return d.value();
}

std::uint64_t fingerprint(merge_rule const& m, staleness bound) {
  if (m.fingerprint()) return *m.fingerprint();
  merge_rule const copy = m.unshared();
  detail::digest d;
  d.add(m.decay());
  // Who stands at c_min + s has one commit more under way.
  detail::add_weights(d, copy, std::min(bound.clocks(), 2 * detail::clock_asked_max - 1) + 1);
  detail::add_weights_of_workers(d, copy);
  if (m.versioned()) detail::add_versions(d, copy);
  if (auto const* const e = copy.elements()) detail::add_steps(d, *e);
  return d.value();
}

}  // namespace rubato
