// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <exception>
#include <utility>

#include "rubato/core/run_stopped.hpp"

namespace rubato::detail {

/// The exception that ended a run: the first, for those after it are its consequences. `run_stopped`
/// is none.
class first_failure {
 public:
  void note(std::exception_ptr thrown) noexcept {
    if (first_) return;
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (run_stopped const&) {
    } catch (...) {
      first_ = std::current_exception();
    }
  }
  [[nodiscard]] explicit operator bool() const noexcept { return first_ != nullptr; }
  void forget() noexcept { first_ = nullptr; }
  /// Throws it, if there is one, and forgets it.
  void rethrow() {
    if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
  }

 private:
  std::exception_ptr first_;
};

}  // namespace rubato::detail
