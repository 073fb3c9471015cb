// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "rubato/core/clock.hpp"
#include "rubato/core/table.hpp"

namespace rubato::bench {

/// A worker, as algorithms use it, that tells of each commit: `committed()` is called in its thread.
template <class Worker, class Committed>
class watched_worker {
 public:
  watched_worker(Worker& worker, Committed committed) : worker_(worker), committed_(std::move(committed)) {}

  [[nodiscard]] std::uint32_t rank() const noexcept { return worker_.rank(); }
  [[nodiscard]] std::uint32_t count() const noexcept { return worker_.count(); }
  [[nodiscard]] bool has_joined() const noexcept { return worker_.has_joined(); }
  [[nodiscard]] clock_index clock() const noexcept { return worker_.clock(); }

  template <std::size_t I>
  [[nodiscard]] auto operator[](table_tag<I> t) noexcept {
    return worker_[t];
  }
  template <class... Arguments>
  void pull(Arguments&&... arguments) {
    worker_.pull(std::forward<Arguments>(arguments)...);
  }
  template <class... Arguments>
  void push(Arguments&&... arguments) {
    worker_.push(std::forward<Arguments>(arguments)...);
  }
  bool step(double work) {
    bool const sent = worker_.step(work);
    if (sent) committed_();
    return sent;
  }

 private:
  Worker& worker_;
  Committed committed_;
};

}  // namespace rubato::bench
