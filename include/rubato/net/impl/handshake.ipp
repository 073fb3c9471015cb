// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/handshake.hpp"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

#include "rubato/core/error.hpp"

namespace rubato::net {
namespace {

constexpr std::string_view magic = "RBTO";
constexpr unsigned version = 1;
constexpr std::size_t sentence_max = 512;
constexpr std::byte go_on{0};
constexpr std::byte refused_byte{1};
constexpr std::byte first_of_tls{0x16};

std::array<std::byte, 32> random_nonce() {
  std::array<std::byte, 32> nonce;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), static_cast<int>(nonce.size())) !=
      1)
    throw error(errc::io, "the system gave no random numbers for a handshake");
  return nonce;
}

void append(std::vector<std::byte>& to, std::span<std::byte const> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

handshake::handshake(role mine, std::string token)
    : mine_(mine), token_(std::move(token)), my_nonce_(random_nonce()) {
  if (mine_ == role::accepting) {
    expect(part::head, head_size);
  } else {
    put_greeting();
    expect_status();
  }
}

void handshake::expect(part next, std::size_t bytes) noexcept {
  expected_ = next;
  wanted_ = bytes;
}

std::vector<std::byte> handshake::refusal(std::string_view sentence) {
  sentence = sentence.substr(0, sentence_max);
  std::vector<std::byte> bytes(3 + sentence.size());
  bytes[0] = refused_byte;
  bytes[1] = std::byte(sentence.size() & 0xFF);
  bytes[2] = std::byte(sentence.size() >> 8);
  std::ranges::copy(std::as_bytes(std::span(sentence)), bytes.begin() + 3);
  return bytes;
}

void handshake::refuse(std::string const& sentence) {
  output_ = refusal(sentence);
  expect(part::nothing, 0);
  throw handshake_refused(sentence);
}

void handshake::received(std::span<std::byte const> bytes) {
  switch (expected_) {
    case part::head:
      return on_head(bytes);
    case part::nonce:
      return on_nonce(bytes);
    case part::status:
      return on_status(bytes[0]);
    case part::proof_of_other:
      return on_proof(bytes);
    case part::refusal_length: {
      auto const size =
          std::to_integer<std::size_t>(bytes[0]) + 256 * std::to_integer<std::size_t>(bytes[1]);
      if (size == 0 || size > sentence_max) refuse("the other end refused without a reason");
      return expect(part::refusal_text, size);
    }
    case part::refusal_text:
      expect(part::nothing, 0);
      throw handshake_refused(fmt::format("the other end refused: {}", printable(bytes)));
    case part::nothing:
      break;
  }
}

void handshake::on_head(std::span<std::byte const> bytes) {
  if (mine_ == role::accepting && bytes[0] == first_of_tls)
    refuse("the peer speaks TLS, this listener does not");
  if (!std::ranges::equal(bytes.first(magic.size()), std::as_bytes(std::span(magic))))
    refuse(fmt::format("a process that does not speak Rubato's protocol: it began with '{}'",
                       printable(bytes.first(magic.size()))));
  if (auto const other = std::to_integer<unsigned>(bytes[4]); other != version)
    refuse(fmt::format("another version: {}, expected {}", other, version));
  bool const other_has_token = bytes[5] == std::byte{1};
  if (other_has_token != has_token()) {
    bool const listener_has = (mine_ == role::accepting) == has_token();
    refuse(listener_has ? "the listener has a token, and the process that connects has none"
                        : "the process that connects has a token, and the listener has none");
  }
  expect(part::nonce, nonce_size);
}

void handshake::on_nonce(std::span<std::byte const> bytes) {
  std::ranges::copy(bytes, other_nonce_.begin());
  if (other_nonce_ == my_nonce_) refuse("the greeting was sent back");
  greeted_ = true;
  if (mine_ == role::accepting) {
    output_.push_back(go_on);
    put_greeting();
    if (has_token()) put_proof();
    return expect_status();
  }
  if (has_token()) return expect(part::proof_of_other, proof_size);
  after_proof();
}

void handshake::on_status(std::byte status) {
  if (status == refused_byte) return expect(part::refusal_length, 2);
  if (status != go_on) refuse("the other end does not speak Rubato's protocol");
  if (!greeted_) return expect(part::head, head_size);
  if (mine_ == role::connecting) return expect(part::nothing, 0);
  if (has_token()) return expect(part::proof_of_other, proof_size);
  after_proof();
}

void handshake::on_proof(std::span<std::byte const> bytes) {
  auto const other = mine_ == role::accepting ? role::connecting : role::accepting;
  if (CRYPTO_memcmp(bytes.data(), proof_of(other).data(), proof_size) != 0)
    refuse("the token is wrong: it must be the same at both ends");
  after_proof();
}

// The other end is who it should be.
void handshake::after_proof() {
  output_.push_back(go_on);
  if (mine_ == role::accepting) return expect(part::nothing, 0);
  if (has_token()) put_proof();
  expect_status();
}

void handshake::put_greeting() {
  append(output_, std::as_bytes(std::span(magic)));
  output_.push_back(std::byte{version});
  output_.push_back(std::byte{has_token()});
  append(output_, my_nonce_);
}

void handshake::put_proof() { append(output_, proof_of(mine_)); }

// Different words in either direction, so that a proof is worth nothing to the one that it came
// from.
handshake::proof handshake::proof_of(role whose) const {
  std::string_view const label = whose == role::accepting ? "rubato server" : "rubato client";
  bool const first_is_mine = (whose == role::accepting) == (mine_ == role::connecting);
  std::vector<std::byte> text;
  append(text, std::as_bytes(std::span(label)));
  append(text, first_is_mine ? my_nonce_ : other_nonce_);
  append(text, first_is_mine ? other_nonce_ : my_nonce_);
  proof result;
  auto const* const made = HMAC(EVP_sha256(), token_.data(), static_cast<int>(token_.size()),
                                reinterpret_cast<unsigned char const*>(text.data()), text.size(),
                                reinterpret_cast<unsigned char*>(result.data()), nullptr);
  if (made == nullptr) throw error(errc::io, "no proof of the token could be computed");
  return result;
}

std::string printable(std::span<std::byte const> bytes) {
  std::string text;
  for (std::byte const b : bytes) {
    char const letter = std::to_integer<char>(b);
    text += letter >= ' ' && letter <= '~' ? letter : '?';
  }
  return text;
}

}  // namespace rubato::net
