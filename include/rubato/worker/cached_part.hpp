// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/worker/process_cache.hpp"
#include "rubato/worker/row_cache.hpp"
#include "rubato/worker/shared_state.hpp"

namespace rubato::detail {

struct shared_mark {
  clock_index server_clock = clock_index::lowest();
  std::shared_ptr<shared_state const> seen = {};
};

/// What a process has of one table on one server, and what it has asked for. All under the cache's lock.
class cached_part {
 public:
  cached_part(process_cache& cache, std::size_t table, server_id s);

  void clear();
  void forget(std::size_t reader);

  /// Answers from what is here, or joins a request under way; asks the server by a fetch of the
  /// cache's own when no other way is left. `guard` holds the cache's lock.
  void request(std::unique_lock<std::mutex>& guard, std::size_t reader, read_header const& read,
               read_slot& slot);

 private:
  /// Further behind than this, a state costs more to bring up to date than to fetch anew.
  static constexpr std::int64_t behind_max = 64;

  /// A read of a worker that waits for one or more requests.
  struct pending {
    std::size_t reader;
    read_header read;
    read_slot* slot;
    std::size_t answers_missing;
  };
  struct wish {
    std::size_t index;  ///< in the reader's slot
    std::size_t at;     ///< in the request's
  };
  using wishes = std::vector<wish>;
  struct waiter {
    std::shared_ptr<pending> by;
    wishes rows;
  };
  struct fetch;

  [[nodiscard]] bool is_live(selection asked) const noexcept;
  [[nodiscard]] std::size_t capacity() const;
  [[nodiscard]] process_cache::server_state& state() noexcept {
    return cache_.servers_[server_.index()];
  }
  [[nodiscard]] clock_index known_in(std::size_t reader) noexcept {
    return state().readers[reader].known_in;
  }
  [[nodiscard]] shared_state::floor& floor_of(std::size_t reader);
  [[nodiscard]] clock_index need(read_header const& r) const {
    return cache_.admission().need(r.clock, r.bound, r.from.worker);
  }
  [[nodiscard]] clock_index cache_need(read_header const& r) const {
    return cache_.admission().cache_need(r.clock, r.bound, r.from.worker);
  }
  /// The stamp of a state for whoever may use it.
  [[nodiscard]] std::optional<read_stamp> usable(pending const& by, shared_state const& seen,
                                                 clock_index least);

  // from what is here
  [[nodiscard]] std::optional<read_stamp> cached(pending const& by, shared_state const& seen);
  bool fill_whole(pending& by, shared_state const& seen, table_state const& from);
  [[nodiscard]] wishes fill_rows(pending& by);
  void put_row(pending& by, std::size_t index, read_stamp const& stamp, std::byte const* from);

  // requests under way
  [[nodiscard]] bool joinable(pending const& by, fetch const& f);
  bool join_whole(std::shared_ptr<pending> const& by);
  void join_rows(std::shared_ptr<pending> const& by, wishes& open);
  fetch& begin_fetch(std::shared_ptr<pending> const& by, wishes open);
  [[nodiscard]] std::unique_ptr<fetch> take(fetch& f);
  void abandon(fetch& f, std::exception_ptr const& why);
  [[nodiscard]] std::vector<clock_index> left();
  [[nodiscard]] std::vector<clock_index> left_by_now();

  // answers
  void answered(fetch& f, refusal why);
  void failed(fetch& f, std::exception_ptr const& why);
  static void note_held(read_slot& to, read_slot const& answer);
  void note(fetch& f);
  void fail(waiter& w, std::exception_ptr const& why);
  [[nodiscard]] bool is_of_use() const;
  void keep(fetch& f);
  bool serve(waiter& w, fetch& f);
  void ask_again(waiter& w);
  void finish(pending& by);

  process_cache& cache_;
  std::size_t table_;
  server_id server_;
  std::size_t row_bytes_;
  std::vector<std::unique_ptr<fetch>> under_way_;
  std::uint64_t now_ = 0;  ///< answers that have come
  std::vector<shared_state::floor> floors_;  ///< by reader
  std::optional<table_state> whole_;
  std::shared_ptr<shared_state const> whole_seen_;
  row_cache<shared_mark> rows_;
};

}  // namespace rubato::detail
