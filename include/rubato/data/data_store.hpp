// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace rubato::data {

/// What a process has loaded, by name: once for all of its workers and tasks, and for as long as one of them holds
/// it. A stage's body that holds it keeps it until its task is gone. Source: 004 §5.2, the data store.
///
/// \code
/// rb::data::data_store<rb::data::dataset> store;
/// auto const rows = store.get("a9a", [] { return rb::data::read_libsvm("a9a"); });  // in every body
/// \endcode
///
/// Thread safety: any thread. Who asks for what another thread is loading waits for it.
template <class T>
class data_store {
 public:
  /// What `load()` returned to whoever came first. What it throws it throws to its caller; who has waited then
  /// loads it itself.
  template <class Load>
  [[nodiscard]] std::shared_ptr<T const> get(std::string const& name, Load load) {
    if (auto const there = find_or_begin(name)) return there;
    try {
      std::shared_ptr<T const> const made = std::make_shared<T const>(load());
      end(name, made);
      return made;
    } catch (...) {
      end(name, nullptr);
      throw;
    }
  }

  /// Whether somebody holds it.
  [[nodiscard]] bool has(std::string const& name) const {
    std::lock_guard const guard(lock_);
    auto const at = entries_.find(name);
    return at != entries_.end() && !at->second.data.expired();
  }

 private:
  struct entry {
    std::weak_ptr<T const> data;
    bool loads = false;
  };

  std::shared_ptr<T const> find_or_begin(std::string const& name) {
    std::unique_lock guard(lock_);
    entry& e = entries_[name];
    loaded_.wait(guard, [&e] { return !e.loads; });
    auto there = e.data.lock();
    e.loads = there == nullptr;
    return there;
  }
  void end(std::string const& name, std::shared_ptr<T const> const& made) {
    {
      std::lock_guard const guard(lock_);
      entries_[name] = {made, false};
    }
    loaded_.notify_all();
  }

  mutable std::mutex lock_;
  std::condition_variable loaded_;
  std::map<std::string, entry> entries_;
};

}  // namespace rubato::data
