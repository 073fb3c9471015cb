// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// How floating-point values are written in fewer bytes. A table names one for each direction:
/// `.codec = {.updates = bfloat16{}, .answers = bfloat16{}}`.
///
/// | expression             | result        | meaning |
/// |------------------------|---------------|---------|
/// | `c.bytes(n)`           | `std::size_t` | what n values take; of n alone, and at least 1 of one value or more |
/// | `c.encode(values, to)` |               | n values, a span of `float const`, into a span of `c.bytes(n)` bytes |
/// | `c.decode(from, to)`   |               | the other way; any bytes whatever give some n values |
///
/// All are noexcept, and depend on nothing but their arguments. Law: what has been rounded once is rounded no more,
/// `decode(encode(y))` is y bit for bit for each y that `decode` has made of what `encode` wrote; and zeros stay zeros
/// where all are. So updates and answers are what they will be at the other end before they leave, whichever way they
/// go: in process, in virtual time and over a network the results are the same. Values are coded in pieces of whole
/// rows that take up to 64 KiB uncoded, or of one row where that is longer; answers to reads by key row by row. Doubles
/// are made floats first, the nearest that are finite where they are. `testing::check_codec` checks the law.
/// Models: `bfloat16`, `int8_blocks`, and the user's own of [examples/056](examples/056_a_codec_of_your_own.cpp).
template <class C>
concept codec = std::copyable<C> && requires(C const c, std::size_t n, std::span<float const> values,
                                             std::span<std::byte> to, std::span<std::byte const> from,
                                             std::span<float> decoded) {
  { c.bytes(n) } noexcept -> std::same_as<std::size_t>;
  { c.encode(values, to) } noexcept;
  { c.decode(from, decoded) } noexcept;
};

namespace detail {

/// One, or one that lacks something.
template <class C>
concept is_meant_as_codec = codec<C> || requires { &C::encode; } || requires { &C::decode; };

/// Says in a sentence what a type lacks to be a codec. Whether it lacks nothing.
template <class C>
consteval bool diagnose_codec() {
  static_assert(std::copyable<C>, "a codec must be copyable, by assignment too");
  static_assert(requires(C const c, std::size_t n) { { c.bytes(n) } noexcept -> std::same_as<std::size_t>; },
                "a codec needs bytes(std::size_t) const noexcept, which gives a std::size_t");
  static_assert(requires(C const c, std::span<float const> values, std::span<std::byte> to) {
    { c.encode(values, to) } noexcept;
  }, "a codec needs encode(std::span<float const>, std::span<std::byte>) const noexcept");
  static_assert(requires(C const c, std::span<std::byte const> from, std::span<float> to) {
    { c.decode(from, to) } noexcept;
  }, "a codec needs decode(std::span<std::byte const>, std::span<float>) const noexcept");
  return codec<C>;
}

}  // namespace detail

/// A codec as a value, or none. Tables may be constants as long as they have none.
/// Thread safety: any thread, but for assignment.
class codec_rule {
 public:
  constexpr codec_rule() noexcept = default;
  /// Any codec converts. @throws what its `check()` does, if it has one
  template <class C>
    requires(!std::same_as<C, codec_rule> && detail::is_meant_as_codec<C>)
  codec_rule(C policy) : fingerprint_(detail::fingerprint_of(policy)), type_(&typeid(C)) {  // NOLINT: meant to convert
    if constexpr (detail::diagnose_codec<C>()) calls_ = new model<C>(detail::checked(std::move(policy)));
  }
  /// The same codec, copied.
  constexpr codec_rule(codec_rule const& other)
      : fingerprint_(other.fingerprint_),
        type_(other.type_),
        calls_(other.calls_ == nullptr ? nullptr : other.calls_->clone()) {}
  /// Takes it; `other` has none.
  constexpr codec_rule(codec_rule&& other) noexcept
      : fingerprint_(other.fingerprint_), type_(other.type_), calls_(std::exchange(other.calls_, nullptr)) {}
  codec_rule& operator=(codec_rule const& other) { return *this = codec_rule(other); }
  codec_rule& operator=(codec_rule&& other) noexcept {
    std::swap(fingerprint_, other.fingerprint_);
    std::swap(type_, other.type_);
    std::swap(calls_, other.calls_);
    return *this;
  }
  // A unique_ptr is none of a constant before C++23.
  constexpr ~codec_rule() {
    if (calls_ != nullptr) destroy(calls_);
  }

