// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/exposed.hpp"

#include <fmt/core.h>

#include <atomic>

#include "rubato/net/log.hpp"

namespace rubato::net {

void warn_if_exposed(address const& at, security const& keys) {
  if (keys.token.empty() || keys.tls || at.is_loopback()) return;
  static std::atomic<bool> told = false;
  if (told.exchange(true)) return;
  log(log_level::warning,
      fmt::format("{}: a token without TLS: what follows it is neither encrypted nor authenticated, so whoever can "
                  "change it on its way can take a connection over; certificates (RUBATO_TLS_CERTIFICATE, "
                  "RUBATO_TLS_KEY and RUBATO_TLS_AUTHORITY) prevent that",
                  at.text()));
}

}  // namespace rubato::net
