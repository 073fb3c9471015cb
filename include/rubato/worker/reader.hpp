// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/worker/argument_check.hpp"
#include "rubato/worker/endpoint.hpp"
#include "rubato/worker/missing_rows.hpp"
#include "rubato/worker/pacer.hpp"
#include "rubato/worker/pull_wish.hpp"
#include "rubato/worker/replica.hpp"
#include "rubato/worker/rows_read.hpp"

namespace rubato::detail {

/// How a worker reads: whether it may go on (admission), which copies of its replicas will do, what is
/// asked of which server, and what has been asked ahead of time. Knows the worker's clock, and what
/// servers have told of the others'. Not synchronized.
class reader {
 public:
  using key_list = std::span<std::uint64_t const>;

  /// All that is referred to is the worker's. `nearest` is the server that is asked where any will do.
  reader(endpoint& link, blueprint const& plan, std::size_t protocol, sender self, server_id nearest,
         argument_check const& check, pacer& pace, worker_metrics& metrics);
  reader(reader const&) = delete;
  reader& operator=(reader const&) = delete;

  [[nodiscard]] clock_index clock() const noexcept { return clock_; }
  [[nodiscard]] version_index version() const noexcept { return version_; }
  [[nodiscard]] staleness bound() const noexcept { return admission_.bound(); }
  [[nodiscard]] replica& replica_of(std::size_t table) noexcept { return *replicas_[table]; }
  [[nodiscard]] replica const& replica_of(std::size_t table) const noexcept { return *replicas_[table]; }

  void start(starting_point const& at);
  /// The worker has committed.
  void next_clock();
  /// Gives up what has been read: others hold memory for it.
  void end();

  /// The first read or push of a clock waits until its need is met; a worker that already knows of a
  /// sufficient `c_min` asks nobody. Any server's will do: what it has received has been committed.
  void enter(staleness s) {
    if (!entered_ || s < entered_for_) enter_anew(s);
  }

  // ---- pulls; where elements go, and how many there are

  void pull_whole(std::size_t table, std::byte* out, std::size_t elements, std::optional<staleness> asked);
  /// Of a table that does not hold every row.
  void pull_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values,
                    std::optional<staleness> asked);
  void pull_rows(std::size_t table, key_list keys, std::byte* out, std::size_t elements,
                 std::optional<staleness> asked) {
    before_read();
    check_.rows("pull", table, keys.size(), elements);
    staleness const s = check_.allowed(table, asked, bound());
    check_.keys("pull", table, keys);
    if (keys.empty()) return;
    replica& r = replica_of(table);
    freshness const& fresh = usable(s);
    missing_.clear();
    rows_found const found = r.read_rows(keys, fresh, r.base_readable(fresh), out, missing_);
    if (!missing_.empty() || (synchronized_ && found.mixed))
      return complete_rows(table, keys, out, s, found.oldest);
    enter(s);
    if (renews_) note_read(table, keys, found.oldest);
    count_read(found.oldest);
  }

  /// Several tables, each at most once: what is not here comes in one exchange with the servers, under partition
  /// synchronization all of it of one cut.
  void pull_together(std::span<pull_wish const> wishes, std::optional<staleness> asked);

  // ---- prefetches: the requests of the next pulls have been sent, and their answers may have come.
  // Not with synchronized reads, each of which is of a cut of its own.

  void prefetch_whole(std::size_t table);
  void prefetch_rows(std::size_t table, key_list keys);
  /// Before anything else uses the slots: waits for the answers. Whether there was a prefetch.
  bool end_prefetch() { return ahead_ != ahead::nothing && finish_prefetch(); }

  // ---- commits

  /// Before a commit: a worker that keeps its own and reads too rarely to be told asks whether they are
  /// in.
  void make_room_for_commit();
  /// Before it is sent: gives up what the next clock cannot read, and own commits that no base needs.
  /// `flush`: no other comes after it.
  void prepare_commit(bool flush);
  /// Whether a worker that ends has to commit, pushed or not.
  [[nodiscard]] bool ends_with_commit() const noexcept;
  /// Whether this table's replica still needs the commit that is about to be sent.
  [[nodiscard]] bool keeps_commit(std::size_t table) const noexcept;

 private:
  /// What has been asked for later reads. A server lets in the requests that it has of a worker together, so all of
  /// them are of one clock.
  enum class ahead : std::uint8_t {
    nothing,
    prefetch,
    renewal  ///< of copies, from which reads go on until the answers are taken
  };
  /// A table's part of what is asked for at a time.
  struct share {
    std::size_t table = 0;
    selection asked{};  ///< rows or all; of a pull also nothing, where all is here
    std::vector<server_id> from{};
    missing_rows rows{};
    // Of pulls:
    clock_index oldest = clock_index::highest();  ///< the least server clock of what was here
    bool scattered = false;                       ///< it is written where the user wants it
  };
  /// How a table is read, where copies are renewed.
  struct usage {
    clock_index asked = clock_index::lowest();  ///< when rows were last asked for
    clock_index read = clock_index::lowest();   ///< when it was last read
    clock_index from = clock_index::highest();  ///< the oldest copy's server clock then
    rows_read rows{};                           ///< by key, in that clock
    rows_read rows_before{};                    ///< and in the one before in which it was read
  };

