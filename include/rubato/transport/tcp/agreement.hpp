// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <boost/core/demangle.hpp>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "rubato/core/mix.hpp"
#include "rubato/core/table.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato::detail {

template <class T>
[[nodiscard]] std::string name_of_type() {
  std::string name = boost::core::demangle(typeid(T).name());
  constexpr std::string_view ours = "rubato::";
  for (auto at = name.find(ours); at != std::string::npos; at = name.find(ours))
    name.erase(at, ours.size());
  return name;
}

[[nodiscard]] inline std::string text_of(clock_index c) {
  if (c == clock_index::lowest()) return "any";
  return c == clock_index::highest() ? "never" : std::to_string(c.value());
}

/// What a conductor's orders are called; empty where there is none.
template <class Conductor>
[[nodiscard]] std::string name_of_orders() {
  if constexpr (std::same_as<Conductor, no_conductor>) return {};
  else return name_of_type<typename Conductor::order_type>();
}

/// What all processes of a run must agree on, in words that can be shown when they do not: when a
/// read may go on, what it sees, what an update is worth, what tables there are and who holds which
/// rows. By what policies do more than by what they are called, so that a server may put the same
/// protocol together in another way. `orders` are those that workers follow, for a server whose plan
/// does without a pace.
template <class Plan>
[[nodiscard]] std::string agreement(
    Plan const& p, std::string const& orders = name_of_orders<typename Plan::conductor_type>()) {
  using protocol_type = typename Plan::protocol_type;
  auto const admission = p.protocol_used().admission();
  constexpr clock_index probe{10};
  std::string text = "reads at clock 10 need " + text_of(admission.need(probe, admission.bound())) +
                     ", or copies of " + text_of(admission.cache_need(probe, admission.bound())) +
                     "; visibility " + name_of_type<visibility_of<protocol_type>>();
  if (!orders.empty()) text += "; orders " + orders;
  text += "; " + std::to_string(p.servers()) + " servers";
  Plan::for_each_table([&](auto tag) {
    constexpr std::size_t I = decltype(tag)::index;
    using table_type = typename Plan::template table_type<I>;
    auto const& t = p.template spec<I>();
    auto const merge = p.template merge<I>();
    commit_info const sample{
        .from = {}, .stamp = probe, .c_min = probe, .c_max = probe, .workers = 8, .version = {}};
    std::uint64_t places = 0;
    constexpr std::uint64_t probes = 4096;
    for (std::uint64_t k = 0; k < probes && (t.rows == 0 || k < t.rows); ++k)
      places = mix64(places ^ p.template locator<I>().locate(key{k}).server.value());
    text += "; table " + std::to_string(I) + ": " + (table_type::bounded ? "dense " : "sparse ") +
            name_of_type<typename table_type::value_type>() +
            (versioned_table<table_type> ? " in versions, " : ", ") + std::to_string(t.rows) +
            " rows of width " + std::to_string(t.width) + ", merge " +
            name_of_type<std::remove_cvref_t<decltype(merge)>>() + " (of 8 workers: " +
            std::to_string(merge.weight(sample)) + "), placement " + std::to_string(places % 100'000);
  });
  return text;
}

}  // namespace rubato::detail
