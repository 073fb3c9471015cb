// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/address.hpp"

#include <fmt/core.h>

#include <charconv>
#include <optional>
#include <utility>

#include <boost/asio/ip/address.hpp>

#include "rubato/core/error.hpp"
#include "rubato/core/printable.hpp"

namespace rubato::net {
namespace {

constexpr std::string_view unix_prefix = "unix:";

[[noreturn]] void throw_malformed(std::string_view text, std::string_view what) {
  throw option_error(fmt::format(
      "the address '{}' {}; expected host:port, [::1]:port, or unix:/path", printable(text, 200), what));
}

std::optional<std::uint16_t> port_of(std::string_view digits) {
  std::uint16_t port = 0;
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return port;
}

address parse_unix(std::string_view text) {
  std::string_view const path = text.substr(unix_prefix.size());
  if (path.empty()) throw_malformed(text, "has no path");
  if (path.find('\0') != path.npos) throw_malformed(text, "has a zero byte in its path");
  return {.host = {}, .port = 0, .path = std::string(path)};
}

}  // namespace

address address::parse(std::string_view text) {
  if (text.starts_with(unix_prefix)) return parse_unix(text);
  auto const colon = text.rfind(':');
  if (colon == text.npos) throw_malformed(text, "has no port");
  auto const port = port_of(text.substr(colon + 1));
  if (!port) throw_malformed(text, "has a port that is no number from 0 to 65535");
  std::string_view host = text.substr(0, colon);
  bool const in_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (host.empty()) throw_malformed(text, "has no host");
  if (host.find_first_of("[] /\t\n") != host.npos || host.find('\0') != host.npos)
    throw_malformed(text, "has a host that cannot be one");
  if (!in_brackets && host.find(':') != host.npos)
    throw_malformed(text, "has several colons, and IPv6 numbers need brackets");
  if (in_brackets && host.find(':') == host.npos)
    throw_malformed(text, "has brackets around what is no IPv6 number");
  return {.host = std::string(host), .port = *port, .path = {}};
}

std::string address::text() const {
  if (is_unix()) return fmt::format("{}{}", unix_prefix, path);
  bool const needs_brackets = host.find(':') != host.npos;
  return needs_brackets ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool address::is_name() const {
  if (is_unix()) return false;
  boost::system::error_code no_number;
  (void)boost::asio::ip::make_address(host, no_number);
  return static_cast<bool>(no_number);
}

bool address::is_loopback() const {
  if (is_unix() || host == "localhost") return true;
  boost::system::error_code no_number;
  auto const number = boost::asio::ip::make_address(host, no_number);
  if (no_number) return false;
  if (number.is_v6() && number.to_v6().is_v4_mapped()) {
    auto const v4 = boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, number.to_v6());
    return v4.is_loopback();
  }
  return number.is_loopback();
}

}  // namespace rubato::net
