// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Decodes any bytes as a control message, and as each kind of meta.
#include <sanitizer/allocator_interface.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/input.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::fuzz {
namespace {

std::size_t taken = 0;  // bytes of memory asked for since it was last set

/// Of memory asked for by byte of a message: texts are the worst, with 4 bytes for each empty one,
/// in vectors that have grown.
constexpr std::size_t memory_per_byte = 32;
constexpr std::size_t memory_at_least = 4096;  // sentences of errors, and an encoder's first buffer

/// The message, unless it is refused; anything but a frame_error ends the fuzzer.
template <class Decode>
auto decoded(std::span<std::byte const> of, Decode decode) {
  std::optional<decltype(decode(of))> message;
  taken = 0;
  try {
    message = decode(of);
  } catch (wire::frame_error const&) {
  }
  FUZZ_REQUIRE(taken <= memory_at_least + memory_per_byte * of.size());
  return message;
}

/// No two texts of bytes are the same message, so what comes out is what went in.
template <class Decode, class Encode>
void there_and_back(std::span<std::byte const> of, Decode decode, Encode encode) {
  auto const message = decoded(of, decode);
  if (!message) return;
  bytes const again = encode(*message);
  FUZZ_REQUIRE(again == bytes(of.begin(), of.end()));
  FUZZ_REQUIRE(decoded(again, decode).has_value());
}

bool has_sentences(wire::control_message const& m) {
  return std::visit([](auto const& of) {
    return requires { of.sentence; } || requires { of.failure; } || requires { of.change_reasons; } ||
           requires { of.absent; };
  }, m);
}

/// Sentences are made printable as they come in, and what has come in once stays what it is; all else comes out
/// as it went in.
void control_there_and_back(std::span<std::byte const> of) {
  auto const message = decoded(of, wire::decode_control);
  if (!message) return;
  bytes const again = wire::encode(*message);
  FUZZ_REQUIRE(has_sentences(*message) || again == bytes(of.begin(), of.end()));
  there_and_back(again, wire::decode_control, [](wire::control_message const& m) { return wire::encode(m); });
}

template <class Meta>
void meta_there_and_back(std::span<std::byte const> of) {
  there_and_back(of, wire::from_bytes<Meta>, wire::to_bytes<Meta>);
}

template <class... Meta>
void each_meta(std::span<std::byte const> of) {
  (meta_there_and_back<Meta>(of), ...);
}

}  // namespace
}  // namespace rubato::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  __sanitizer_install_malloc_and_free_hooks(
      [](void const volatile*, std::size_t size) { rubato::fuzz::taken += size; },
      [](void const volatile*) {});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace rubato;
  auto const all = std::as_bytes(std::span(data, size));
  fuzz::control_there_and_back(all);
  fuzz::each_meta<wire::commit_meta, wire::request_meta, wire::reply_meta,
                  wire::refused_meta, wire::part_size, wire::peer_meta, wire::parameters_meta, wire::memory_meta,
                  std::uint64_t>(all);
  return 0;
}
