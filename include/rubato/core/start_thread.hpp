// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <system_error>

namespace rubato::detail {

/// What `start` returns, which starts a thread. `whose()` is called where there is none to be had, and says for what it
/// was: of the system's "Resource temporarily unavailable" nobody would know what was tried.
/// @throws std::system_error with the system's code
template <class Whose, class Start>
decltype(auto) start_thread_of(Whose whose, Start start) {
  try {
    return start();
  } catch (std::system_error const& e) {
    throw std::system_error(e.code(), "a thread for " + std::string(whose()) + " cannot be started");
  }
}

}  // namespace rubato::detail
