// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rubato {

namespace detail {

/// How many bytes of `text` are one character of UTF-8 that moves no cursor and turns no line around; 0: none.
[[nodiscard]] inline std::size_t visible_bytes(std::string_view text) noexcept {
  auto const byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  auto const follows = [&](std::size_t i) { return byte(i) >= 0x80 && byte(i) < 0xC0; };
  unsigned const first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  std::size_t const bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if (!follows(i)) return 0;
  if (first == 0xC2 && byte(1) < 0xA0) return 0;  // control characters
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90)) return 0;  // longer than need be
  if (first == 0xED && byte(1) >= 0xA0) return 0;                                         // half a character
  if (first == 0xF4 && byte(1) >= 0x90) return 0;                                         // beyond the last one
  // Marks of direction, and breaks of lines.
  if (first == 0xE2 && byte(1) == 0x80 && (byte(2) >= 0xA8 && byte(2) <= 0xAE)) return 0;
  if (first == 0xE2 && byte(1) == 0x80 && (byte(2) == 0x8E || byte(2) == 0x8F)) return 0;
  if (first == 0xE2 && byte(1) == 0x81 && (byte(2) >= 0xA6 && byte(2) <= 0xA9)) return 0;
  return bytes;
}

}  // namespace detail

/// What somebody else said, for logs, terminals and messages of errors: in UTF-8, with `\n`, `\t` and `\x1b` for
/// what is no visible character, in at most `most` bytes, of which the last are "..." where more was said. What
/// is printable stays as it is, so that a sentence may pass through many hands. @pre most >= 3
[[nodiscard]] inline std::string printable(std::string_view said, std::size_t most = 1000) {
  constexpr char const* digits = "0123456789abcdef";
  std::string text;
  std::size_t cut = 0;  // where "..." would still fit
  while (!said.empty()) {
    std::size_t const bytes = detail::visible_bytes(said);
    auto const first = static_cast<unsigned char>(said.front());
    std::string next(said.substr(0, bytes));
    if (first == '\n' || first == '\t') next = first == '\n' ? "\\n" : "\\t";
    else if (bytes == 0) next = std::string("\\x") + digits[first / 16] + digits[first % 16];
    if (text.size() + next.size() > most) return text.erase(cut) += "...";
    text += next;
    if (text.size() + 3 <= most) cut = text.size();
    said.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return text;
}

}  // namespace rubato
