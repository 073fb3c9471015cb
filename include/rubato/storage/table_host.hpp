// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "rubato/core/ids.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/element_rule.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/table_state.hpp"
#include "rubato/storage/update.hpp"

namespace rubato {

/// Who reads a table whose merge keeps a copy of it for each worker.
struct own_copy {
  worker_id of;
  element_rule const* rule;
};

/// How a step of an `element_merge` is made.
struct element_step {
  element_rule const* rule;
  worker_id from;         ///< who has made the commit, where the merge keeps copies
  std::uint32_t workers;  ///< M
};

/// What a read of a table is to see beside what is folded.
struct table_view {
  std::span<weighted_part const> above{};  ///< commits that are held back, in order
  version_share const* share = nullptr;    ///< where versions are kept: asked for each live one
  std::optional<own_copy> own{};           ///< where the merge keeps copies
};

/// One server's part of a table, whatever its elements and its store: what a shard calls, once for each
/// message. The loops over elements are behind it.
///
/// Thread safety: that of a store, see `table_store`; a host of a store that is not concurrent lets one
/// caller in at a time. What concerns versions is for one thread at a time.
class table_host {
 public:
  virtual ~table_host() = default;

  /// Sets rows, before a run.
  virtual void assign(update const& values) = 0;
  /// The same for consecutive rows. @pre the table holds every row
  virtual void assign_run(std::uint64_t first, std::span<std::byte const> values) = 0;
  /// All rows are zero again, as if it were new. Between runs; nobody may read meanwhile.
  virtual void clear() = 0;
  /// A copy of what merges keep beside the rows, such as a velocity; null where a host keeps nothing. Between runs.
  [[nodiscard]] virtual std::shared_ptr<void const> keep_beside() const { return nullptr; }
  /// It is as it was then. @param kept what `keep_beside` of the same host has given
  virtual void restore_beside(std::shared_ptr<void const> const& /*kept*/) {}
  /// Folds updates in their order; as one step of a velocity where a decay is given.
  virtual void fold(std::span<weighted_part const> step, std::optional<double> decay) = 0;
  /// Folds updates as one step of a merge that moves elements. @pre the table's merge may be one, see `element_merge`
  virtual void step(std::span<weighted_part const> updates, element_step const& how) = 0;
  /// The worker begins anew: so does its copy.
  virtual void forget_copy(worker_id w) = 0;
  /// Folds consecutive rows, a piece of an update that is not here as a whole. @pre the table holds
  /// every row
  virtual void fold_run(std::uint64_t first, std::span<std::byte const> values, double weight) = 0;

  /// Copies rows to `out`, one after the other.
  virtual void read(std::span<std::uint64_t const> rows, std::byte* out, table_view const& seen) const = 0;
  /// All rows, frozen.
  virtual void snapshot(table_state& out, table_view const& seen) const = 0;
  /// The chunks of a snapshot one by one, each as it is at that moment, for whoever would not hold all
  /// at once. @pre the table holds every row
  [[nodiscard]] virtual std::size_t chunks() const = 0;
  [[nodiscard]] virtual block_ref chunk(std::size_t i) const = 0;
  /// Memory held: with versions, and what a merge keeps beside the rows.
  [[nodiscard]] virtual std::size_t bytes() const = 0;

  // ---- where versions are kept

  /// G(v) ← G(v) + weight·u, n(v) ← n(v) + 1; also when u is empty.
  virtual void add_version(version_index v, update const& u, double weight) = 0;
  /// Asks about every live version, oldest first, and drops those that are over.
  virtual void expire(version_worth const& worth) = 0;
  virtual void for_each_version(std::function<void(version_state const&)> const& f) const = 0;
  [[nodiscard]] virtual std::size_t live_versions() const = 0;
};

/// Makes the host of a store. Defined in `store_host.hpp`.
template <class Store>
[[nodiscard]] std::unique_ptr<table_host> make_host(store_shape const& shape);
template <class Store, class Options>
[[nodiscard]] std::unique_ptr<table_host> make_host(store_shape const& shape, Options const& options);

}  // namespace rubato
