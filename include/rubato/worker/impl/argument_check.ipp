// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "rubato/core/error.hpp"
#include "rubato/worker/argument_check.hpp"

namespace rubato::detail {

void argument_check::refuse_table(char const* call, std::size_t table) const {
  std::size_t const tables = plan_.tables().size();
  throw usage_error(errc::bad_option,
                    where(call, table) + (table < tables ? "it is named twice, expected each table once at most"
                                                         : "there are " + std::to_string(tables) + " tables"));
}

void argument_check::refuse_kind(char const* call, std::size_t table, element_type given) const {
  element_type const expected = plan_.table(table).element();
  throw usage_error(errc::bad_option,
                    where(call, table) + (given != expected
                                              ? std::string("elements are to be ") + to_string(given) + ", expected " +
                                                    to_string(expected)
                                              : "it has no end to be read as a whole, expected keys"));
}

void argument_check::refuse_keys(char const* call, std::size_t table, std::span<std::uint64_t const> keys) const {
  locator const& rows = plan_.table(table).where();
  auto const bad = std::ranges::find_if(keys, [&](std::uint64_t k) { return !rows.contains(key{k}); });
  throw usage_error(errc::unknown_key, where(call, table) + "key " + std::to_string(*bad) +
                                           " is not in the table, expected one below " +
                                           std::to_string(plan_.table(table).rows()));
}

void argument_check::find_not_finite(char const* call, std::size_t table, std::byte const* values,
                                     std::size_t count) const {
  with_element(plan_.table(table).element(), [&]<class T>() {
    if constexpr (std::floating_point<T>) {
      std::span const all(reinterpret_cast<T const*>(values), count);
      auto const bad = std::ranges::find_if(all, [](T x) { return !std::isfinite(x); });
      if (bad != all.end())
        throw usage_error(errc::not_finite,
                          where(call, table) + "element " + std::to_string(bad - all.begin()) +
                              " of the update is " + (std::isnan(*bad) ? "NaN" : "infinite"));
    }
  });
}

void argument_check::refuse_staleness(std::size_t table, staleness asked, staleness bound) const {
  std::string const what = where("pull", table) + "staleness " + std::to_string(asked.clocks());
  if (asked < bound)
    throw usage_error(errc::bad_staleness, what + " cannot be given, since the protocol lets in by value or folds by "
                                                  "rounds, whatever the clocks: leave it out");
  throw usage_error(errc::bad_staleness, what + " is more than the protocol's " + std::to_string(bound.clocks()));
}

void argument_check::refuse_size(char const* call, std::size_t table, std::size_t given,
                                 std::size_t expected, char const* of) const {
  throw usage_error(errc::wrong_size, where(call, table) + "the span has " + std::to_string(given) +
                                          " elements, expected " + std::to_string(expected) + " (" + of +
                                          " x width)");
}

std::string argument_check::where(char const* call, std::size_t table) const {
  return std::string(call) + ": worker " + std::to_string(rank_) + ", table " +
         std::to_string(table) + ": ";
}

}  // namespace rubato::detail
