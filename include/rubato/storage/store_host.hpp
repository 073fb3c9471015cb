// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/optional_mutex.hpp"
#include "rubato/storage/beside_rows.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/multi_version_store.hpp"
#include "rubato/storage/overlay.hpp"
#include "rubato/storage/table_host.hpp"
#include "rubato/storage/touched_rows.hpp"

namespace rubato {

/// The host of a store: what a store need not know of updates' bytes, snapshots, versions, and what merges
/// keep beside the rows.
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
  [[nodiscard]] std::shared_ptr<void const> keep_beside() const override {
    guard const alone(*this);
    auto kept = std::make_shared<beside_rows>(shape_);
    kept->become(*rows_);
    return kept;
  }
  void restore_beside(std::shared_ptr<void const> const& kept) override {
    guard const alone(*this);
    rows_->become(*static_cast<beside_rows const*>(kept.get()));
  }
  void assign(update const& values) override { rows_->store.assign(values.as<value_type>()); }
  void assign_run(std::uint64_t first, std::span<std::byte const> bytes) override {
    if constexpr (bounded) rows_->store.assign(run_of(first, bytes));
  }

  void fold(std::span<weighted_part const> step, std::optional<double> decay) override {
    with_typed(step, [&](auto const& typed) { fold_typed(typed, decay); });
  }

  void step([[maybe_unused]] std::span<weighted_part const> updates,
            [[maybe_unused]] element_step const& how) override {
    if constexpr (moves_elements)
      with_typed(updates, [&](auto const& typed) {
        guard const alone(*this);
        rows_->elements.step(rows_->store, typed, how);
      });
  }
  void forget_copy(worker_id w) override { rows_->elements.forget(w); }

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
      if constexpr (moves_elements) {
        if (seen.own) return rows_->elements.read(rows_->store, *seen.own, rows, out);
      }
      rows_->store.read(rows, out);
    }
    add_versions(rows, out, seen);
    if (!seen.above.empty()) detail::add_to_rows(rows, out, shape_.width, seen.above);
  }

  void snapshot(table_state& out, table_view const& seen) const override {
    if constexpr (moves_elements && bounded) {
      if (seen.own) return freeze_own(out, *seen.own);
    }
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
    return rows_->store.bytes() + rows_->velocity.bytes() + rows_->elements.bytes();
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
  static constexpr bool versioned = versioned_store<Store>;
  static constexpr bool moves_elements = detail::moves_elements<Store>;

  using beside_rows = detail::beside_rows<Store>;
  struct contents : beside_rows {
    contents(store_shape const& s, Options const& options) : beside_rows(s), store(make_store(s, options)) {}
    Store store;
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

  /// Calls `f` with the updates as a span of what those see who compute.
  template <class F>
  static void with_typed(std::span<weighted_part const> step, F f) {
    if (step.size() == 1) {  // the common case allocates nothing
      auto const one = step.front().as<value_type>();
      return f(std::span<weighted_update<value_type> const>(&one, 1));
    }
    std::vector<weighted_update<value_type>> many;
    many.reserve(step.size());
    for (weighted_part const& p : step) many.push_back(p.as<value_type>());
    f(std::span<weighted_update<value_type> const>(many));
  }

  void fold_typed(std::span<weighted_update<value_type> const> step, std::optional<double> decay) {
    if (!decay) {
      guard const alone(*this);
      return rows_->store.fold(step);
    }
    guard const alone(*this);
    rows_->velocity.fold(rows_->store, step, *decay);
  }

  /// As its worker is to see it.
  void freeze_own(table_state& out, own_copy const& own) const {
    guard const alone(*this);
    rows_->elements.read_all(
        rows_->store, own, [&] { freeze_alone(out); },
        [&](std::span<value_type const> values) {
          receive(out, [values](std::size_t first, std::size_t n, value_type* to) {
            std::copy_n(values.data() + first, n, to);
          });
        });
  }

  /// All elements, a piece at a time: `copy(first, count, to)`.
  template <class F>
  void receive(table_state& out, F copy) const {
    out.clear();
    out.receive(static_cast<std::size_t>(shape_.rows) * row_bytes(), row_bytes(),
                [copy](std::byte* to, std::size_t n, std::size_t offset) {
                  copy(offset / sizeof(value_type), n / sizeof(value_type), reinterpret_cast<value_type*>(to));
                });
  }

  void freeze(table_state& out) const {
    if constexpr (bounded) {
      guard const alone(*this);
      freeze_alone(out);
    } else {
      freeze_touched(out);
    }
  }

  /// @pre the caller is alone, if the store asks for that
  void freeze_alone(table_state& out) const {
    if constexpr (sharing_store<Store>) {
      out.refer(rows_->store.chunks(), table_state::chunk_bytes(row_bytes()),
                [this](std::size_t i) { return rows_->store.chunk(i); });
    } else if constexpr (bounded) {
      receive(out, [this](std::size_t first, std::size_t n, value_type* to) {
        rows_->store.copy(first / shape_.width, n / shape_.width, to);
      });
    }
  }

  void freeze_touched(table_state& out) const {
    std::vector<std::uint64_t> keys;
    std::vector<value_type> values;
    {
      guard const alone(*this);
      if constexpr (!bounded) rows_->store.collect(keys, values);
    }
    detail::receive_touched(out, keys, values, shape_.width);
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
