// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// Admission by value: a worker goes on while what it has changed, and others do not know of, is little.
///
/// | expression      | result   | meaning |
/// |-----------------|----------|---------|
/// | `p.limit(c)`    | `double` | how much any one element may have been moved so, for the worker to read at clock c |
///
/// Others know of all that was folded when they were let in to their clock, and who waits or has gone stays behind with
/// nothing. The shard adds up the greatest changes of the worker's commits that somebody does not know of, which bounds
/// the change of each element. So a worker has never more under way than its limit and the one commit that it computes;
/// after a commit that is greater than the limit alone it waits for all others to read. Clocks are not looked at:
/// `need` and `cache_need` say that a read fetches, and waits for no clock. Two servers that let in different workers
/// could wait for each other, so there must be one; updates must be folded as they come, by a weight; workers of a
/// process do not share reads. Depends on nothing but the clock; not a number is 0. Called under the shard's control
/// lock. Models: `bounded_value`. Source: Dai et al., AAAI 2015, "Value-bounded Asynchronous Parallel".
template <class P>
concept limiting_admission = admission_policy<P> && requires(P const p, clock_index c) {
  { p.limit(c) } noexcept -> std::same_as<double>;
};

}  // namespace rubato
