// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rubato/core/block_memory.hpp"
#include "rubato/storage/update.hpp"

namespace rubato {

namespace detail {

class update_shelf;

struct update_node {
  update value;
  std::atomic<std::size_t> references{1};
  update_shelf* home = nullptr;  ///< none: it is not of a pool
};

/// The spare buffers of a pool. Lives until the pool and all that it has given out are gone.
class update_shelf {
 public:
  update_shelf() { spare_.reserve(spares); }

  [[nodiscard]] update_node* take();
  void put(update_node* node) noexcept;
  /// There is no pool any more.
  void close() noexcept;
  void use(std::shared_ptr<block_memory> memory) noexcept;

 private:
  static constexpr std::size_t spares = 64;
  std::mutex lock_;
  std::shared_ptr<block_memory> memory_;
  std::vector<std::unique_ptr<update_node>> spare_;
  std::size_t away_ = 0;
  bool closed_ = false;
};

inline void release(update_node* n) noexcept {
  if (n == nullptr || n->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (n->home != nullptr) n->home->put(n);
  else delete n;
}

}  // namespace detail

/// The only reference to an update, which may still be written.
class update_buffer {
 public:
  update_buffer() noexcept = default;
  explicit update_buffer(update u) : node_(new detail::update_node{std::move(u)}) {}
  update_buffer(update_buffer&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  // Not one that takes a value: clang 14 never destroys that in `x = {}`.
  update_buffer& operator=(update_buffer&& other) noexcept {
    detail::release(std::exchange(node_, std::exchange(other.node_, nullptr)));
    return *this;
  }
  ~update_buffer() { detail::release(node_); }

  [[nodiscard]] explicit operator bool() const noexcept { return node_ != nullptr; }
  [[nodiscard]] update& operator*() const noexcept { return node_->value; }
  [[nodiscard]] update* operator->() const noexcept { return &node_->value; }

 private:
  friend class shared_update;
  friend class update_pool;
  explicit update_buffer(detail::update_node* n) noexcept : node_(n) {}
  detail::update_node* node_ = nullptr;
};

/// A counted reference to an update that nobody changes while others hold it, so that log, cache and link share it.
/// Refers to none when it was made so; that is an update without rows.
/// Thread safety: distinct references may be used concurrently, one reference may not.
class shared_update {
 public:
  shared_update() noexcept = default;
  shared_update(update_buffer&& b) noexcept : node_(std::exchange(b.node_, nullptr)) {}  // NOLINT: it is given up
  explicit shared_update(update u) : shared_update(update_buffer(std::move(u))) {}
  shared_update(shared_update const& other) noexcept : node_(other.node_) {
    if (node_ != nullptr) node_->references.fetch_add(1, std::memory_order_relaxed);
  }
  shared_update(shared_update&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  shared_update& operator=(shared_update const& other) noexcept { return *this = shared_update(other); }
  shared_update& operator=(shared_update&& other) noexcept {
    detail::release(std::exchange(node_, std::exchange(other.node_, nullptr)));
    return *this;
  }
  ~shared_update() { detail::release(node_); }

  /// Gives the update up to be written again where this is the only reference to it, and its values are not another
  /// process's; else none, and nothing changes.
  [[nodiscard]] update_buffer take_if_alone() noexcept {
    bool const alone = node_ != nullptr && !node_->value.values.is_borrowed() &&
                       node_->references.load(std::memory_order_acquire) == 1;
    return update_buffer(alone ? std::exchange(node_, nullptr) : nullptr);
  }

  [[nodiscard]] bool empty() const noexcept { return node_ == nullptr || node_->value.empty(); }
  [[nodiscard]] update const& operator*() const noexcept {
    return node_ != nullptr ? node_->value : nothing();
  }
  [[nodiscard]] update const* operator->() const noexcept { return &**this; }
  [[nodiscard]] update const* get() const noexcept { return &**this; }

 private:
  static update const& nothing() noexcept;
  detail::update_node* node_ = nullptr;
};

/// A part of a commit in two.
struct divided_update {
  update_buffer sent{};     ///< none: nothing is sent
  update_buffer carried{};  ///< none: nothing is carried
};

/// Gives workers the buffers of their commits, and takes them back from whoever used them last: a
/// shard's log, a link, a replica. So a steady run allocates no parameters, and the buffer that is
/// handed out next is the one whose memory is warm. One pool is for one table.
/// Thread safety: copies share one pool, and may be used and outlived by buffers in any thread.
class update_pool {
 public:
  update_pool()
      : shelf_(new detail::update_shelf, [](detail::update_shelf* s) noexcept { s->close(); }) {}

  /// An update to be filled. One that was whole before still is, with values that mean nothing.
  [[nodiscard]] update_buffer take() const { return update_buffer(shelf_->take()); }
  /// Values of buffers that are made from now on lie there, where it has room, and else on the heap.
  void use(std::shared_ptr<block_memory> memory) const noexcept { shelf_->use(std::move(memory)); }

 private:
  std::shared_ptr<detail::update_shelf> shelf_;
};

}  // namespace rubato
