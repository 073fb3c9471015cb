// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/storage/shared_update.hpp"

namespace rubato {

namespace detail {

update_node* update_shelf::take() {
  std::lock_guard const guard(lock_);
  std::unique_ptr<update_node> n;
  if (spare_.empty()) {
    n = std::make_unique<update_node>();
    n->home = this;
    n->value.values = raw_array(memory_);
  } else {
    n = std::move(spare_.back());
    spare_.pop_back();
    n->references.store(1, std::memory_order_relaxed);
  }
  ++away_;
  return n.release();
}

void update_shelf::put(update_node* node) noexcept {
  std::unique_ptr<update_node> n(node);
  n->value.rows.clear();
  n->value.coded = 0;
  if (!n->value.whole) n->value.values.clear();  // a whole one keeps its size: it will be overwritten
  bool last;
  {
    std::lock_guard const guard(lock_);
    last = --away_ == 0 && closed_;
    // Those that were made when that memory had no room come last.
    bool const is_last_choice = memory_ && !n->value.values.is_elsewhere();
    if (!closed_ && spare_.size() < spares)
      spare_.insert(is_last_choice ? spare_.begin() : spare_.end(), std::move(n));
  }
  if (last) delete this;
}

void update_shelf::use(std::shared_ptr<block_memory> memory) noexcept {
  std::lock_guard const guard(lock_);
  memory_ = std::move(memory);
}

void update_shelf::close() noexcept {
  bool last;
  {
    std::lock_guard const guard(lock_);
    closed_ = true;
    spare_.clear();
    last = away_ == 0;
  }
  if (last) delete this;
}

}  // namespace detail

update const& shared_update::nothing() noexcept {
  static update const none;
  return none;
}

}  // namespace rubato
