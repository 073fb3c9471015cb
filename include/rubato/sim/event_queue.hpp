// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/core/assert.hpp>
#include <rubato/core/error.hpp>
#include <rubato/core/time.hpp>
#include <rubato/sim/impl/waiting_line.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rubato::sim {

/// What will happen, in the order in which it will: the clock of a simulation.
///
/// Events leave by time; those of one time leave in the order they were pushed, so a run is decided
/// by its pushes alone. The clock, `now()`, is the time of the last event popped, and starts at 0.
///
/// Most events of a simulated network are pushed in the order in which they will leave, since each takes as long as the
/// one before it. Pushed by `push_in_turn` they wait in line instead of being sorted.
///
/// @tparam Event    any movable type. A slot keeps its moved-from event until it is used again.
/// @tparam SlotBits pending events are limited to 2^SlotBits; the default allows 16 million. The
///                  remaining bits number the pushes and start over when they run out.
///
/// Errors: `push` throws `option_error` for a time before `now()`, `std::length_error` beyond the
/// limit; a failed push changes nothing. Not thread-safe.
/// `push` and `pop` are O(log size) of those that are not in line, the rest is constant. Memory: 16 bytes +
/// sizeof(Event) + 8 per event of the largest size reached.
///
/// @code
/// event_queue<std::string> queue;
/// queue.push(time_point(2ms), "second");
/// queue.push(time_point(1ms), "first");
/// while (!queue.empty()) handle(queue.pop());   // queue.now() is the event's time
/// @endcode
template <std::movable Event, unsigned SlotBits = 24>
  requires(SlotBits > 0 && SlotBits < 64)
class event_queue {
 public:
  event_queue() = default;

  /// The time of the last event popped.
  [[nodiscard]] time_point now() const noexcept { return now_; }

  [[nodiscard]] bool empty() const noexcept { return heap_.empty() && line_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size() + line_.size(); }

  /// Makes room for `events` pending events.
  void reserve(std::size_t events) {
    heap_.reserve(events);
    events_.reserve(events);
    free_.reserve(events);
  }

  /// Adds an event. `at` may be `now()`: the event then comes after all pushed earlier for now.
  void push(time_point at, Event event) {
    check(at);
    std::size_t const slot = store(std::move(event));
    heap_.push_back(0);
    sift_up(heap_.size() - 1, make_entry(at, next_number_++, slot));
  }

  /// The same for an event that probably leaves after all that have been pushed so. O(1) if it does.
  void push_in_turn(time_point at, Event event) {
    check(at);
    if (!line_.empty() && at < time_of(line_.last())) return push(at, std::move(event));
    line_.push(make_entry(at, next_number_, 0), std::move(event));
    ++next_number_;
  }

  /// When the next event happens. The queue must not be empty.
  [[nodiscard]] time_point next_time() const noexcept {
    RUBATO_ASSERT(!empty());
    return time_of(line_is_next() ? line_.first() : heap_.front());
  }

  /// The next event. The queue must not be empty.
  [[nodiscard]] Event const& top() const noexcept {
    RUBATO_ASSERT(!empty());
    return line_is_next() ? line_.event(0) : events_[slot_of(heap_.front())];
  }

  /// The event after the next one, as far as is known now. There must be two.
  [[nodiscard]] Event const& second() const noexcept {
    RUBATO_ASSERT(size() > 1);
    bool const line_first = line_is_next();
    std::size_t const in_line = line_first ? 1 : 0;
    if (heap_.size() <= 1 - in_line) return line_.event(in_line);
    entry const in_heap = heap_[line_first ? 0 : least_child(0)];
    bool const line_second = line_.size() > in_line && line_.entry(in_line) < in_heap;
    return line_second ? line_.event(in_line) : events_[slot_of(in_heap)];
  }

  /// Takes the next event and moves the clock to its time. The queue must not be empty.
  Event pop() {
    RUBATO_ASSERT(!empty());
    if (line_is_next()) {
      now_ = time_of(line_.first());
      return line_.pop();
    }
    entry const first = heap_.front();
    entry const last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    free_.push_back(slot_of(first));
    now_ = time_of(first);
    return std::move(events_[slot_of(first)]);
  }

 private:
  static constexpr std::uint64_t numbers = std::uint64_t{1} << (64 - SlotBits);
  static constexpr std::uint64_t slots = std::uint64_t{1} << SlotBits;
  static constexpr std::size_t arity =
      4;  // half the levels of a binary heap; four entries are 64 bytes

