// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "seeds.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace rubato::test {
namespace {

// Throws unless the whole text is a number, so that a mistyped seed never runs as another one.
std::uint64_t parse(std::string_view what, std::string_view text) {
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument(std::string(what) + " is '" + std::string(text) +
                                "', but must be a number");
  }
  return number;
}

std::optional<std::uint64_t> asked(std::string const& option, char const* variable) {
  if (!option.empty()) return parse("the option for seeds", option);
  char const* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return parse(variable, text);
}

}  // namespace

seed_options& options() {
  static seed_options given;
  return given;
}

std::uint64_t seed_count(std::uint64_t usual) {
  if (auto const count = asked(options().count, "RUBATO_SEEDS")) return *count;
  if (asked(options().first, "RUBATO_SEED")) return 1;
  return std::max<std::uint64_t>(1, sanitized() ? usual / 10 : usual);
}

std::string repeat_by(std::uint64_t seed) {
  return "repeat by " + options().program + " --from " + options().file + " --seed " + std::to_string(seed);
}

bool sanitized() {
#ifdef RUBATO_TEST_SANITIZED
  return true;
#else
  return false;
#endif
}

std::uint64_t first_seed() { return asked(options().first, "RUBATO_SEED").value_or(1); }

}  // namespace rubato::test
