// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/log.hpp"

#include "rubato/core/printable.hpp"

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <utility>

namespace rubato::net {
namespace {

void warnings_to_stderr(log_level level, std::string_view line) {
  if (level != log_level::warning) return;
  // One call, so that lines of several processes do not mix.
  std::string const whole = "rubato: " + std::string(line) + "\n";
  std::fwrite(whole.data(), 1, whole.size(), stderr);
}

struct shared_sink {
  std::mutex mutex;
  log_sink sink = warnings_to_stderr;
};

// Never destroyed: other threads may still log while the process ends.
shared_sink& the_sink() {
  static auto* const one = new shared_sink;
  return *one;
}

}  // namespace

void set_log(log_sink sink) {
  std::lock_guard const lock(the_sink().mutex);
  the_sink().sink = sink ? std::move(sink) : log_sink(warnings_to_stderr);
}

void log(log_level level, std::string const& line) {
  std::lock_guard const lock(the_sink().mutex);
  try {
    constexpr std::size_t most = 4000;
    the_sink().sink(level, printable(line, most));
  } catch (...) {  // a full disk under the log ends no run
  }
}

}  // namespace rubato::net
