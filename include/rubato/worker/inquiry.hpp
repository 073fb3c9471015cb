// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <utility>

#include "rubato/server/messages.hpp"

namespace rubato::detail {

/// How the questions of one worker stand.
struct inquiry {
  std::atomic<std::uint32_t> missing = 0;  ///< answers
  std::atomic<refusal> refused = refusal::none;
  std::exception_ptr failure;  ///< of another thread that was to ask for this one; read once nothing is missing

  /// Nothing of it is under way any more, and what became of it is not for the next one to hear.
  void forget() noexcept {
    missing.store(0, std::memory_order_relaxed);
    refused.store(refusal::none, std::memory_order_relaxed);
    failure = nullptr;
  }
  /// Throws what has failed, if something has; else returns what was refused. Either is heard once.
  [[nodiscard]] refusal raise_failure() {
    refusal const r = refused.exchange(refusal::none);
    if (auto const e = std::exchange(failure, nullptr)) std::rethrow_exception(e);
    return r;
  }
};

}  // namespace rubato::detail
