// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/optional_mutex.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/multi_version_store.hpp"
#include "rubato/storage/overlay.hpp"
#include "rubato/storage/table_host.hpp"
#include "rubato/storage/velocity.hpp"

namespace rubato {

/// The host of a store: what a store need not know of updates' bytes, snapshots, velocity and versions.
/// Whoever writes a store includes this header; see `table_store`.
/// @tparam Options what the store is made with beside its shape, see `configured_table`
template <class Store, class Options>
class store_host : public table_host {
  static_assert(table_store<Store>, "a table's store must model table_store, see storage/concepts.hpp");

 public:
  using value_type = typename Store::value_type;
  static constexpr bool bounded = Store::bounded;

  explicit store_host(store_shape const& s, Options options = {})
      : shape_(s), options_(std::move(options)), calls_(s.threads), rows_(std::make_unique<contents>(s, options_)) {}

  void clear() override {
    auto fresh = std::make_unique<contents>(shape_, options_);
    guard const alone(*this);
    rows_.swap(fresh);
  }
  void assign(update const& values) override { rows_->store.assign(values.as<value_type>()); }
  void assign_run(std::uint64_t first, std::span<std::byte const> bytes) override {
    if constexpr (bounded) rows_->store.assign(run_of(first, bytes));
  }

  void fold(std::span<weighted_part const> step, std::optional<double> decay) override {
    if (step.size() == 1) {  // the common case allocates nothing
      auto const one = step.front().as<value_type>();
      return fold_typed({&one, 1}, decay);
    }
    std::vector<weighted_update<value_type>> many;
    many.reserve(step.size());
    for (weighted_part const& p : step) many.push_back(p.as<value_type>());
    fold_typed(many, decay);
  }

  void fold_run(std::uint64_t first, std::span<std::byte const> bytes, double weight) override {
    if constexpr (bounded) {
      weighted_update<value_type> const one{run_of(first, bytes), weight};
      fold_typed({&one, 1}, std::nullopt);
    }
  }

  void read(std::span<std::uint64_t const> rows, std::byte* bytes,
            table_view const& seen) const override {
    auto* const out = reinterpret_cast<value_type*>(bytes);
    {
      guard const alone(*this);
      rows_->store.read(rows, out);
    }
    add_versions(rows, out, seen);
    if (!seen.above.empty()) detail::add_to_rows(rows, out, shape_.width, seen.above);
  }

  void snapshot(table_state& out, table_view const& seen) const override {
    freeze(out);
    add_versions(out, seen);
    if (seen.above.empty()) return;
    if constexpr (bounded)
      for (weighted_part const& p : seen.above)
        detail::add_update(out, p.part->as<value_type>(), p.weight, shape_.width);
    else
      detail::add_touched_rows(out, detail::rows_of<value_type>(seen.above, shape_.width), shape_.width);
  }

  [[nodiscard]] std::size_t chunks() const override {
    if constexpr (sharing_store<Store>) return rows_->store.chunks();
    std::size_t const rows = rows_of_chunk();
    return bounded ? (static_cast<std::size_t>(shape_.rows) + rows - 1) / rows : 0;
  }
  [[nodiscard]] block_ref chunk([[maybe_unused]] std::size_t i) const override {
    if constexpr (sharing_store<Store>) {
      guard const alone(*this);
      return rows_->store.chunk(i);
    } else if constexpr (bounded) {
      std::uint64_t const first = i * rows_of_chunk();
      std::uint64_t const count = std::min<std::uint64_t>(rows_of_chunk(), shape_.rows - first);
      block_ref made(static_cast<std::size_t>(count) * row_bytes());
      guard const alone(*this);
      rows_->store.copy(first, count, made.mutable_as<value_type>());
      return made;
    }
    return {};
  }

  [[nodiscard]] std::size_t bytes() const override {
    guard const alone(*this);
    return rows_->store.bytes() + rows_->velocity.bytes();
  }

  void add_version(version_index v, update const& u, double weight) override {
    if constexpr (versioned) rows_->store.add(v, u.as<value_type>(), weight);
  }
  void expire(version_worth const& worth) override {
    if constexpr (versioned) rows_->store.expire(worth);
  }
  void for_each_version(std::function<void(version_state const&)> const& f) const override {
    if constexpr (versioned)
      for (auto const& v : rows_->store.versions()) f(v);
  }
  [[nodiscard]] std::size_t live_versions() const override {
    if constexpr (versioned) return rows_->store.live();
    return 0;
  }

  [[nodiscard]] Store const& store() const noexcept { return rows_->store; }

