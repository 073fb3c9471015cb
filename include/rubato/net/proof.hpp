// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rubato::net {

/// A keyed digest, or a secret of the same length.
using proof = std::array<std::uint8_t, 32>;

[[nodiscard]] inline std::span<std::byte const> bytes_of(proof const& of) noexcept {
  return std::as_bytes(std::span(of));
}
/// HMAC-SHA256 (RFC 2104) of these bytes. @throws error (errc::io)
[[nodiscard]] proof make_proof(std::span<std::byte const> key, std::span<std::byte const> of);
/// In a time that tells nothing of where they differ. False where the sizes do.
[[nodiscard]] bool are_same(std::span<std::byte const> a, std::span<std::byte const> b) noexcept;
/// Random bytes that nobody can foretell, by the system. @throws error (errc::io) where it gives none
[[nodiscard]] proof fresh_secret();
/// Fills these bytes with such numbers. @throws as `fresh_secret`
void fill_with_secrets(std::span<std::byte> bytes);

}  // namespace rubato::net
