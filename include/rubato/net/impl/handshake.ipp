// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/handshake.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "rubato/core/error.hpp"
#include "rubato/core/printable.hpp"

namespace rubato::net {
namespace {

constexpr std::string_view magic = "RBTO";
constexpr unsigned version = 2;
constexpr std::size_t sentence_max = 512;
constexpr std::byte go_on{0};
constexpr std::byte refused_byte{1};
constexpr std::byte first_of_tls{0x16};

void append(std::vector<std::byte>& to, std::span<std::byte const> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::string shown(std::span<std::byte const> bytes) {
  return printable({reinterpret_cast<char const*>(bytes.data()), bytes.size()});
}

}  // namespace

handshake::handshake(role mine, std::string token, parties who, proof const& nonce)
    : mine_(mine), token_(std::move(token)), who_(who), my_nonce_(nonce) {
  if (mine_ == role::accepting) {
    expect(part::head, head_size);
  } else {
    put_greeting();
    if (has_token()) append(output_, bytes_of(tag_of(who_.mine, my_nonce_)));
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
    case part::tag:
      return on_tag(bytes);
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
      throw handshake_refused(fmt::format("the other end refused: {}", shown(bytes)));
    case part::nothing:
      break;
  }
}

void handshake::on_head(std::span<std::byte const> bytes) {
  if (mine_ == role::accepting && bytes[0] == first_of_tls)
    refuse("the peer speaks TLS, this listener does not");
  if (!std::ranges::equal(bytes.first(magic.size()), std::as_bytes(std::span(magic))))
    refuse(fmt::format("a process that does not speak Rubato's protocol: it began with '{}'",
                       shown(bytes.first(magic.size()))));
  if (auto const other = std::to_integer<unsigned>(bytes[4]); other != version)
    refuse(fmt::format("another version: {}, expected {}", other, version));
  bool const other_has_token = bytes[5] == std::byte{1};
  if (other_has_token != has_token()) {
    bool const listener_has = (mine_ == role::accepting) == has_token();
    refuse(listener_has ? "the listener has a token, and the process that connects has none"
                        : "the process that connects has a token, and the listener has none");
  }
  on_role(bytes[6]);
  expect(part::nonce, nonce_size);
}

void handshake::on_role(std::byte said) {
  auto const other = static_cast<wire::role>(said);
  char const* const which = mine_ == role::accepting ? "connects" : "listens";
  if (other > wire::role::coordinator) refuse(fmt::format("the process that {} has no role that there is", which));
  if (who_.other && *who_.other != other)
    refuse(fmt::format("the process that {} is a {}, expected a {}", which, to_string(other), to_string(*who_.other)));
  who_.other = other;
  peer_identity const shown(other, places_);
  if (auto const why = who_.number ? shown.objection(other, *who_.number) : shown.objection(other)) refuse(*why);
}

void handshake::other_is_certified(std::span<std::string const> uris) {
  try {
    places_ = certified_places(uris);
  } catch (option_error const& e) {
    refuse(e.what());
  }
}

void handshake::on_nonce(std::span<std::byte const> bytes) {
  std::ranges::copy(bytes, std::as_writable_bytes(std::span(other_nonce_)).begin());
  if (other_nonce_ == my_nonce_) refuse("the greeting was sent back");
  if (mine_ == role::accepting && has_token()) return expect(part::tag, proof_size);
  on_greeting();
}

void handshake::on_tag(std::span<std::byte const> bytes) {
  if (!are_same(bytes, bytes_of(tag_of(*who_.other, other_nonce_)))) refuse_token();
  on_greeting();
}

void handshake::on_greeting() {
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
  if (!are_same(bytes, bytes_of(proof_of(other)))) refuse_token();
  after_proof();
}

void handshake::refuse_token() { refuse("the token is wrong: it must be the same at both ends"); }

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
  output_.push_back(std::byte(who_.mine));
  append(output_, bytes_of(my_nonce_));
}

void handshake::put_proof() { append(output_, bytes_of(proof_of(mine_))); }

// Different words in either direction, so that a proof is worth nothing to the one that it came
// from.
proof handshake::proof_of(role whose) const {
  std::string_view const label = whose == role::accepting ? "rubato server" : "rubato client";
  bool const i_connect = mine_ == role::connecting;
  std::vector<std::byte> text;
  append(text, std::as_bytes(std::span(label)));
  text.push_back(std::byte{version});
  text.push_back(std::byte(i_connect ? who_.mine : *who_.other));
  text.push_back(std::byte(i_connect ? *who_.other : who_.mine));
  bool const first_is_mine = (whose == role::accepting) == i_connect;
  append(text, bytes_of(first_is_mine ? my_nonce_ : other_nonce_));
  append(text, bytes_of(first_is_mine ? other_nonce_ : my_nonce_));
  return make_proof(std::as_bytes(std::span(token_)), text);
}

proof handshake::tag_of(wire::role who, proof const& nonce) const {
  constexpr std::string_view label = "rubato greeting";
  std::vector<std::byte> text;
  append(text, std::as_bytes(std::span(label)));
  text.push_back(std::byte{version});
  text.push_back(std::byte(who));
  append(text, bytes_of(nonce));
  return make_proof(std::as_bytes(std::span(token_)), text);
}

}  // namespace rubato::net
