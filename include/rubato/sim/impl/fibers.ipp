// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/prefetch.hpp"
#include "rubato/sim/fibers.hpp"

#include <fmt/core.h>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RUBATO_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define RUBATO_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define RUBATO_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define RUBATO_TSAN 1
#endif

#if defined(RUBATO_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(RUBATO_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace rubato::sim {
/// Not without a name: `fiber_pool::impl` is made of them.
namespace fiber_parts {

namespace context = boost::context;

// ---------------------------------------------------------------------------------------- stacks

/// Address space for one fiber: a guard page below, the stack above it.
struct stack {
  std::byte* base = nullptr;  // of the mapping, guard included

  explicit operator bool() const { return base != nullptr; }
};

/// Maps stacks and keeps a few that have been given back: their first pages are warm.
class stack_source {
 public:
  explicit stack_source(std::size_t stack_bytes)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        usable_((stack_bytes + page_ - 1) / page_ * page_) {}

  ~stack_source() {
    for (stack s : spare_) unmap(s);
  }
  stack_source(stack_source const&) = delete;
  stack_source& operator=(stack_source const&) = delete;

  stack take() {
    if (!spare_.empty()) {
      stack const s = spare_.back();
      spare_.pop_back();
      return s;
    }
    return map();
  }

  void give_back(stack s) noexcept {
#if defined(RUBATO_ASAN)
    // The last frames of a fiber never return, so nobody else takes their red zones away.
    __asan_unpoison_memory_region(bottom(s), usable_);
#endif
    if (spare_.size() < spare_.capacity()) {
      spare_.push_back(s);
    } else {
      unmap(s);
    }
  }

  [[nodiscard]] std::byte* bottom(stack s) const { return s.base + page_; }
  [[nodiscard]] std::size_t usable() const { return usable_; }

 private:
  stack map() {
    // Inaccessible first, then all but the guard page opened: no page is touched, so none is paid.
    void* const base = ::mmap(nullptr, page_ + usable_, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base == MAP_FAILED) fail();
    stack const s{static_cast<std::byte*>(base)};
    if (::mprotect(bottom(s), usable_, PROT_READ | PROT_WRITE) != 0) {
      int const reason = errno;
      unmap(s);
      errno = reason;
      fail();
    }
    return s;
  }

  [[noreturn]] void fail() const {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("fiber_pool: no memory for a stack of {} bytes", usable_));
  }

  void unmap(stack s) noexcept { ::munmap(s.base, page_ + usable_); }

  static constexpr std::size_t spare_max = 16;

  std::size_t page_;
  std::size_t usable_;
  std::vector<stack> spare_ = [] {
    std::vector<stack> v;
    v.reserve(spare_max);
    return v;
  }();
};

/// Hands one of our stacks to Boost.Context, which is never asked to free it.
struct borrowed_stack {
  context::stack_context where;

  context::stack_context allocate() const noexcept { return where; }
  void deallocate(context::stack_context&) const noexcept {}
};

/// Forgets a suspended context. The destructor would resume it to unwind its stack; but this one
/// has nothing left to unwind, and what Boost keeps of it lies on that stack.
void abandon(context::fiber&& done) noexcept {
  alignas(context::fiber) std::byte grave[sizeof(context::fiber)];
  ::new (static_cast<void*>(grave)) context::fiber(std::move(done));
}

// ------------------------------------------------------------------------------ exception state

/// What the C++ runtime keeps per thread about exceptions (Itanium C++ ABI, section 2.2.2), and
/// must keep per fiber: the exceptions being handled, and how many are in flight.
struct exception_state {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

exception_state& thread_exception_state() noexcept {
  return *reinterpret_cast<exception_state*>(abi::__cxa_get_globals());
}

// ------------------------------------------------------------------------------------ sanitizers

/// What a sanitizer remembers about one side of a switch; nothing in other builds.
///
///     leaving.depart_for(arriving)   on the old stack, right before the switch
///     arriving.arrive(&leaving)      on the new stack, right after it
struct sanitizer_context {
#if defined(RUBATO_ASAN)
  void* fake_stack = nullptr;
  void const* bottom = nullptr;
  std::size_t size = 0;
#endif
#if defined(RUBATO_TSAN)
  void* thread = nullptr;
#endif

  void create([[maybe_unused]] std::byte* stack_bottom, [[maybe_unused]] std::size_t stack_size) {
#if defined(RUBATO_ASAN)
    fake_stack = nullptr;
    bottom = stack_bottom;
    size = stack_size;
#endif
#if defined(RUBATO_TSAN)
    thread = __tsan_create_fiber(0);
#endif
  }

