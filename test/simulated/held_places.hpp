// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rubato/net/deployment.hpp>
#include <rubato/testing/world.hpp>
#include <rubato/transport/processes/serving_process.hpp>

#include "simulated/server_memory.hpp"

namespace rubato::test {

/// Who is what in a run, as the processes themselves see it. Of those who have not been given up, and live, there is
/// one coordinator, one server of a number and one worker process of a number.
class held_places {
 public:
  /// From when a process is let in until it goes, of its own will or not.
  class hold {
   public:
    /// @param of its transport at work, which outlives this
    template <class Runtime>
    hold(held_places& all, testing::simulated_process& who, Runtime& of) : all_(all), who_(&who) {
      auto const* const serving = dynamic_cast<detail::serving_process const*>(&of);
      all_.holders_.push_back({&who, {of.role(), of.rank()}, serving});
    }
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;
    ~hold() {
      std::erase_if(all_.holders_, [this](holder const& h) { return h.who == who_; });
    }

   private:
    held_places& all_;
    testing::simulated_process* who_;
  };

  /// What servers keep. `is_row` and `all_are_there` as in `server_memory::look`.
  template <class IsRow>
  [[nodiscard]] std::optional<std::string> look_at_memory(IsRow is_row, bool all_are_there) {
    for (holder& h : holders_)
      if (h.serving != nullptr && h.serving->server() != nullptr && !h.who->is_killed())
        if (auto wrong = h.memory.look(*h.serving->server(), is_row, all_are_there)) return wrong;
    return std::nullopt;
  }

  /// What is wrong, if anything; to be asked after every event. `in_danger`: whether a process may have been given up.
  template <class InDanger>
  [[nodiscard]] std::optional<std::string> look(InDanger in_danger) const {
    for (std::size_t i = 0; i < holders_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        if (holders_[i].place != holders_[j].place || !counts(i, in_danger) || !counts(j, in_danger)) continue;
        auto const& [as, rank] = holders_[i].place;
        return "two processes are " + std::string(net::to_string(as)) + " " + std::to_string(rank) + " at a time";
      }
    return std::nullopt;
  }

 private:
  struct holder {
    testing::simulated_process* who;
    std::pair<net::role, std::uint32_t> place;
    detail::serving_process const* serving;
    server_memory memory = {};
  };

  template <class InDanger>
  [[nodiscard]] bool counts(std::size_t i, InDanger in_danger) const {
    holder const& h = holders_[i];
    return !h.who->is_killed() && !in_danger(h.who->number()) && (h.serving == nullptr || h.serving->is_in());
  }

  std::vector<holder> holders_;
};

}  // namespace rubato::test
