// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "rubato/core/clock.hpp"
#include "rubato/core/element.hpp"
#include "rubato/server/blueprint.hpp"

namespace rubato::detail {

/// Checks what a body gives to a worker's pulls and pushes, before anything is touched. All throw
/// usage_error naming the call, the worker, the table, and what was expected.
class argument_check {
 public:
  argument_check(blueprint const& plan, std::uint32_t rank, std::size_t protocol)
      : plan_(plan), rank_(rank), goes_by_clocks_(plan.goes_by_clocks(protocol)) {}

  /// There is such a table, and it has not been named before in the same call.
  void named_once(char const* call, std::size_t table, bool before) const {
    if (before || table >= plan_.tables().size()) refuse_table(call, table);
  }
  /// The table has such elements, and is asked for as a whole only if it is bounded.
  void kind(char const* call, std::size_t table, element_type given, bool whole) const {
    table_blueprint const& t = plan_.table(table);
    if (given != t.element() || (whole && !t.bounded())) refuse_kind(call, table, given);
  }
  /// `given` elements are a whole table.
  void whole(char const* call, std::size_t table, std::size_t given) const {
    std::size_t const expected = plan_.table(table).elements();
    if (given != expected) refuse_size(call, table, given, expected, "rows");
  }
  /// `given` elements are this many rows.
  void rows(char const* call, std::size_t table, std::size_t keys, std::size_t given) const {
    std::size_t const expected = keys * plan_.table(table).width();
    if (given != expected) refuse_size(call, table, given, expected, "keys");
  }
  /// The table has all these rows.
  void keys(char const* call, std::size_t table, std::span<std::uint64_t const> keys) const {
    locator const& rows = plan_.table(table).where();
    if (!rows.contains_all(keys)) refuse_keys(call, table, keys);
  }
  /// The values are finite, if the user asked for the check.
  void finite(char const* call, std::size_t table, std::byte const* values, std::size_t count) const {
    if (plan_.table(table).description().check_finite) find_not_finite(call, table, values, count);
  }
  /// The staleness that a read asked for, or else the protocol's.
  [[nodiscard]] staleness allowed(std::size_t table, std::optional<staleness> asked, staleness bound) const {
    if (!asked) return bound;
    if (*asked > bound || (*asked < bound && !goes_by_clocks_)) refuse_staleness(table, *asked, bound);
    return *asked;
  }

 private:
  // Out of line, so that what is called for each row is short.
  [[gnu::noinline]] void find_not_finite(char const* call, std::size_t table, std::byte const* values,
                                         std::size_t count) const;
  [[noreturn]] void refuse_size(char const* call, std::size_t table, std::size_t given,
                                std::size_t expected, char const* of) const;
  [[noreturn]] void refuse_staleness(std::size_t table, staleness asked, staleness bound) const;
  [[noreturn]] void refuse_table(char const* call, std::size_t table) const;
  [[noreturn]] void refuse_kind(char const* call, std::size_t table, element_type given) const;
  [[noreturn]] void refuse_keys(char const* call, std::size_t table, std::span<std::uint64_t const> keys) const;
  [[nodiscard]] std::string where(char const* call, std::size_t table) const;

  blueprint const& plan_;
  std::uint32_t rank_;
  bool goes_by_clocks_;
};

}  // namespace rubato::detail
