// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "rubato/core/error.hpp"

namespace rubato::net {

proof make_proof(std::span<std::byte const> key, std::span<std::byte const> of) {
  proof result;
  auto const* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<unsigned char const*>(of.data()), of.size(), result.data(), nullptr);
  if (made == nullptr) throw error(errc::io, "no proof of a secret could be computed");
  return result;
}

bool are_same(std::span<std::byte const> a, std::span<std::byte const> b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_with_secrets(std::span<std::byte> bytes) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1)
    throw error(errc::io, "the system gave no random numbers for a secret");
}

proof fresh_secret() {
  proof secret;
  fill_with_secrets(std::as_writable_bytes(std::span(secret)));
  return secret;
}

}  // namespace rubato::net
