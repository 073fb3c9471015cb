// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "rubato/server/messages.hpp"

namespace rubato::detail {

/// How the questions of one worker stand.
struct inquiry {
  std::atomic<std::uint32_t> missing = 0;  ///< answers
  std::atomic<refusal> refused = refusal::none;
  std::exception_ptr failure;  ///< of another thread that was to ask for this one; read once nothing is missing
};

}  // namespace rubato::detail