  void destroy() {
#if defined(RUBATO_TSAN)
    __tsan_destroy_fiber(thread);
#endif
  }

  void note_thread() {
#if defined(RUBATO_TSAN)
    thread = __tsan_get_current_fiber();
#endif
  }

  void depart_for([[maybe_unused]] sanitizer_context const& other,
                  [[maybe_unused]] bool for_good = false) {
#if defined(RUBATO_ASAN)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, other.bottom, other.size);
#endif
#if defined(RUBATO_TSAN)
    __tsan_switch_to_fiber(other.thread, 0);
#endif
  }

  /// `from`, if given, learns the bounds of the stack that control came from.
  void arrive([[maybe_unused]] sanitizer_context* from = nullptr) {
#if defined(RUBATO_ASAN)
    __sanitizer_finish_switch_fiber(fake_stack, from ? &from->bottom : nullptr,
                                    from ? &from->size : nullptr);
#endif
  }
};

[[noreturn]] void misuse(char const* sentence) { throw usage_error(errc::bad_option, sentence); }

std::size_t checked_stack_bytes(std::size_t bytes) {
  constexpr std::size_t least = std::size_t{16} << 10;
  constexpr std::size_t most = std::size_t{1} << 30;
  if (bytes >= least && bytes <= most) return bytes;
  throw option_error(fmt::format("fiber_pool: stack_bytes must be between {} and {}, but is {}",
                                 least, most, bytes));
}

}  // namespace fiber_parts

using namespace fiber_parts;

// ------------------------------------------------------------------------------------------ pool

class fiber_pool::impl {
 public:
  explicit impl(std::size_t stack_bytes) : stacks_(checked_stack_bytes(stack_bytes)) {}

  ~impl() {
    RUBATO_ASSERT(running_ == nullptr);
    while (alive_ > 0) {  // again, because destructors of a dying body may spawn
      for (std::size_t id = slots_.size(); id-- > 0;) kill(static_cast<fiber_id>(id));
    }
  }
  impl(impl const&) = delete;
  impl& operator=(impl const&) = delete;

  fiber_id spawn(std::function<void()> body) {
    auto born = std::make_unique<record>();
    born->id = static_cast<fiber_id>(slots_.size());
    born->body = std::move(body);
    slots_.push_back({std::move(born), nullptr, nullptr});
    ++alive_;
    return static_cast<fiber_id>(slots_.size() - 1);
  }

  void resume(fiber_id id) {
    if (running_ != nullptr) misuse("fiber_pool: resume was called on a fiber; suspend it first");
    record* const r = slots_.at(id).live.get();
    if (r == nullptr) misuse("fiber_pool: resume was called for a fiber that has ended");
    if (!r->place) prepare(*r);
    run(*r);
    if (r->ended) bury(id);
  }

  void suspend() {
    record* const r = running_;
    if (r == nullptr) misuse("fiber_pool: suspend was called outside of the pool's fibers");
    slots_[r->id].top = __builtin_frame_address(0);
    if (!r->dying) leave(*r);
    if (r->dying) throw fiber_killed{};
  }

  void kill(fiber_id id) {
    if (running_ != nullptr) misuse("fiber_pool: kill was called on a fiber; suspend it first");
    record* const r = slots_.at(id).live.get();
    if (r == nullptr) return;
    r->dying = true;
    if (r->place) {
      run(*r);
      // A body that swallows fiber_killed and suspends again gets it again, within `suspend`.
      RUBATO_ASSERT(r->ended);
    }
    bury(id);
  }

  void warm_up(fiber_id id) const noexcept {
    slot const& s = slots_[id];
    if (s.live == nullptr || s.top == nullptr) return;
    detail::prefetch(s.live.get(), 0, sizeof(record));
    detail::prefetch(s.top, -320, 960);
  }

  [[nodiscard]] bool finished(fiber_id id) const { return slots_.at(id).live == nullptr; }
  [[nodiscard]] std::exception_ptr failure(fiber_id id) const { return slots_.at(id).failure; }
  [[nodiscard]] std::size_t alive() const noexcept { return alive_; }
  [[nodiscard]] std::optional<fiber_id> current() const noexcept {
    if (running_ == nullptr) return std::nullopt;
    return running_->id;
  }

 private:
  /// A fiber that has not ended.
  struct record {
    context::fiber suspended{};    // where it stopped; empty before the start and while it runs
    exception_state exceptions{};  // as `suspended`
    [[no_unique_address]] sanitizer_context sanitizer{};
    stack place{};  // none before the start
    fiber_id id = 0;
    bool dying = false;
    bool ended = false;
    std::function<void()> body{};
    std::exception_ptr failure{};  // what the body threw
  };

