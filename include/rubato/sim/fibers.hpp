// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/core/run_stopped.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

namespace rubato::sim {

/// A fiber's number in its pool: 0, 1, ... in order of spawning; never given twice.
using fiber_id = std::uint32_t;

/// Thrown out of `fiber_pool::suspend` to unwind a fiber that is being killed. It is no std::exception,
/// so that `catch (std::exception const&)` in a body lets it pass. A body that catches it with
/// `catch (...)` must let it go on, or end.
struct fiber_killed : run_stopped {};

/// Functions that can stop in the middle and go on later, each on a stack of its own: what lets a
/// training body that blocks run inside a single-threaded simulator.
///
/// Control goes back and forth between the pool's owner and one fiber at a time: `resume` runs a
/// fiber until it calls `suspend` or ends. There is no scheduler; who runs when is the owner's
/// choice.
///
/// Guarantees: exceptions work as on a thread: each fiber has its own set of exceptions that are
/// being handled, so it may suspend inside a `catch` block or in a destructor that runs because of
/// one. Stacks have a guard page: an overflow is a segmentation fault, not silent corruption. The
/// address and thread sanitizers follow every switch.
///
/// Errors: `usage_error` for a call from the wrong place, `std::out_of_range` for an unknown id;
/// `std::system_error` from `resume` when there is no memory for a stack (the fiber then has not
/// started, and may be resumed later).
///
/// Thread safety: a pool and its fibers belong to one thread; distinct pools are independent.
///
/// Cost: a switch takes tens of nanoseconds and no system call. A fiber gets its stack when it is
/// first resumed and gives it back when it ends; a stack costs the pages that it has touched, at
/// least one. Stacks are mapped several at once, and their memory goes back together. Linux before 6.13
/// allows some 32,000 fibers, unless vm.max_map_count says more. (The thread sanitizer of g++ 12 adds
/// 0.9 MB per fiber, and stops at some 8,000.)
///
/// @code
/// fiber_pool fibers;
/// fiber_id const id = fibers.spawn([&] { work(); fibers.suspend(); work_more(); });
/// fibers.resume(id);   // runs work()
/// fibers.resume(id);   // runs work_more(), which ends it
/// @endcode
class fiber_pool {
 public:
  /// @param stack_bytes of each fiber, rounded up to whole pages.
  /// @throws option_error for less than 16 KiB or more than 1 GiB
  explicit fiber_pool(std::size_t stack_bytes = 256 * 1024);

  /// Kills all fibers, the youngest first. Must not run on a fiber of this pool.
  ~fiber_pool();

  fiber_pool(fiber_pool const&) = delete;
  fiber_pool& operator=(fiber_pool const&) = delete;

  /// Makes a fiber that will run `body` once it is resumed. Allowed from anywhere.
  fiber_id spawn(std::function<void()> body);

  /// Runs a fiber until it suspends or ends. Not allowed on a fiber of this pool, nor for one that
  /// has ended. What the body throws is kept for `failure`.
  void resume(fiber_id id);

  /// Fetches into the cache what `resume(id)` will touch first: worth it among thousands of fibers,
  /// for one that will run soon. @pre the id is one of this pool's
  void warm_up(fiber_id id) const noexcept;

  /// The same of what `warm_up(id)` has to read before it knows what to fetch: for one that will run after that.
  void look_up(fiber_id id) const noexcept;

  /// Stops the running fiber and goes back to whoever resumed it; returns on the next `resume`.
  /// Only allowed on a fiber of this pool.
  /// @throws fiber_killed once the fiber is told to die, in every call from then on
  void suspend();

  /// Ends a fiber: `suspend` throws `fiber_killed` on it, so that its destructors run. One that
  /// never started is dropped with its body; one that has ended stays as it is. Not allowed on a
  /// fiber of this pool. A fiber that waits in a destructor during unwinding cannot be killed: the
  /// program then terminates, as for any exception that leaves a destructor.
  void kill(fiber_id id);

  /// Whether the body has returned, thrown or been killed.
  [[nodiscard]] bool finished(fiber_id id) const;

  /// What the body threw, `fiber_killed` excepted; null if nothing.
  [[nodiscard]] std::exception_ptr failure(fiber_id id) const;

  /// The fiber that runs now; nothing if the caller is not on a fiber of this pool.
  [[nodiscard]] std::optional<fiber_id> current() const noexcept;

  /// How many fibers have been spawned and have not ended.
  [[nodiscard]] std::size_t alive() const noexcept;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace rubato::sim