  [[nodiscard]] read_slot& slot(std::size_t table, server_id s) noexcept {
    return replicas_[table]->slot(s);
  }
  /// What the admission rule says at this clock; it is asked once, since it has no memory.
  [[nodiscard]] freshness const& usable(staleness s) noexcept {
    if (fresh_.clock != clock_ || fresh_for_ != s) ask_admission(s);
    return fresh_;
  }
  void ask_admission(staleness s);
  [[nodiscard]] clock_index need(staleness s) noexcept { return usable(s).need; }
  /// Commits say at which round they were computed.
  [[nodiscard]] bool by_rounds() const noexcept { return visibility_.rounds().has_value(); }

  void enter_anew(staleness s);
  void know(clock_index c_min) noexcept;
  void fetch_cut(staleness s, bool pull);
  void fetch(std::size_t table, std::span<server_id const> from, staleness s);
  void request(std::size_t table, std::span<server_id const> from, staleness s, bool renews = false);
  template <class Held>
  void wait_for_answers(time_point before, Held held_until);
  [[nodiscard]] duration held_up(std::size_t table, std::span<server_id const> from, time_point since, time_point now);
  void collect(std::size_t table, std::span<server_id const> from, time_point before, duration send_before);
  void collect(std::span<share const> shares, time_point before, duration send_before);
  [[nodiscard]] duration take_answers(std::size_t table, std::span<server_id const> from, time_point since);
  void end_exchange(time_point before, duration held, duration send_before);
  void note_let_in(staleness s) noexcept;
  void acknowledge(server_id server, clock_index included);
  void acknowledge(share const& p);
  void count_time(time_point before, duration held);
  void count_read(clock_index server_clock) {
    ++metrics_.pulls;
    if (!std::exchange(read_this_clock_, true)) count_staleness(server_clock);
  }
  void count_staleness(clock_index server_clock);

  [[nodiscard]] bool enter_by_base(std::size_t table, staleness s);
  void bring_base(std::size_t table, staleness s);
  void fetch_whole(std::size_t table, staleness s);
  void pull_scattered(std::size_t table, std::byte* out, staleness s);
  void complete_rows(std::size_t table, key_list keys, std::byte* out, staleness s, clock_index oldest);
  void miss_all(key_list keys);
  void fetch_rows(std::size_t table, staleness s);
  void address_rows(std::size_t table, missing_rows& rows);
  void address_rows_to(server_id server, read_slot& to, missing_rows& rows);
  void address_all(std::size_t table);
  void address_others(std::size_t table);

  [[nodiscard]] staleness check_together(std::span<pull_wish const> wishes, std::optional<staleness> asked);
  [[nodiscard]] bool look_for(std::span<pull_wish const> wishes, staleness s);
  void look_for(pull_wish const& w, share& p, staleness s, rows_found& all);
  void miss(pull_wish const& w, share& p);
  void fetch_together(std::span<pull_wish const> wishes, staleness s);
  void address(pull_wish const& w, share& p);
  void take(pull_wish const& w, share& p);

  [[nodiscard]] share& next_ahead(std::size_t table, selection asked);
  void start_prefetch(ahead what, share& p);
  bool finish_prefetch();
  [[nodiscard]] bool is_ahead(std::size_t table) const noexcept;
  /// Answers that the body has asked for ahead of time come in before a read looks for copies; renewals may wait.
  void before_read() {
    if (ahead_ == ahead::prefetch) finish_prefetch();
  }

  void note_read(std::size_t table, key_list keys, clock_index from);
  void renew();
  void renew(std::size_t table);

  [[nodiscard]] std::size_t kept_commits() const noexcept;
  void drop_useless_copies();
  [[nodiscard]] bool next_read_includes_own() const noexcept;

  static constexpr std::size_t kept_commits_max = 64;

  // Simulations have many workers, whose memory is cold: what all have in common is the plan's, and what each step
  // and each read of a whole table needs comes first.
  endpoint& link_;
  std::vector<std::unique_ptr<replica>> replicas_;
  bool synchronized_;
  bool shares_reads_;
  bool read_this_clock_ = false;
  bool own_may_lag_ = false;  ///< own commits may be missing from what servers answer
  bool entered_ = false;      ///< this clock's need is met
  ahead ahead_ = ahead::nothing;
  staleness entered_for_{};   ///< at this staleness, and all greater ones
  clock_index clock_{};
  clock_index known_ = clock_index::lowest();  ///< the greatest `c_min` that a server told
  version_index version_{};
  freshness fresh_{};         ///< what a read at `fresh_for_` may use
  staleness fresh_for_{};
  admission_rule const& admission_;
  visibility_rule const& visibility_;
  argument_check const& check_;
  pacer& pacer_;
  worker_metrics& metrics_;

  std::span<server_id const> servers_;
  std::vector<server_id> asked_;
  fetch_mark mark_{};   ///< of what the requests under way bring, but for the servers' clocks
  read_header header_;  ///< of these
  server_id nearest_;

  cut_slot cut_;
  missing_rows missing_;
  std::vector<share> prefetched_;   ///< of which so many have been asked for; the others keep their memory
  std::size_t prefetches_ = 0;
  std::vector<share> pulled_;       ///< together, by wish
  std::vector<bool> wished_;        ///< by table
  read_rule const& renews_;
  std::vector<usage> use_;  ///< by table
  clock_index renewed_ = clock_index::lowest();  ///< the last clock in which copies were renewed

  static constexpr std::int64_t lately = 8;  ///< a table is in use that was read in so many clocks
};

}  // namespace rubato::detail
