// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace rubato::net {

/// Adds up numbers of many processes at once, where what a network is made of does that better than messages from one
/// to another. Its members, numbered from 0, give as many numbers each, time after time, in sessions.
///
/// | function        | what it does |
/// |-----------------|--------------|
/// | `begin()`       | a session begins. @pre `is_at_rest()` |
/// | `sum(mine, f)`  | gives these, which are copied, and calls `f()` once, later, from inside the network's `run_one` or `poll`: when all have given theirs, or a member has left. @pre the last one is over |
/// | `result()`      | what the last sum came to, until the next one |
/// | `leave(why)`    | gives nothing more in this session; a sum under way goes on without anybody waiting for it |
/// | `is_at_rest()`  | the session is over: all members know that one has left, or never has one begun. It gets there by itself once all have left, while their networks run, inside which something then happens. Any thread |
///
/// A member that is destroyed has left for good, also without `leave`. Used as its network is, and gone before it.
/// Errors: error (errc::io) where the network cannot, from `sum` and `result`.
class collective {
 public:
  /// Why a member gives nothing more.
  enum class leaving : std::uint8_t {
    ended = 1,  ///< it has nothing more to give
    stopped,    ///< nor should anybody have: others will hear why in another way
    for_good,   ///< it is gone
  };
  /// What a sum has come to.
  struct outcome {
    std::span<std::byte const> total;  ///< the same at all members, to the last bit; empty where one has left
    std::vector<std::uint32_t> left;   ///< members that have, by themselves
  };

  virtual ~collective() = default;
  virtual void begin() = 0;
  virtual void sum(std::span<std::byte const> mine, std::function<void()> done) = 0;
  [[nodiscard]] virtual outcome result() const = 0;
  virtual void leave(leaving why) = 0;
  [[nodiscard]] virtual bool is_at_rest() const noexcept = 0;
};

}  // namespace rubato::net
