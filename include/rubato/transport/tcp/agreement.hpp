// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <boost/core/demangle.hpp>
#include <string>
#include <typeinfo>

#include "rubato/core/mix.hpp"
#include "rubato/core/table.hpp"

namespace rubato::detail {

/// What all processes of a run must agree on, in words that can be shown when they do not: the types
/// of protocol and tables, their sizes, and who holds which rows.
template <class Plan>
[[nodiscard]] std::string agreement(Plan const& p) {
  auto const& protocol = p.protocol_used();
  staleness const s = protocol.admission().bound();
  std::string text = boost::core::demangle(typeid(protocol).name()) + " with staleness " +
                     (s.is_infinite() ? "infinity" : std::to_string(s.clocks())) + " on " +
                     std::to_string(p.servers()) + " servers";
  Plan::for_each_table([&](auto tag) {
    constexpr std::size_t I = decltype(tag)::index;
    auto const& t = p.template spec<I>();
    text += "; table " + std::to_string(I) + ": " + boost::core::demangle(typeid(t).name()) +
            " of " + std::to_string(t.rows) + " rows of width " + std::to_string(t.width);
    std::uint64_t places = 0;  // of rows near the beginning: enough to tell partitions apart
    constexpr std::uint64_t probes = 64;
    for (std::uint64_t k = 0; k < probes && (t.rows == 0 || k < t.rows); ++k)
      places = mix64(places ^ p.template locator<I>().locate(key{k}).server.value());
    text += " placed " + std::to_string(places);
  });
  return text;
}

}  // namespace rubato::detail
