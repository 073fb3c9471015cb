// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <CLI/CLI.hpp>

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <system_error>

namespace rubato::tools {

/// What is wrong with a whole number, or "". Leaves it in digits alone: by 010 CLI11 would mean 8.
template <std::integral T>
std::string read_whole_number(std::string& text) {
  T value{};
  char const* const end = text.data() + text.size();
  auto const [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure == std::errc{} && stop == end) {
    text = std::to_string(value);
    return "";
  }
  return '"' + text + "\", expected a whole number from " +
         (std::unsigned_integral<T> ? "0 to 2^64 - 1" : "-2^63 to 2^63 - 1");
}

/// Makes all options of a program and its commands that are whole numbers refuse what is none. By itself CLI11 makes -1
/// the largest number where an option has no sign, and so what is larger.
inline void check_whole_numbers(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    std::string const type = option->get_type_name();
    if (type.starts_with("UINT")) option->transform(CLI::Validator(read_whole_number<std::uint64_t>, ""));
    if (type.starts_with("INT")) option->transform(CLI::Validator(read_whole_number<std::int64_t>, ""));
  }
  for (CLI::App* const command : app.get_subcommands([](CLI::App*) { return true; })) check_whole_numbers(*command);
}

}  // namespace rubato::tools