  // The heap moves 16-byte entries; the events stay where they are. An entry is one wide integer:
  // the time, then the number of the push, then the slot of the event. So one comparison without a
  // branch decides: which of four children is least is a coin flip that no predictor learns.
  __extension__ using entry = unsigned __int128;
  static constexpr std::uint64_t sign = std::uint64_t{1} << 63;  // makes signed order unsigned

  [[nodiscard]] static entry make_entry(time_point at, std::uint64_t number,
                                        std::uint64_t slot) noexcept {
    auto const high = static_cast<std::uint64_t>(at.since_start().count()) ^ sign;
    return static_cast<entry>(high) << 64 | (number << SlotBits | slot);
  }
  [[nodiscard]] static time_point time_of(entry e) noexcept {
    auto const high = static_cast<std::uint64_t>(e >> 64) ^ sign;
    return time_point(duration(static_cast<duration::rep>(high)));
  }
  [[nodiscard]] static std::size_t slot_of(entry e) noexcept {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(e) & (slots - 1));
  }

  void check(time_point at) {
    if (at < now_) throw_past(at);
    if (next_number_ == numbers) renumber();
    if (size() + 1 >= numbers) throw_full();
  }

  [[nodiscard]] bool line_is_next() const noexcept {
    return !line_.empty() && (heap_.empty() || line_.first() < heap_.front());
  }

  std::size_t store(Event&& event) {
    if (!free_.empty()) {
      std::size_t const slot = free_.back();
      events_[slot] = std::move(event);
      free_.pop_back();
      return slot;
    }
    std::size_t const slot = events_.size();
    if (slot >= slots) throw_full();
    if (slot == events_.capacity()) reserve(std::max<std::size_t>(64, 2 * slot));
    events_.push_back(std::move(event));
    return slot;
  }

  void sift_up(std::size_t hole, entry const moving) noexcept {
    while (hole > 0) {
      std::size_t const parent = (hole - 1) / arity;
      if (heap_[parent] < moving) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = moving;
  }

  [[nodiscard]] static std::size_t least_of_four(entry const* heap, std::size_t i) noexcept {
    std::size_t const left = i + static_cast<std::size_t>(heap[i + 1] < heap[i]);
    std::size_t const right = i + 2 + static_cast<std::size_t>(heap[i + 3] < heap[i + 2]);
    std::size_t const pick_right = 0 - static_cast<std::size_t>(heap[right] < heap[left]);
    return left ^ ((left ^ right) & pick_right);
  }

  [[nodiscard]] static std::size_t least_before(entry const* heap, std::size_t first,
                                                std::size_t last) noexcept {
    std::size_t least = first;
    while (++first < last) least = heap[first] < heap[least] ? first : least;
    return least;
  }

  // The least child of one that has any.
  [[nodiscard]] std::size_t least_child(std::size_t parent) const noexcept {
    std::size_t const child = arity * parent + 1;
    return child + arity <= heap_.size() ? least_of_four(heap_.data(), child)
                                         : least_before(heap_.data(), child, heap_.size());
  }

  // Moves the hole from the root to where `moving` belongs.
  void sift_down(entry const moving) noexcept {
    std::size_t const size = heap_.size();
    entry* const heap = heap_.data();
    std::size_t hole = 0;
    while (arity * hole + 1 < size) {
      std::size_t const least = least_child(hole);
      if (moving < heap[least]) break;
      heap[hole] = heap[least];
      hole = least;
    }
    heap[hole] = moving;
  }

  // Numbers the pending events 0, 1, ... in their present order. A sorted array is a heap.
  void renumber() {
    std::sort(heap_.begin(), heap_.end());
    next_number_ = 0;
    auto const number = [this](entry& e) { e = make_entry(time_of(e), next_number_++, slot_of(e)); };
    std::size_t in_line = 0;
    for (entry& e : heap_) {
      while (in_line < line_.size() && line_.entry(in_line) < e) number(line_.entry(in_line++));
      number(e);
    }
    while (in_line < line_.size()) number(line_.entry(in_line++));
  }

  [[noreturn]] static void throw_full() {
    throw std::length_error("event_queue: more events are pending than SlotBits allows");
  }

  [[noreturn]] void throw_past(time_point at) const {
    throw option_error("event_queue: an event was pushed for " +
                       std::to_string(at.since_start().count()) + " ns, but the clock is at " +
                       std::to_string(now_.since_start().count()) +
                       " ns already; events must not lie in the past");
  }

  std::vector<entry> heap_;
  std::vector<Event> events_;
  std::vector<std::size_t> free_;
  waiting_line<entry, Event> line_;
  std::uint64_t next_number_ = 0;
  time_point now_;
};

}  // namespace rubato::sim
