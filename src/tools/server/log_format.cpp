// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/log_format.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace rubato::server_tool {

namespace {

constexpr char const* program = "rubato-server";

/// In quotes, with what would end them or the line written in another way.
std::string quoted(std::string_view text) {
  std::string all = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') all += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) all += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else all += c;
  }
  return all + '"';
}

}  // namespace

std::optional<log_format> log_format_from(std::string_view name) {
  if (name == "text") return log_format::text;
  if (name == "keyvalue") return log_format::keyvalue;
  if (name == "json") return log_format::json;
  return std::nullopt;
}

std::string log_line(log_format how, std::chrono::system_clock::time_point when, net::log_level level,
                     std::string_view message) {
  auto const time = fmt::format("{:%FT%T}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(when)));
  char const* const severity = level == net::log_level::warning ? "warning" : "info";
  switch (how) {
    case log_format::text: break;
    case log_format::keyvalue:
      return fmt::format("time={} level={} program={} message={}\n", time, severity, program, quoted(message));
    case log_format::json: {
      nlohmann::ordered_json const line{
          {"time", time}, {"level", severity}, {"program", program}, {"message", message}};
      return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
  }
  return fmt::format("{} {}: {}\n", time, program, message);
}

}  // namespace rubato::server_tool
