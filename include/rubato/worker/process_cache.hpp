// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/worker/inquiry.hpp"
#include "rubato/worker/server_fetch.hpp"

namespace rubato::detail {

class cached_part;

/// What the workers of one process have fetched, between their own caches and the servers (rules §3):
/// many that miss the same rows issue one request (004 §6.3), and what one has fetched others may use
/// by the cache column of the admission rules (§2).
///
/// A request under way is joined by whoever needs no more than it asked for, or by whoever would be
/// let in at once, as it is: so nobody waits for longer than its own request would. A worker keeps
/// its own commits until an answer says that they are in, and adds those that an answer lacks.
/// Thread safety: any thread, but for `begin_stage`.
class process_cache {
 public:
  /// @param plan and `servers`, who asks them, outlive this
  process_cache(blueprint const& plan, server_fetcher& servers);
  ~process_cache();
  process_cache(process_cache const&) = delete;
  process_cache& operator=(process_cache const&) = delete;

  /// Forgets everything: clocks begin anew. Nobody waits here any more.
  /// @param protocol which of the plan's is in force
  void begin_stage(std::size_t protocol = 0);

  /// A worker of this process, whose answers `asked` counts, at its first clock. Returns its number.
  std::size_t enlist(inquiry& asked, worker_id w, clock_index at);
  /// Its commit to this server leaves now, and it will then be at clock `next`.
  void posting(std::size_t reader, server_id s, clock_index next);
  void posted(std::size_t reader, server_id s, clock_index next);

  /// Answers from what is here, or joins a request under way, or issues one; the reader's inquiry
  /// misses one answer more until the slot holds it. When it throws, nothing has been asked.
  void request(std::size_t reader, server_id s, std::size_t table, read_header const& read,
               read_slot& slot);
  /// The reader waits for nothing any more: its slots are not written to from now on. Others may wait for what was
  /// asked in its name, so it leaves the run only when its requests are answered, or with its process.
  void forget(std::size_t reader);

 private:
  friend class cached_part;

  struct reader_state {
    clock_index has_left;       ///< commits below it certainly have
    clock_index may_have_left;
    clock_index known_in;       ///< the reader keeps no own commits below it
  };
  struct server_state {
    std::vector<reader_state> readers;
    clock_index known = clock_index::lowest();  ///< the greatest server clock that it told
  };

  [[nodiscard]] admission_rule const& admission() const noexcept { return plan_.protocol(protocol_).admission; }
  [[nodiscard]] cached_part& part(std::size_t table, server_id s) noexcept {
    return *parts_[table * servers_.size() + s.index()];
  }

  blueprint const& plan_;
  std::size_t protocol_ = 0;
  server_fetcher& fetcher_;

  std::mutex lock_;  ///< what follows
  std::vector<server_state> servers_;
  std::vector<inquiry*> inquiries_;  ///< by reader
  std::vector<worker_id> readers_;
  std::vector<std::unique_ptr<cached_part>> parts_;
};

}  // namespace rubato::detail
