// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rubato/net/peer_identity.hpp"
#include "rubato/net/proof.hpp"
#include "rubato/wire/role.hpp"

namespace rubato::net {

/// Why two processes do not talk to each other; `what()` is a sentence for both ends.
class handshake_refused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What both ends of a handshake are in the run.
struct parties {
  wire::role mine = wire::role::worker;
  std::optional<wire::role> other = {};  ///< that it must be
  std::optional<std::uint32_t> number = {};  ///< of the other, where that is known
};

/// How two ends find out that they speak the same protocol and know the same token, before any
/// frame. Knows no socket: says how many bytes it needs next, and what to send.
///
///     connecting -> greeting: magic 4 | version 1 | token 1 | role 1 | nonce 32; tag 32, where there is a token
///     accepting  -> 0 | greeting without tag | proof 32, where there is a token
///     connecting -> 0 | proof 32, where there is a token
///     accepting  -> 0
///
/// In place of 0, either end may send 1 | length 2 | a sentence that says why not.
///
/// Proofs are HMACs under the token of the version, both roles and both nonces, so one that was made for a role
/// or a version is worth nothing for another. The tag is one of what the greeting itself says: who cannot make it
/// is turned away at its first bytes, and is told nothing that guesses at the token could be tried on. It may
/// have been overheard, so by itself it lets nobody in.
class handshake {
 public:
  enum class role { connecting, accepting };

  /// @param nonce bytes that nobody can foretell, and that no other handshake has
  handshake(role mine, std::string token, parties who, proof const& nonce);

  /// Whether the other end has said a greeting that is fine; where there is a token and the other end connects,
  /// with a tag by it.
  [[nodiscard]] bool is_greeted() const noexcept { return greeted_; }

  /// Of the other end, once that has said a greeting that is fine.
  [[nodiscard]] peer_identity other() const { return peer_identity(*who_.other, places_); }
  /// The URIs that the other end's certificate is for; said before anything has been received.
  /// @throws handshake_refused as `received`, where they are not understood
  void other_is_certified(std::span<std::string const> uris);

  /// How many bytes it needs now; 0 when it has come to its end.
  [[nodiscard]] std::size_t wanted() const noexcept { return wanted_; }
  /// These bytes have come, as many as wanted. @throws handshake_refused; there may still be
  /// something to send then
  void received(std::span<std::byte const> bytes);
  /// What is to be sent; after that, nothing until more has come.
  [[nodiscard]] std::vector<std::byte> output() { return std::exchange(output_, {}); }

  /// A refusal as it travels.
  [[nodiscard]] static std::vector<std::byte> refusal(std::string_view sentence);

 private:
  static constexpr std::size_t nonce_size = 32;
  static constexpr std::size_t proof_size = sizeof(proof);
  static constexpr std::size_t head_size = 7;  // magic, version, token, role
  enum class part { head, nonce, tag, status, proof_of_other, refusal_length, refusal_text, nothing };

  [[noreturn]] void refuse(std::string const& sentence);
  void expect(part next, std::size_t bytes) noexcept;
  void expect_status() noexcept { expect(part::status, 1); }
  void on_head(std::span<std::byte const> bytes);
  void on_role(std::byte said);
  void on_nonce(std::span<std::byte const> bytes);
  void on_tag(std::span<std::byte const> bytes);
  void on_greeting();
  void on_status(std::byte status);
  void on_proof(std::span<std::byte const> bytes);
  void after_proof();
  void put_greeting();
  void put_proof();
  [[noreturn]] void refuse_token();
  [[nodiscard]] proof proof_of(role whose) const;
  [[nodiscard]] proof tag_of(wire::role who, proof const& nonce) const;
  [[nodiscard]] bool has_token() const noexcept { return !token_.empty(); }

  role mine_;
  std::string token_;
  parties who_;  // the other end's role is what it has said, from its greeting on
  std::vector<certified_place> places_;  // that the other end's certificate is for
  proof my_nonce_;
  proof other_nonce_ = {};
  bool greeted_ = false;  // the other end's greeting has come
  part expected_ = part::nothing;
  std::size_t wanted_ = 0;
  std::vector<std::byte> output_;
};

}  // namespace rubato::net
