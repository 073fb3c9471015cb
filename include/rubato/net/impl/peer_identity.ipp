// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/peer_identity.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "rubato/core/error.hpp"
#include "rubato/core/printable.hpp"

namespace rubato::net {
namespace {

constexpr std::string_view run_scheme = "rubato:";

/// Schemes are the same in small letters and large (RFC 3986, section 3.1).
bool speaks_of_run(std::string_view uri) {
  auto const small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(uri.substr(0, run_scheme.size()), run_scheme, {}, small);
}

std::optional<std::uint32_t> number_of(std::string_view digits) {
  std::uint32_t number = 0;
  char const* const end = digits.data() + digits.size();
  auto const read = std::from_chars(digits.data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

std::optional<certified_place> place_of(std::string_view uri) {
  std::string_view const path = uri.substr(run_scheme.size());
  std::size_t const slash = std::min(path.find('/'), path.size());
  std::string_view const name = path.substr(0, slash);
  constexpr wire::role all[] = {wire::role::worker, wire::role::server, wire::role::coordinator};
  auto const* const as = std::ranges::find_if(all, [&](wire::role r) { return name == to_string(r); });
  if (as == std::end(all)) return std::nullopt;
  if (slash == path.size()) return certified_place{*as, std::nullopt};
  auto const number = number_of(path.substr(slash + 1));
  if (!number || *as == wire::role::coordinator) return std::nullopt;  // of which there is one
  return certified_place{*as, number};
}

std::string text_of(certified_place const& p) {
  return p.number ? fmt::format("{} {}", to_string(p.as), *p.number) : fmt::format("a {}", to_string(p.as));
}

}  // namespace

std::vector<certified_place> certified_places(std::span<std::string const> uris) {
  std::vector<certified_place> all;
  for (std::string const& uri : uris) {
    if (!speaks_of_run(uri)) continue;
    auto const one = place_of(uri);
    if (!one)
      throw option_error(fmt::format("the certificate is for '{}', expected rubato:worker, rubato:worker/NUMBER, "
                                     "rubato:server, rubato:server/NUMBER or rubato:coordinator",
                                     printable(uri, 100)));
    all.push_back(*one);
  }
  return all;
}

peer_identity::peer_identity(wire::role as, std::vector<certified_place> places)
    : as_(as), places_(std::move(places)) {}

std::optional<std::string> peer_identity::objection(wire::role said) const {
  if (as_ && *as_ != said)
    return fmt::format("a process that said in its handshake that it is a {} now says that it is a {}",
                       to_string(*as_), to_string(said));
  if (places_.empty() || std::ranges::find(places_, said, &certified_place::as) != places_.end()) return std::nullopt;
  return fmt::format("the certificate of this {} is for {} only", to_string(said), places_text());
}

std::optional<std::string> peer_identity::objection(wire::role said, std::uint32_t number) const {
  if (auto why = objection(said)) return why;
  auto const allows = [&](certified_place const& p) { return p.as == said && p.number.value_or(number) == number; };
  if (places_.empty() || std::ranges::any_of(places_, allows)) return std::nullopt;
  return fmt::format("the certificate of this {} is for {} only, and not for {} {}", to_string(said), places_text(),
                     to_string(said), number);
}

std::optional<std::string> peer_identity::objection_to_any_number(wire::role said) const {
  if (auto why = objection(said)) return why;
  if (places_.empty() || std::ranges::find(places_, certified_place{said, std::nullopt}) != places_.end())
    return std::nullopt;
  return fmt::format("the certificate of this {} is for {} only, so it must ask for its number (RANK)",
                     to_string(said), places_text());
}

std::string peer_identity::places_text() const {
  constexpr std::size_t shown_max = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(places_.size(), shown_max); ++i)
    text += (text.empty() ? "" : i + 1 == places_.size() ? " and " : ", ") + text_of(places_[i]);
  if (places_.size() > shown_max) text += fmt::format(" and {} more", places_.size() - shown_max);
  return text;
}

}  // namespace rubato::net