 private:
  struct contents {
    contents(store_shape const& s, Options const& options) : store(make_store(s, options)), velocity(s) {}
    Store store;
    rubato::velocity<Store> velocity;  ///< for merges that have one; takes no memory without
  };

  static Store make_store(store_shape const& s, [[maybe_unused]] Options const& options) {
    if constexpr (std::same_as<Options, no_store_options>) return Store(s);
    else return Store(s, options);
  }

  static row_values<value_type> run_of(std::uint64_t first, std::span<std::byte const> bytes) noexcept {
    return {.keyed = false,
            .first = first,
            .rows = {},
            .values = {reinterpret_cast<value_type const*>(bytes.data()), bytes.size() / sizeof(value_type)}};
  }

  static constexpr bool versioned = versioned_store<Store>;

  /// One caller at a time, where the store asks for it.
  class guard {
   public:
    explicit guard(store_host const& h) : lock_(concurrent_store<Store> ? nullptr : &h.calls_) {
      if (lock_ != nullptr) lock_->lock();
    }
    ~guard() {
      if (lock_ != nullptr) lock_->unlock();
    }
    guard(guard const&) = delete;
    guard& operator=(guard const&) = delete;

   private:
    optional_mutex* lock_;
  };

  [[nodiscard]] std::size_t row_bytes() const noexcept { return shape_.width * sizeof(value_type); }
  [[nodiscard]] std::size_t rows_of_chunk() const noexcept {
    return table_state::chunk_bytes(row_bytes()) / row_bytes();
  }

  void fold_typed(std::span<weighted_update<value_type> const> step, std::optional<double> decay) {
    if (!decay) {
      guard const alone(*this);
      return rows_->store.fold(step);
    }
    guard const alone(*this);
    rows_->velocity.fold(rows_->store, step, *decay);
  }

  void freeze(table_state& out) const {
    if constexpr (sharing_store<Store>) {
      guard const alone(*this);
      out.refer(rows_->store.chunks(), table_state::chunk_bytes(row_bytes()),
                [this](std::size_t i) { return rows_->store.chunk(i); });
    } else if constexpr (bounded) {
      guard const alone(*this);
      out.clear();
      out.receive(static_cast<std::size_t>(shape_.rows) * row_bytes(), row_bytes(),
                  [this](std::byte* to, std::size_t n, std::size_t offset) {
                    rows_->store.copy(offset / row_bytes(), n / row_bytes(),
                                reinterpret_cast<value_type*>(to));
                  });
    } else {
      freeze_touched(out);
    }
  }

  void freeze_touched(table_state& out) const {
    std::vector<std::uint64_t> keys;
    std::vector<value_type> values;
    {
      guard const alone(*this);
      if constexpr (!bounded) rows_->store.collect(keys, values);
    }
    std::vector<std::size_t> order(keys.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return keys[i]; });
    out.receive_rows(keys.size(), row_bytes(), [&](std::span<std::uint64_t> to, std::byte* bytes) {
      auto* row = reinterpret_cast<value_type*>(bytes);
      for (std::size_t k = 0; k < order.size(); ++k) {
        to[k] = keys[order[k]];
        row = std::copy_n(values.data() + order[k] * shape_.width, shape_.width, row);
      }
    });
  }

  void add_versions([[maybe_unused]] std::span<std::uint64_t const> rows,
                    [[maybe_unused]] value_type* out, [[maybe_unused]] table_view const& seen) const {
    if constexpr (versioned) {
      RUBATO_ASSERT(seen.share != nullptr || rows_->store.live() == 0);
      if (seen.share != nullptr) rows_->store.add_shares(rows, out, *seen.share);
    }
  }
  void add_versions([[maybe_unused]] table_state& out, [[maybe_unused]] table_view const& seen) const {
    if constexpr (versioned) {
      RUBATO_ASSERT(seen.share != nullptr || rows_->store.live() == 0);
      if (seen.share != nullptr) rows_->store.add_shares(out, *seen.share);
    }
  }

  store_shape shape_;
  [[no_unique_address]] Options options_;
  mutable optional_mutex calls_;
  std::unique_ptr<contents> rows_;
};

template <class Store>
std::unique_ptr<table_host> make_host(store_shape const& shape) {
  return std::make_unique<store_host<Store>>(shape);
}
template <class Store, class Options>
std::unique_ptr<table_host> make_host(store_shape const& shape, Options const& options) {
  return std::make_unique<store_host<Store, Options>>(shape, options);
}

}  // namespace rubato
