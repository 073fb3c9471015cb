// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rubato/protocol/commit_filter.hpp>

namespace rubato::test {

/// What a run's filters are seen to do, by worker and element. One thread.
struct filter_watch {
  struct worker {
    std::vector<double> read;     ///< what the worker has read last; NaN: nothing
    std::vector<double> pending;  ///< what it has pushed and not sent
    std::vector<double> sent;     ///< in all
    std::vector<std::size_t> order;  ///< the elements that are asked about next
    std::size_t next = 0;
    std::int64_t steps = 0;       ///< local ones
  };

  filter_watch(std::uint32_t workers, std::size_t rows, std::size_t row_width) : width(row_width) {
    std::size_t const n = rows * row_width;
    worker const fresh{std::vector<double>(n, std::nan("")), std::vector<double>(n), std::vector<double>(n), {}, 0, 0};
    all.resize(workers, fresh);
  }
  void expect(bool holds, std::string const& what) {
    if (!holds && broken.empty()) broken = what;
  }

  std::size_t width;
  std::vector<worker> all;
  std::string broken;  ///< the first rule that was
  std::function<void(filter_point, key)> on_row = [](filter_point, key) {};
  /// Element, u before, what is sent, u after.
  std::function<void(filter_point, std::size_t, double, double, double)> on_send =
      [](filter_point, std::size_t, double, double, double) {};
};

/// The same filter, watched: it is told by row which elements are next, and looks at what becomes of them.
template <commit_filter Filter>
struct watched : Filter {
  explicit watched(Filter f, std::shared_ptr<filter_watch> w) : Filter(std::move(f)), watch(std::move(w)) {}

  std::shared_ptr<filter_watch> watch;

  [[nodiscard]] bool takes(filter_point at, key row) const noexcept {
    auto& of = watch->all[at.worker.index()];
    if (of.next == of.order.size()) of.order.clear(), of.next = 0;
    bool goes = true;
    if constexpr (detail::filters_rows<Filter>) goes = Filter::takes(at, row);
    if (!goes) return false;
    if constexpr (detail::filters_elements<Filter>)
      for (std::size_t i = 0; i < watch->width; ++i) of.order.push_back(row.index() * watch->width + i);
    watch->on_row(at, row);
    return true;
  }

  template <class Sums>
    requires(detail::declared_sums<Filter>() != 0)
  void decide(filter_point at, Sums const& all) noexcept {
    watch->all[at.worker.index()].order.clear();  // it was asked about rows to measure them
    Filter::decide(at, all);
  }

  template <std::floating_point T, class... Slots>
    requires(detail::filters_elements<Filter>)
  [[nodiscard]] T send(filter_point at, T w, T& u, Slots&... slots) const noexcept {
    T const before = u;
    T const sent = Filter::send(at, w, u, slots...);
    if (at.last) return sent;  // rows are not asked about
    auto& of = watch->all[at.worker.index()];
    std::size_t const e = of.order[of.next++];
    watch->expect(w == of.read[e] || (std::isnan(w) && std::isnan(of.read[e])), "told another value than was read");
    watch->expect(before == of.pending[e], "asked about another update than was accumulated");
    of.pending[e] = u;
    of.sent[e] += sent;
    watch->on_send(at, e, before, sent, u);
    return sent;
  }

  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return 1; }
};

/// A protocol with its filter watched.
template <class P>
struct watched_protocol : P {
  std::shared_ptr<filter_watch> watch;
  [[nodiscard]] auto filter() const { return watched(P::filter(), watch); }
};

}  // namespace rubato::test
