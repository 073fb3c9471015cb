// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rubato {

/// Parameters that several peers read at the same time: never changed once they are shared, and of use
/// again when the last one lets go.
template <class T>
using shared_parameters = std::shared_ptr<std::vector<T> const>;

/// Makes blocks of parameters of one size, and makes them anew only when all are in use: so a peer
/// sends its parameters to its neighbors without a copy, and holds as many blocks as are under way.
///
/// Blocks may outlive the pool and be let go by any thread; `get` is for one thread at a time.
template <class T>
class parameter_pool {
 public:
  explicit parameter_pool(std::size_t size) : size_(size), shelf_(std::make_shared<shelf>()) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// A block of `size()` numbers, of any value.
  [[nodiscard]] std::shared_ptr<std::vector<T>> get() {
    block b = shelf_->take();
    if (!b) b = std::make_unique<std::vector<T>>(size_);
    return {b.release(), [to = shelf_](std::vector<T>* used) { to->put(block(used)); }};
  }

 private:
  using block = std::unique_ptr<std::vector<T>>;

  struct shelf {
    std::mutex lock;
    std::vector<block> blocks;

    block take() {
      std::lock_guard const guard(lock);
      if (blocks.empty()) return nullptr;
      block last = std::move(blocks.back());
      blocks.pop_back();
      return last;
    }
    void put(block b) {
      std::lock_guard const guard(lock);
      blocks.push_back(std::move(b));
    }
  };

  std::size_t size_;
  std::shared_ptr<shelf> shelf_;
};

}  // namespace rubato
