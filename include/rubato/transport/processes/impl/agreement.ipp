// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/agreement.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

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

/// How many bytes of whole parts, each behind a divider, both end with.
std::size_t common_behind(std::string_view here, std::string_view there) {
  auto const differ = std::mismatch(here.rbegin(), here.rend(), there.rbegin(), there.rend());
  auto const same = static_cast<std::size_t>(differ.first - here.rbegin());
  auto const at = here.find(divider, here.size() - same);
  return at == std::string_view::npos ? 0 : here.size() - at;
}

/// The first part of the rest, which is what is behind it then.
std::string_view take_part(std::string_view& rest) {
  std::string_view const part = rest.substr(0, rest.find(divider));
  rest.remove_prefix(std::min(rest.size(), part.size() + divider.size()));
  return part;
}

std::size_t count_parts(std::string_view text) {
  std::size_t n = 0;
  for (; !text.empty(); ++n) (void)take_part(text);
  return n;
}

void append_part(std::string& text, std::string_view part) {
  if (!text.empty()) text += divider;
  text += part;
}

constexpr std::size_t shown_max = 400;

/// For a message: of a long one that is like the other for `same` bytes, from shortly before these end.
std::string quoted(std::string_view text, std::size_t same) {
  constexpr std::size_t before = 60;
  if (text.empty()) return "nothing";
  bool const starts_later = text.size() > shown_max && same > before;
  if (starts_later) text.remove_prefix(same - before);
  return "\"" + std::string(starts_later ? "..." : "") + printable(text, shown_max) + "\"";
}

/// Of two that have as many parts, those that differ, as far as they are shown.
disagreement different_parts(std::string_view here, std::string_view there, std::size_t same) {
  std::string ours, theirs;
  while (!here.empty() && std::min(ours.size(), theirs.size()) <= same + shown_max) {
    std::string_view const mine = take_part(here), other = take_part(there);
    if (mine == other) continue;
    append_part(ours, mine);
    append_part(theirs, other);
  }
  return {quoted(ours, same), quoted(theirs, same)};
}

}  // namespace

disagreement difference(std::string_view here, std::string_view there) {
  std::size_t const differs = common_bytes(here, there);
  std::size_t const from = first_part(here, there, differs);
  std::size_t const same = differs - std::min(differs, from);  // of the first part
  here.remove_prefix(std::min(here.size(), from));
  there.remove_prefix(std::min(there.size(), from));
  std::size_t const behind = common_behind(here, there);
  here.remove_suffix(behind);
  there.remove_suffix(behind);
  if (count_parts(here) == count_parts(there)) return different_parts(here, there, same);
  return {quoted(here, same), quoted(there, same)};
}

std::optional<std::string> difference_of_silence(std::string const& who, std::int64_t theirs,
                                                 std::chrono::milliseconds here) {
  if (theirs == here.count()) return std::nullopt;
  return who + " has a silence (RUBATO_SILENCE) of " + std::to_string(theirs) + " ms; expected the coordinator's, " +
         std::to_string(here.count()) + " ms: the same on all";
}

}  // namespace rubato::detail