  struct slot {
    std::unique_ptr<record> live;  // null once the fiber has ended
    std::exception_ptr failure;
    void const* top = nullptr;  // about where its stack ends while it is suspended
  };

  void prepare(record& r) {
    r.place = stacks_.take();
    r.sanitizer.create(stacks_.bottom(r.place), stacks_.usable());
  }

  /// Owner's side of a switch: to the fiber and back.
  void run(record& r) {
    running_ = &r;
    exception_state& exceptions = thread_exception_state();
    exception_state const mine = std::exchange(exceptions, r.exceptions);
    owner_sanitizer_.note_thread();
    owner_sanitizer_.depart_for(r.sanitizer);
    // Boost runs a new context up to its first instruction at once, on the new stack: too early for
    // the sanitizers, except here.
    if (!r.suspended) r.suspended = enter(r);
    r.suspended = std::move(r.suspended).resume();
    owner_sanitizer_.arrive();
    r.exceptions = std::exchange(exceptions, mine);
    running_ = nullptr;
  }

  /// Fiber's side of a switch: to the owner and back.
  void leave(record& r) {
    r.sanitizer.depart_for(owner_sanitizer_);
    owner_ = std::move(owner_).resume();
    r.sanitizer.arrive(&owner_sanitizer_);
  }

  context::fiber enter(record& r) {
    context::stack_context where;
    where.sp = stacks_.bottom(r.place) + stacks_.usable() - colour(r.id);
    where.size = stacks_.usable() - colour(r.id);
    return context::fiber(std::allocator_arg, borrowed_stack{where},
                          [this, &r](context::fiber&& owner) -> context::fiber {
                            owner_ = std::move(owner);
                            r.sanitizer.arrive(&owner_sanitizer_);
                            run_body(r);
                            r.ended = true;
                            r.sanitizer.depart_for(owner_sanitizer_, true);
                            // Not by returning: the frames below this one, and so the sanitizer's
                            // view of them, would have to outlive their stack.
                            return std::move(owner_).resume();
                          });
  }

  static void run_body(record& r) noexcept {
    try {
      r.body();
    } catch (fiber_killed const&) {
    } catch (...) {
      r.failure = std::current_exception();
    }
    r.body = nullptr;  // on the fiber: destructors of what it captured may look at `current`
  }

  /// Takes what is left of a fiber that has ended or never started.
  void bury(fiber_id id) noexcept {
    std::unique_ptr<record> const dead = std::exchange(slots_[id].live, nullptr);
    slots_[id].failure = std::move(dead->failure);
    --alive_;
    if (!dead->place) return;
    abandon(std::move(dead->suspended));
    dead->sanitizer.destroy();
    stacks_.give_back(dead->place);
  }

  /// How far below its page boundary a fiber's stack starts. Were it 0, the top of all stacks would
  /// compete for the same few sets of the caches: measured, a switch among 10,000 fibers took twice
  /// as long (165 ns against 82 ns). All stay within the page that is touched anyway.
  static std::size_t colour(fiber_id id) noexcept { return id % 16 * 192; }

  stack_source stacks_;
  std::vector<slot> slots_;
  std::size_t alive_ = 0;
  record* running_ = nullptr;
  context::fiber owner_{};  // where the owner waits while a fiber runs
  [[no_unique_address]] sanitizer_context owner_sanitizer_{};
};

fiber_pool::fiber_pool(std::size_t stack_bytes) : impl_(std::make_unique<impl>(stack_bytes)) {}
fiber_pool::~fiber_pool() = default;

fiber_id fiber_pool::spawn(std::function<void()> body) { return impl_->spawn(std::move(body)); }
void fiber_pool::resume(fiber_id id) { impl_->resume(id); }
void fiber_pool::suspend() { impl_->suspend(); }
void fiber_pool::warm_up(fiber_id id) const noexcept { impl_->warm_up(id); }
void fiber_pool::kill(fiber_id id) { impl_->kill(id); }
bool fiber_pool::finished(fiber_id id) const { return impl_->finished(id); }
std::exception_ptr fiber_pool::failure(fiber_id id) const { return impl_->failure(id); }
std::optional<fiber_id> fiber_pool::current() const noexcept { return impl_->current(); }
std::size_t fiber_pool::alive() const noexcept { return impl_->alive(); }

}  // namespace rubato::sim
