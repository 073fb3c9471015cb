// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include <rubato/core/error.hpp>

namespace rubato::data {

/// Loads while others train: a thread of its own reads ahead, but never holds more than so many items that nobody
/// has taken, so that a set larger than memory trains. Source: 004 §6.2, the async reader.
///
/// \code
/// rb::data::file_assigner files(rb::data::split_file("webspam", 64 << 20));
/// rb::data::async_reader<rb::data::dataset> reader([&] { return read_next(files); }, 2);
/// while (auto const rows = reader.next()) train(*rows);                  // in every worker
/// \endcode
///
/// Thread safety: any number of threads may take items; each goes to one of them.
template <class T>
class async_reader {
 public:
  /// @param source called by the reader's thread; nothing means that there is no more
  /// @param ahead the most items that wait to be taken; at least 1. While they do, `source` is not called.
  /// @throws option_error for 0
  explicit async_reader(std::function<std::optional<T>()> source, std::size_t ahead = 2)
      : source_(std::move(source)), ahead_(checked(ahead)), thread_([this](std::stop_token s) { read(s); }) {}
  async_reader(async_reader const&) = delete;
  async_reader& operator=(async_reader const&) = delete;
  /// Waits for the call of `source` under way. @pre nobody waits in `next`
  ~async_reader() = default;

  /// The next item, or nothing at the end. Throws what `source` threw once all before it is taken, to each caller.
  [[nodiscard]] std::optional<T> next() {
    std::unique_lock guard(lock_);
    changed_.wait(guard, [this] { return !items_.empty() || is_over_; });
    if (items_.empty()) {
      if (failure_) std::rethrow_exception(failure_);
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    guard.unlock();
    changed_.notify_all();
    return item;
  }

 private:
  static std::size_t checked(std::size_t ahead) {
    if (ahead == 0) throw option_error("async_reader: ahead is 0, expected at least 1 item");
    return ahead;
  }

  void read(std::stop_token const& stop) {
    try {
      while (has_room(stop)) {
        std::optional<T> item = source_();
        if (!item) break;
        std::lock_guard const guard(lock_);
        items_.push_back(*std::move(item));
        changed_.notify_all();
      }
    } catch (...) {
      std::lock_guard const guard(lock_);
      failure_ = std::current_exception();
    }
    std::lock_guard const guard(lock_);
    is_over_ = true;
    changed_.notify_all();
  }
  /// Waits for it; no more is to be read when it says no.
  bool has_room(std::stop_token const& stop) {
    std::unique_lock guard(lock_);
    return changed_.wait(guard, stop, [this] { return items_.size() < ahead_; }) && !stop.stop_requested();
  }

  std::function<std::optional<T>()> source_;
  std::size_t ahead_;
  std::mutex lock_;  ///< what follows
  std::condition_variable_any changed_;
  std::deque<T> items_;
  std::exception_ptr failure_;
  bool is_over_ = false;
  std::jthread thread_;  // last: it uses all before it
};

}  // namespace rubato::data