  /// Whether there is one.
  [[nodiscard]] constexpr explicit operator bool() const noexcept { return calls_ != nullptr; }
  /// What the codec says of itself, see `fingerprinted_policy`.
  [[nodiscard]] std::optional<std::uint64_t> fingerprint() const noexcept { return fingerprint_; }
  /// Its type, for messages. @pre there is one
  [[nodiscard]] std::type_info const& type() const noexcept { return *type_; }

  // ---- what the codec itself does; @pre there is one

  /// What n values take.
  [[nodiscard]] std::size_t bytes(std::size_t n) const noexcept { return calls_->bytes(n); }
  /// Writes values. @pre `to` has `bytes(values.size())`
  void encode(std::span<float const> values, std::span<std::byte> to) const noexcept { calls_->encode(values, to); }
  /// Reads them back. @pre `from` has `bytes(to.size())`
  void decode(std::span<std::byte const> from, std::span<float> to) const noexcept { calls_->decode(from, to); }

 private:
  struct calls {
    virtual ~calls() = default;
    [[nodiscard]] virtual calls* clone() const = 0;
    [[nodiscard]] virtual std::size_t bytes(std::size_t n) const noexcept = 0;
    virtual void encode(std::span<float const> values, std::span<std::byte> to) const noexcept = 0;
    virtual void decode(std::span<std::byte const> from, std::span<float> to) const noexcept = 0;
  };
  template <class C>
  struct model final : calls {
    explicit model(C c) : policy(std::move(c)) {}
    [[nodiscard]] calls* clone() const override { return new model(policy); }
    [[nodiscard]] std::size_t bytes(std::size_t n) const noexcept override { return policy.bytes(n); }
    void encode(std::span<float const> values, std::span<std::byte> to) const noexcept override {
      policy.encode(values, to);
    }
    void decode(std::span<std::byte const> from, std::span<float> to) const noexcept override {
      policy.decode(from, to);
    }
    C policy;
  };

  static void destroy(calls const* c) noexcept { delete c; }

  std::optional<std::uint64_t> fingerprint_{};
  std::type_info const* type_ = nullptr;
  calls const* calls_ = nullptr;
};

/// How a table's values go over a wire.
///
/// *Updates*, with error feedback: what rounding takes away from a commit is kept beside, and added to the same rows
/// where the worker commits them again. Never does it make a row go by itself, so keyed commits stay as short as they
/// are; only the commit that ends a worker's body sends all of it, and what that one rounds away is lost, as is what a
/// commit right before the end has left. The worker's own reads show it, as they show all of its pushes. It takes as
/// much memory as the rows that the worker has pushed. Filters come first, and do not see it. Merges get what has been
/// rounded. Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed
/// training of speech DNNs", Interspeech 2014; Karimireddy et al., "Error feedback fixes SignSGD and other gradient
/// compression schemes", ICML 2019, Algorithm 2.
///
/// *Answers* to workers' reads, which are rounded anew each time: a worker's reads show its own pushes, and do not go
/// back, up to what rounding takes away. Servers keep all digits, and so do observers (`cluster.parameters()`), checkpoints,
/// what is moved between processes, and the copies that a merge keeps of what a worker has read.
struct table_codec {
  codec_rule updates{};  ///< what workers commit
  codec_rule answers{};  ///< what workers read
};

}  // namespace rubato
