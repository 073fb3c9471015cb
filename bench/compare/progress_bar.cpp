// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/progress_bar.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace rubato::bench {
namespace {

constexpr std::size_t width = 24;

}  // namespace

progress_bar::progress_bar(std::size_t steps)
    : visible_(isatty(STDERR_FILENO) == 1), steps_(steps) {}

progress_bar::~progress_bar() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void progress_bar::show(std::string_view activity) {
  if (!visible_) return;
  std::lock_guard const guard(lock_);
  std::size_t const filled = width * std::min(done_, steps_) / std::max<std::size_t>(1, steps_);
  std::string const line = "\r\033[K[" + std::string(filled, '#') +
                           std::string(width - filled, '.') + "] " +
                           std::string(activity.substr(0, 50));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

void progress_bar::advance() {
  std::lock_guard const guard(lock_);
  ++done_;
}

}  // namespace rubato::bench
