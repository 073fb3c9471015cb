// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace rubato {

namespace detail {

/// An integer that does not mix with integers of another meaning.
template <class Tag, std::integral Rep>
class strong_id {
 public:
  using value_type = Rep;

  constexpr strong_id() noexcept = default;
  constexpr explicit strong_id(Rep value) noexcept : value_(value) {}

  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }
  /// The id as an index into an array that holds one entry per id.
  [[nodiscard]] constexpr std::size_t index() const noexcept {
    return static_cast<std::size_t>(value_);
  }

  friend constexpr auto operator<=>(strong_id, strong_id) noexcept = default;

 private:
  Rep value_ = 0;
};

}  // namespace detail

/// A worker's number in the run: 0, 1, … in order of joining; never given twice in one run.
using worker_id = detail::strong_id<struct worker_tag, std::uint32_t>;

/// A server's number: 0 … servers − 1. A server holds one shard of every table.
using server_id = detail::strong_id<struct server_tag, std::uint32_t>;

/// Names a row of a table.
using key = detail::strong_id<struct key_tag, std::uint64_t>;

/// How often the worker of this number has been started; a restarted one is another incarnation.
using incarnation_id = detail::strong_id<struct incarnation_tag, std::uint32_t>;

/// A stage of a task: every `cluster::run` is one. Clocks start anew in each.
using stage_id = detail::strong_id<struct stage_tag, std::uint32_t>;

/// A machine with workers: a process, a computer.
using node_id = detail::strong_id<struct node_tag, std::uint32_t>;

/// A task that has been submitted: 0, 1, … in that order.
using task_id = detail::strong_id<struct task_tag, std::uint32_t>;

/// Counts the changes of membership (joins and leaves) that the coordinator has ordered.
using epoch_id = detail::strong_id<struct epoch_tag, std::uint64_t>;

/// The version of the parameters that an update belongs to, for merges that keep several.
using version_index = detail::strong_id<struct version_tag, std::int64_t>;

}  // namespace rubato

template <class Tag, class Rep>
struct std::hash<rubato::detail::strong_id<Tag, Rep>> {
  [[nodiscard]] std::size_t operator()(rubato::detail::strong_id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
