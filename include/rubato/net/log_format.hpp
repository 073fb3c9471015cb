// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rubato/net/log.hpp"

namespace rubato::net {

/// How a line of the log is written.
enum class log_format : std::uint8_t {
  text,      ///< for people: `2026-01-31T12:00:00Z rubato-server: worker 3 is here`
  keyvalue,  ///< `time=2026-01-31T12:00:00Z level=info program=rubato-server message="worker 3 is here"`
  json,      ///< an object of the same four, all strings
};

/// Of its name; nothing where there is none such.
[[nodiscard]] std::optional<log_format> log_format_from(std::string_view name);

/// Its name.
[[nodiscard]] std::string_view to_string(log_format how) noexcept;

/// A whole line, with its newline; whatever the message holds, it stays one line of UTF-8: what is no visible
/// character is escaped, see `printable`.
[[nodiscard]] std::string log_line(log_format how, std::chrono::system_clock::time_point when, log_level level,
                                   std::string_view program, std::string_view message);

/// How warnings are written to stderr while `set_log` has named no other place; as text they are `rubato: ` and the
/// message. Elsewhere `program` is what this process was started as. Any thread.
void set_log_format(log_format how);

}  // namespace rubato::net
