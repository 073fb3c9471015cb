// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/agreement.hpp"

#include <algorithm>
#include <cstddef>

#include "rubato/core/printable.hpp"

namespace rubato::detail {

namespace {

constexpr std::string_view divider = "; ";

/// Where `text` and `other` begin to differ.
std::size_t common_bytes(std::string_view text, std::string_view other) {
  return static_cast<std::size_t>(std::ranges::mismatch(text, other).in1 - text.begin());
}

/// Where the first part begins that is not the same in both, which differ from `differs` on.
std::size_t first_part(std::string_view here, std::string_view there, std::size_t differs) {
  auto const ends = [&](std::string_view text) {
    return differs == text.size() || text.substr(differs).starts_with(divider);
  };
  if (differs != 0 && ends(here) && ends(there)) return differs + divider.size();
  auto const last = here.substr(0, differs).rfind(divider);
  return last == std::string_view::npos ? 0 : last + divider.size();
}

/// Its part that is between what both begin and end with. `from` to `behind` from its end.
std::string quoted(std::string_view text, std::size_t from, std::size_t behind, std::size_t differs) {
  constexpr std::size_t most = 400, before = 60;
  if (from + behind >= text.size()) return "nothing";
  std::string_view part = text.substr(from, text.size() - from - behind);
  bool const starts_later = part.size() > most && differs > from + before;
  if (starts_later) part.remove_prefix(differs - from - before);
  return "\"" + std::string(starts_later ? "..." : "") + printable(part, most) + "\"";
}

}  // namespace

disagreement difference(std::string_view here, std::string_view there) {
  std::size_t const differs = common_bytes(here, there);
  std::size_t const from = first_part(here, there, differs);
  std::size_t behind = 0;  // whole parts that both end with
  while (true) {
    auto const next = here.rfind(divider, here.size() - behind - 1);
    if (next == std::string_view::npos || next < from || next == 0) break;
    std::size_t const bytes = here.size() - next;
    if (from + bytes > there.size() || here.substr(next) != there.substr(there.size() - bytes)) break;
    behind = bytes;
  }
  return {quoted(here, from, behind, differs), quoted(there, from, behind, differs)};
}

}  // namespace rubato::detail
