// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "rubato/storage/table_host.hpp"

namespace rubato {

/// Consecutive rows.
struct row_run {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  friend bool operator==(row_run const&, row_run const&) = default;
};

/// A bounded table that somebody else has, in another host: its rows come in chunks, each when one of them is first
/// used; and it is known which have been changed.
///
/// Thread safety: that of a host; rows come for one thread at a time, while others go on with those that are here. Who
/// holds a lock while it asks for rows, as a server does where reads are of a cut or of versions, holds it until they
/// have come.
/// Cost: that of the other host and, as long as some rows are not here, a shared lock and O(1) for each row that is
/// used. Source: 004 §5.3 (on-demand and integral preparation).
class on_demand_host final : public table_host {
 public:
  /// Writes the rows of these runs to `out`, one after the other. What it throws, the use of the rows throws, and the
  /// rows come another time.
  using source = std::function<void(std::span<row_run const> runs, std::byte* out)>;

  /// @param inner whose rows have no values yet @param chunk_bytes what comes at a time, at least a row
  on_demand_host(std::unique_ptr<table_host> inner, store_shape const& shape, std::size_t row_bytes,
                 std::size_t chunk_bytes, source bring);

  /// All rows that are not here come now.
  void bring_all() const;
  /// They have come: all rows, in their order. @pre nobody uses any yet
  void put(std::span<std::byte const> all_rows);
  /// The same for those of a chunk, `is_chunk`, that is not here.
  void put(row_run const& chunk, std::span<std::byte const> values, bool has_changed);
  [[nodiscard]] bool is_chunk(row_run const& rows) const noexcept;
  /// Calls `f(rows, whether they may have been changed)` for each chunk that is here.
  void for_each_here(std::function<void(row_run const& rows, bool has_changed)> const& f) const;
  /// Rows that may have been changed since they came or since the last call, in ascending order.
  [[nodiscard]] std::vector<row_run> take_changed();
  /// How many rows are here.
  [[nodiscard]] std::uint64_t rows_here() const noexcept;

  void assign(update const& values) override;
  void assign_run(std::uint64_t first, std::span<std::byte const> values) override;
  void clear() override;
  void fold(std::span<weighted_part const> step, std::optional<double> decay) override;
  void step(std::span<weighted_part const> updates, element_step const& how) override;
  void forget_copy(worker_id w) override { inner_->forget_copy(w); }
  void fold_run(std::uint64_t first, std::span<std::byte const> values, double weight) override;
  void read(std::span<std::uint64_t const> rows, std::byte* out, table_view const& seen) const override;
  void snapshot(table_state& out, table_view const& seen) const override;
  [[nodiscard]] std::size_t chunks() const override { return inner_->chunks(); }
  [[nodiscard]] block_ref chunk(std::size_t i) const override;
  [[nodiscard]] std::size_t bytes() const override;
  void add_version(version_index v, update const& u, double weight) override;
  void expire(version_worth const& worth) override;
  void for_each_version(std::function<void(version_state const&)> const& f) const override;
  [[nodiscard]] std::size_t live_versions() const override;

 private:
  static constexpr std::size_t bytes_at_a_time = std::size_t{1} << 20;  ///< of chunks: who asks names each row

  enum standing : std::uint8_t { absent, here, changed };

  [[nodiscard]] std::size_t chunk_of(std::uint64_t row) const noexcept {
    return static_cast<std::size_t>(row / chunk_rows_);
  }
  [[nodiscard]] row_run rows_of(std::size_t chunk) const noexcept;
  [[nodiscard]] bool is_complete() const noexcept { return missing_.load(std::memory_order_acquire) == 0; }
  void need(std::vector<std::size_t>& chunks, std::size_t chunk) const;
  void bring(std::span<std::uint64_t const> rows) const;
  void bring(row_run const& rows) const;
  void bring(update const& u) const;
  void bring_chunks(std::vector<std::size_t>& chunks) const;
  void bring_runs(std::span<row_run const> runs, std::size_t bytes) const;
  void note_changed(std::size_t chunk) noexcept;
  void note_changed(row_run const& rows) noexcept;
  void note_changed(update const& u) noexcept;
  /// `f()`, while no rows come, if any still may.
  template <class F>
  void use(F f) const;

  std::unique_ptr<table_host> inner_;
  std::uint64_t rows_;
  std::size_t row_bytes_;
  std::uint64_t chunk_rows_;
  source source_;
  mutable std::vector<std::atomic<standing>> chunks_;
  mutable std::atomic<std::size_t> missing_;  ///< chunks that are absent
  mutable std::mutex bringing_;
  mutable std::shared_mutex moving_;  ///< exclusive while rows that have come are put in; taken after `bringing_`
};

}  // namespace rubato
