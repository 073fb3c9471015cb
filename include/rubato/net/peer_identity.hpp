// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rubato/wire/role.hpp"

namespace rubato::net {

/// What a certificate lets its holder be in a run: a process of this role, and where a number is given, that one.
struct certified_place {
  wire::role as = wire::role::worker;  ///< what it is
  std::optional<std::uint32_t> number = {};  ///< nothing: any

  friend bool operator==(certified_place const&, certified_place const&) = default;
};

/// Of the URIs that a certificate is for (subjectAltName, RFC 5280, section 4.2.1.6) those that speak of a run:
/// `rubato:worker`, `rubato:worker/3`, `rubato:server`, `rubato:server/0`, `rubato:coordinator`. Others are passed
/// over.
/// @throws option_error that shows one which begins with `rubato:` and is none of these
[[nodiscard]] std::vector<certified_place> certified_places(std::span<std::string const> uris);

/// What the other end of a connection has shown itself to be before its first frame. What it says later, in its hello
/// and to the coordinator, is held against that. Objections are sentences for both ends; nothing where there is none.
class peer_identity {
 public:
  /// Of a connection without a handshake: it may be anything.
  peer_identity() = default;
  /// @param as what it has said in the handshake, and where there is a token has proved with it
  /// @param places that its certificate is for; none: any
  explicit peer_identity(wire::role as, std::vector<certified_place> places = {});

  /// Why it cannot speak as a process of this role.
  [[nodiscard]] std::optional<std::string> objection(wire::role said) const;
  /// Why it cannot speak as this process.
  [[nodiscard]] std::optional<std::string> objection(wire::role said, std::uint32_t number) const;
  /// Why it cannot be given any number that is free: one whose certificate names numbers asks for one of them.
  [[nodiscard]] std::optional<std::string> objection_to_any_number(wire::role said) const;

 private:
  [[nodiscard]] std::string places_text() const;

  std::optional<wire::role> as_;
  std::vector<certified_place> places_;
};

}  // namespace rubato::net
