// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/net/log_format.hpp"

namespace rubato::launch {

/// What to start, and what to do when a process ends.
struct options {
  std::uint32_t workers = 0;
  std::uint32_t servers = 1;
  std::vector<std::string> command = {};         ///< a program and its arguments
  std::vector<std::string> server_command = {};  ///< of the servers and the coordinator
  net::on_loss when_lost = net::on_loss::end;
  std::uint32_t restarts = 0;  ///< of each worker that ends with an error
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds timeout{0};  ///< 0: none
  bool prefix = true;
  bool verbose = false;
  net::log_format logs = net::log_format::text;  ///< of what is said here
};

/// Nothing if help was asked for, which `out` then has.
/// @throws option_error that names the option and what was expected
[[nodiscard]] std::optional<options> parse(int argc, char const* const* argv, std::ostream& out);

/// At spaces, except inside of `'…'` and `"…"`, which may be parts of words.
/// @throws option_error for a quote that is not closed
[[nodiscard]] std::vector<std::string> words_of(std::string_view line);

}  // namespace rubato::launch
