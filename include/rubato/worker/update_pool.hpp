// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rubato/storage/update.hpp"

namespace rubato {

/// Gives workers the buffers of their commits, and takes them back from whoever used them last: a
/// shard's log, a link, a replica. So a steady run allocates no parameters, and the buffer that is
/// handed out next is the one whose memory is warm.
/// Thread safety: copies share one pool, and may be used and outlived by buffers in any thread.
template <class T>
class update_pool {
 public:
  /// An empty update, to be filled.
  [[nodiscard]] std::shared_ptr<update<T>> take() const {
    return {shelf_->take().release(), [shelf = shelf_](update<T>* used) noexcept {
              shelf->put(std::unique_ptr<update<T>>(used));
            }};
  }
  /// The update of those who have none: shared, always empty.
  [[nodiscard]] std::shared_ptr<update<T> const> nothing() const {
    return {shelf_, &shelf_->nothing};
  }

 private:
  struct shelf {
    static constexpr std::size_t spares = 64;
    update<T> const nothing{};
    std::mutex lock;
    std::vector<std::unique_ptr<update<T>>> spare;

    shelf() { spare.reserve(spares); }

    std::unique_ptr<update<T>> take() {
      std::lock_guard const guard(lock);
      if (spare.empty()) return std::make_unique<update<T>>();
      auto u = std::move(spare.back());
      spare.pop_back();
      return u;
    }
    void put(std::unique_ptr<update<T>> u) noexcept {
      u->rows.clear();
      if (!u->whole) u->values.clear();  // a whole one keeps its size: it will be overwritten
      std::lock_guard const guard(lock);
      if (spare.size() < spares) spare.push_back(std::move(u));
    }
  };

  std::shared_ptr<shelf> shelf_ = std::make_shared<shelf>();
};

}  // namespace rubato
