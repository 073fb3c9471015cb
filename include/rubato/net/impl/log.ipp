// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/log.hpp"

#include "rubato/core/printable.hpp"
#include "rubato/net/log_format.hpp"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

namespace rubato::net {
namespace {

std::atomic<log_format> format_of_warnings = log_format::text;

void warnings_to_stderr(log_level level, std::string_view line) {
  if (level != log_level::warning) return;
  log_format const how = format_of_warnings;
  // One call, so that lines of several processes do not mix.
  std::string const whole =
      how == log_format::text
          ? "rubato: " + std::string(line) + "\n"
          : log_line(how, std::chrono::system_clock::now(), level, program_invocation_short_name, line);
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

struct shared_sink {
  std::recursive_mutex mutex;  // a sink may set another one
  std::shared_ptr<log_sink const> sink = std::make_shared<log_sink const>(warnings_to_stderr);
  bool writes = false;
};

// Never destroyed: other threads may still log while the process ends.
shared_sink& the_sink() {
  static auto* const one = new shared_sink;
  return *one;
}

std::string text_of(std::chrono::system_clock::time_point when) {
  std::time_t const t = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  ::gmtime_r(&t, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%FT%TZ", &parts)};
}

/// In quotes that JSON reads as well: of what is printable only these two mean something else in them.
std::string quoted(std::string_view said) {
  std::string all = "\"";
  for (char const c : printable(said, std::numeric_limits<std::size_t>::max())) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + '"';
}

/// As a value of key=value: in quotes where it would end early.
std::string as_value(std::string_view said) {
  bool const is_one_word = said.find_first_of(" \"=\\") == std::string_view::npos && printable(said) == said;
  return is_one_word ? std::string(said) : quoted(said);
}

}  // namespace

std::optional<log_format> log_format_from(std::string_view name) {
  if (name == "text") return log_format::text;
  if (name == "keyvalue") return log_format::keyvalue;
  if (name == "json") return log_format::json;
  return std::nullopt;
}

std::string_view to_string(log_format how) noexcept {
  return how == log_format::text ? "text" : how == log_format::keyvalue ? "keyvalue" : "json";
}

std::string log_line(log_format how, std::chrono::system_clock::time_point when, log_level level,
                     std::string_view program, std::string_view message) {
  std::string const time = text_of(when);
  std::string const severity = level == log_level::warning ? "warning" : "info";
  switch (how) {
    case log_format::text: break;
    case log_format::keyvalue:
      return "time=" + time + " level=" + severity + " program=" + as_value(program) +
             " message=" + quoted(message) + "\n";
    case log_format::json:
      return "{\"time\":\"" + time + "\",\"level\":\"" + severity + "\",\"program\":" + quoted(program) +
             ",\"message\":" + quoted(message) + "}\n";
  }
  return time + " " + std::string(program) + ": " +
         printable(message, std::numeric_limits<std::size_t>::max()) + "\n";
}

void set_log_format(log_format how) { format_of_warnings = how; }

void set_log(log_sink sink) {
  auto next = std::make_shared<log_sink const>(sink ? std::move(sink) : log_sink(warnings_to_stderr));
  std::lock_guard const lock(the_sink().mutex);
  the_sink().sink.swap(next);
}

void log(log_level level, std::string const& line) {
  shared_sink& all = the_sink();
  std::lock_guard const lock(all.mutex);
  if (all.writes) return;  // a line of the sink's own
  all.writes = true;
  try {
    constexpr std::size_t most = 4000;
    auto const sink = all.sink;  // one that is replaced meanwhile lives until it returns
    (*sink)(level, printable(line, most));
  } catch (...) {  // a full disk under the log ends no run
  }
  all.writes = false;
}

}  // namespace rubato::net
