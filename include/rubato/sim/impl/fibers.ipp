// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/prefetch.hpp"
#include "rubato/sim/fibers.hpp"

#include <fmt/core.h>
#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
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
  std::byte* base = nullptr;  // guard included
  std::uint32_t block = 0;    // the source's, that it is in
  std::uint32_t place = 0;    // there

  explicit operator bool() const { return base != nullptr; }
};

/// Maps stacks, several at once, and keeps a few that have been given back: their first pages are warm. Memory goes
/// back when nobody has a stack of a block any more.
class stack_source {
 public:
  explicit stack_source(std::size_t stack_bytes)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        usable_((stack_bytes + page_ - 1) / page_ * page_) {}

  ~stack_source() {
    for (block const& b : blocks_)
      if (b.base != nullptr) ::munmap(b.base, b.stacks * stride());
  }
  stack_source(stack_source const&) = delete;
  stack_source& operator=(stack_source const&) = delete;

  stack take() {
    while (!open_.empty() && blocks_[open_.back()].free == 0) close_last();
    if (open_.empty()) map();
    std::uint32_t const in = open_.back();
    block& b = blocks_[in];
    auto const place = static_cast<std::uint32_t>(std::countr_zero(b.free));
    stack const s{b.base + place * stride(), in, place};
    if ((b.guarded & bit(place)) == 0) guard(s);
    b.guarded |= bit(place);
    b.free &= ~bit(place);
    --spare_;
    return s;
  }

  void give_back(stack s) noexcept {
#if defined(RUBATO_ASAN)
    // The last frames of a fiber never return, so nobody else takes their red zones away.
    __asan_unpoison_memory_region(bottom(s), usable_);
#endif
    block& b = blocks_[s.block];
    b.free |= bit(s.place);
    ++spare_;
    if (!std::exchange(b.open, true)) open_.push_back(s.block);  // which has room for all blocks
    if (b.free == all_of(b.stacks) && spare_ >= b.stacks + spare_max) unmap(b);
  }

  [[nodiscard]] std::byte* bottom(stack s) const { return s.base + page_; }
  [[nodiscard]] std::size_t usable() const { return usable_; }

 private:
  struct block {
    std::byte* base = nullptr;  // none: nothing is mapped
    std::uint32_t stacks = 0;
    std::uint32_t free = 0;     // a bit for each stack
    std::uint32_t guarded = 0;  // the same
    bool open = false;          // it is among those to look for free ones in
  };

  [[nodiscard]] std::size_t stride() const noexcept { return page_ + usable_; }
  [[nodiscard]] static std::uint32_t bit(std::uint32_t place) noexcept { return std::uint32_t{1} << place; }
  [[nodiscard]] static std::uint32_t all_of(std::uint32_t stacks) noexcept { return bit(stacks) - 1; }

  void close_last() noexcept {
    blocks_[open_.back()].open = false;
    open_.pop_back();
  }

  /// The next block has twice as many stacks as the last one, up to a limit: few fibers take little address space, and
  /// many few system calls.
  void map() {
    auto const fit = static_cast<std::uint32_t>(std::max<std::size_t>(1, block_bytes / stride()));
    std::uint32_t const stacks = std::min({next_, fit, block_max});
    auto const in = static_cast<std::size_t>(std::ranges::find(blocks_, nullptr, &block::base) - blocks_.begin());
    if (in == blocks_.size()) blocks_.emplace_back();
    open_.reserve(blocks_.size());
    // No page is touched, so none is paid.
    void* const base = ::mmap(nullptr, stacks * stride(), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (base == MAP_FAILED) fail();
    blocks_[in] = {.base = static_cast<std::byte*>(base), .stacks = stacks, .free = all_of(stacks), .open = true};
    open_.push_back(static_cast<std::uint32_t>(in));
    spare_ += stacks;
    next_ = 2 * stacks;
  }

  void unmap(block& b) noexcept {
    ::munmap(b.base, b.stacks * stride());
    spare_ -= b.stacks;
    b.base = nullptr;
    b.free = b.guarded = 0;  // and `take` will close it
  }

  /// The kernel notes it in its page table, from 6.13 on. Before, it can only split the mapping: of such pieces it
  /// allows a process some 65,000, two for each stack.
  void guard(stack s) const {
    constexpr int guard_install = 102;  // MADV_GUARD_INSTALL, which headers may be too old for
    if (::madvise(s.base, page_, guard_install) != 0 && ::mprotect(s.base, page_, PROT_NONE) != 0) fail();
  }

  [[noreturn]] void fail() const {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("fiber_pool: no memory for a stack of {} bytes", usable_));
  }

  static constexpr std::uint32_t spare_max = 16;
  static constexpr std::uint32_t block_max = 16;
  static constexpr std::size_t block_bytes = std::size_t{16} << 20;

  std::size_t page_;
  std::size_t usable_;
  std::vector<block> blocks_;
  std::vector<std::uint32_t> open_;  // blocks with free stacks, and some without
  std::uint32_t next_ = 1;           // how many stacks the next one has
  std::size_t spare_ = 0;            // free stacks of all blocks
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
    // What it returns to, and what it calls next: most bodies go deeper again before they wait again.
    detail::prefetch(s.top, -384, 384);
  }

  void look_up(fiber_id id) const noexcept { detail::prefetch(slots_.data() + id, 0, sizeof(slot)); }

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
void fiber_pool::look_up(fiber_id id) const noexcept { impl_->look_up(id); }
void fiber_pool::kill(fiber_id id) { impl_->kill(id); }
bool fiber_pool::finished(fiber_id id) const { return impl_->finished(id); }
std::exception_ptr fiber_pool::failure(fiber_id id) const { return impl_->failure(id); }
std::optional<fiber_id> fiber_pool::current() const noexcept { return impl_->current(); }
std::size_t fiber_pool::alive() const noexcept { return impl_->alive(); }

}  // namespace rubato::sim
