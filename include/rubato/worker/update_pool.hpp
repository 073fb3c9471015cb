// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rubato/storage/update.hpp"

namespace rubato {

/// Gives a worker the buffers of its commits, and takes them back from whoever used them last: a
/// shard's log, a link, the worker's own replica. So a steady run allocates no parameters.
/// Thread safety: buffers may be released by any thread, also after the worker is gone.
template <class T>
class update_pool {
 public:
  /// An empty update.
  [[nodiscard]] std::shared_ptr<update<T>> take() {
    auto buffer = std::make_unique<update<T>>(shelf_->take());
    return {buffer.release(), [shelf = shelf_](update<T>* used) {
              std::unique_ptr<update<T>> const owned(used);
              shelf->put(std::move(*owned));
            }};
  }

 private:
  struct shelf {
    static constexpr std::size_t spares = 4;
    std::mutex lock;
    std::vector<update<T>> spare;

    update<T> take() {
      std::lock_guard const guard(lock);
      if (spare.empty()) return {};
      update<T> u = std::move(spare.back());
      spare.pop_back();
      return u;
    }
    void put(update<T> u) noexcept {
      u.rows.clear();
      if (!u.whole) u.values.clear();  // a whole one keeps its size: it will be overwritten
      std::lock_guard const guard(lock);
      if (spare.size() < spares) spare.push_back(std::move(u));
    }
  };

  std::shared_ptr<shelf> shelf_ = std::make_shared<shelf>();
};

}  // namespace rubato
