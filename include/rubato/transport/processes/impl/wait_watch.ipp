// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rubato/core/time.hpp"
#include "rubato/net/log.hpp"
#include "rubato/transport/processes/wait_watch.hpp"

namespace rubato::detail {

wait_watch::wait_watch(net::network& network, std::chrono::milliseconds after,
                       std::function<std::optional<time>()> since, std::function<std::string()> who)
    : network_(network), after_(after), when_(after), since_(std::move(since)), who_(std::move(who)) {
  if (!when_.is_off()) look_again_at(network_.now() + after_);
}

void wait_watch::look() {
  time const now = network_.now();
  time next = now + after_;  // by then another one may have waited for long
  if (auto const since = since_()) {
    if (auto const lasted = when_.due(*since, now))
      net::log(net::log_level::warning, fmt::format("for {:.1f} s now {}", to_seconds(*lasted), who_()));
    next = std::min(next, when_.next_look(*since));
  }
  look_again_at(next);
}

void wait_watch::look_again_at(time when) {
  next_look_ = network_.at(when, [this] { look(); });
}

}  // namespace rubato::detail
