// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "rubato/run/runtime.hpp"
#include "rubato/run/single_machine.hpp"
#include "rubato/storage/on_demand_host.hpp"
#include "rubato/transport/processes/rows_transfer.hpp"
#include "rubato/transport/processes/server_tables.hpp"

namespace rubato::detail {

/// A task's tables in the process that runs a stage in single-machine mode, with admission of its own: workers that
/// are threads beside one server, whose rows come from the servers of the run. Source: 004 §5.3.
class local_model {
 public:
  /// Where the tables are between stages.
  struct home {
    server_tables& rows;
    std::function<void(std::size_t table, std::byte* out)> read_whole;
    std::function<void(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values)> read_touched;
    std::function<void()> checkpoint;  ///< throws when the run has failed
    std::function<bool()> is_stopped;  ///< bodies are to end, and tables go back
  };

  /// @param setup of the task @param threads the most workers that a stage may have
  local_model(run_setup const& setup, std::uint32_t threads, std::uint64_t seed, std::uint64_t sparse_max);

  /// Runs a stage, with tables that come from their home and, unless it `keeps_tables`, go back to it; `keep`: with
  /// those of the last stage. Of a run that is stopped all goes back. What was here is worth nothing when it throws.
  /// As `runtime::run`. @pre `stage.local`
  run_report run(run_request stage, home const& from, bool keep);
  /// Before a stage that goes on with the tables of another process, which were made ready like this: what comes from
  /// there is put in by `take`, until `run` with `keep`.
  void expect(single_machine const& how);
  /// @throws wire::frame_error for what no such process has
  void take(moved_rows const& rows);
  /// What is here after the last stage goes to another process, piece by piece, and is not here any more.
  void hand_over(home const& from, std::function<void(moved_rows&& rows)> const& give);
  /// What is here is worth nothing.
  void drop() noexcept { runtime_.reset(); }
  /// As `runtime::add_worker`. Any thread.
  std::uint32_t add_worker();
  /// Makes workers unwind their bodies. Any thread.
  void stop() noexcept;

 private:
  struct table {
    on_demand_host* bounded = nullptr;
    table_host* touched = nullptr;  ///< of a table that is not bounded
    std::size_t row_bytes = 0;
  };

  void open(single_machine const& how);
  [[nodiscard]] std::unique_ptr<table_host> make_host(std::size_t i, std::unique_ptr<table_host> inner,
                                                      store_shape const& shape, std::size_t chunk_bytes);
  [[nodiscard]] run_report run_here(runtime& here, run_request request);
  void prepare(bool all, bool is_here);
  void prepare_whole(std::size_t i);
  void prepare_touched(std::size_t i);
  void hand_over_chunks(runtime& here, std::size_t i, std::function<void(moved_rows&& rows)> const& give);
  void hand_over_touched(runtime& here, std::size_t i, std::function<void(moved_rows&& rows)> const& give);
  [[nodiscard]] bool as_it_lies(std::size_t i) const;
  void give_back(runtime& here);
  void give_changed(std::size_t i);
  void give_whole(runtime& here, std::size_t i);
  void give_touched(runtime& here, std::size_t i);
  [[nodiscard]] std::size_t touched_at_a_time(std::size_t i) const noexcept;

  run_setup setup_;
  std::uint32_t threads_;
  std::uint64_t seed_;
  std::uint64_t sparse_max_;  ///< see `tcp`
  std::vector<table> tables_;
  home const* home_ = nullptr;  ///< of the stage under way
  std::size_t protocol_ = 0;    ///< of the last one
  std::unique_ptr<runtime> runtime_;
  std::mutex lock_;             ///< of `running_`
  runtime* running_ = nullptr;
};

/// Whether the tables are with the workers in some of its runs.
[[nodiscard]] bool moves_tables(run_setup const& setup);
/// What the processes agree on beside local models: to the servers runs in single-machine mode are such that commit
/// nothing.
[[nodiscard]] run_setup beside_local_models(run_setup setup);

}  // namespace rubato::detail
