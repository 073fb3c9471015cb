// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>

namespace rubato::detail {

/// The names of the last sessions that are over: who has one is refused, not taken for a new process.
class past_sessions {
 public:
  static constexpr std::size_t most = 4096;

  [[nodiscard]] bool contains(std::uint64_t session) const { return known_.contains(session); }
  void remember(std::uint64_t session) {
    if (!known_.insert(session).second) return;
    in_order_.push_back(session);
    if (in_order_.size() <= most) return;
    known_.erase(in_order_.front());
    in_order_.pop_front();
  }
  [[nodiscard]] std::size_t size() const noexcept { return known_.size(); }

 private:
  std::set<std::uint64_t> known_;
  std::deque<std::uint64_t> in_order_;
};

}  // namespace rubato::detail
