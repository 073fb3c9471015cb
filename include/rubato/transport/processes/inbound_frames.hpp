// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rubato/core/raw_array.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/transport/processes/arena_view.hpp"
#include "rubato/transport/processes/borrowed_frame.hpp"
#include "rubato/transport/processes/lent_turns.hpp"
#include "rubato/transport/processes/windowed_body.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// A read's request, as it came from a worker process.
struct asked_read {
  std::uint16_t table = 0;
  std::uint64_t ticket = 0;
  bool by_observer = false;
  read_header read{};
  selection asked{};
  std::vector<std::uint64_t> rows;

  /// What it takes while it waits.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return rows.size() * sizeof(std::uint64_t) + (read.cut ? read.cut->bytes() : 0);
  }
};

/// What is arriving on one connection of a server: frames are checked against the tables before memory is
/// taken, and scattered into the arrays where they will be used.
class inbound_frames {
 public:
  using destinations = std::vector<std::span<std::byte>>;

  /// Rows of sparse tables in one frame take at most `sparse_max` bytes. `finite`: values that are not finite are
  /// refused, by a wire::frame_error.
  inbound_frames(blueprint const& plan, server_id self, std::uint64_t sparse_max, bool finite = false)
      : plan_(plan),
        self_(self),
        sparse_max_(sparse_max),
        finite_(finite),
        parts_(plan.tables().size()),
        coded_(parts_.size()) {}

  /// Bytes of memory that are there for what arrives, but for the window of large commits: for observers.
  [[nodiscard]] std::uint64_t room() const noexcept;
  /// Whether some have been refused for that.
  [[nodiscard]] bool was_not_finite() const noexcept { return was_not_finite_; }

  /// The worker process of this session lends memory, of which updates say where in it they lie. Which of them are
  /// needed no more `over` is told. Returns whether it can be seen; if not, `why` as a part of a sentence.
  [[nodiscard]] bool see(wire::memory_meta const& lent, std::uint64_t session, std::shared_ptr<frames_over> over,
                         std::string& why);

  // ---- commits

  /// `server` is where large updates are folded while they arrive. `takes`: it may take what this
  /// worker commits. What will be refused takes no memory, but is read over.
  void begin_commit(wire::frame_header const& header, std::span<std::byte const> meta,
                    shard const& server, bool takes, destinations& body);
  /// Of a commit that is folded while it arrives, the next piece.
  void more(shard& server, destinations& body);
  /// @throws wire::frame_error when a row is named that this server does not hold
  [[nodiscard]] commit_message take_commit(shard& server);
  /// It has been dealt with.
  void end_commit() noexcept {
    windows_.end();
    lent_folded_ = false;
  }
  /// Why the commit that has arrived was not to be taken when it began; so it cannot be now, whatever
  /// has changed since: it is not here.
  [[nodiscard]] refusal refused() const noexcept { return refused_; }
  /// Whether some of a commit that has not been dealt with is folded.
  [[nodiscard]] bool is_in_pieces() const noexcept { return windows_.any_used() || lent_folded_; }
  /// Bytes of the commit that is arriving, those that are lent with them; and these.
  [[nodiscard]] std::uint64_t commit_bytes() const noexcept { return commit_bytes_; }
  [[nodiscard]] std::uint64_t lent_bytes() const noexcept { return lent_bytes_; }

  // ---- requests

  /// @param stage the one under way @param bound the greatest staleness that its reads may ask for
  void begin_request(wire::frame_header const& header, std::span<std::byte const> meta, stage_id stage,
                     staleness bound, destinations& body);
  /// It may be moved from; what is not is used again. @throws wire::frame_error when a row is named
  /// that this server does not hold
  [[nodiscard]] asked_read& take_request();

  // ---- values

  void begin_values(wire::frame_header const& header, std::span<std::byte const> meta,
                     destinations& body);
  /// What the table begins with, all rows of a bounded one; or what rows are to be from now on.
  void take_values(std::uint16_t table, shard& server, bool initial);

 private:
  [[nodiscard]] std::uint64_t rows_here(std::size_t table) const noexcept {
    return plan_.table(table).where().rows_of(self_);
  }
  /// Of a row and its number.
  [[nodiscard]] std::uint64_t row_bytes(std::size_t table) const noexcept {
    return sizeof(std::uint64_t) + plan_.table(table).row_bytes();
  }
  [[nodiscard]] std::uint64_t rows_max(std::size_t table) const;
  [[nodiscard]] std::uint64_t check(std::size_t table, wire::part_size const& p, coding const& by) const;
  [[nodiscard]] std::size_t sent(std::size_t table, wire::part_size const& p) const noexcept;
  void prepare(std::size_t table, wire::part_size const& p, bool coded, destinations& body);
  void decide(std::uint64_t sequence, shard const& server, bool takes);
  void check_place(std::size_t table, wire::part_size const& p) const;
  void read_over(std::uint64_t bytes);
  void prepare_part(std::size_t table, wire::part_size const& p, shard const& server);
  void fold_window(shard& server);
  void take_lent(shard& server);
  void fold_lent(std::size_t table, std::size_t first, std::span<std::byte const> values, double weight, shard& server);
  [[nodiscard]] bool is_lent(std::size_t table) const noexcept {
    return std::ranges::find(lent_, table, &lent_values::table) != lent_.end();
  }
  void fold_turn(std::size_t table, std::size_t first_in_body, double weight, shard& server);
  void fold_coded(shard& server, std::size_t table, std::size_t first, std::span<std::byte const> bytes, double weight);
  void decode(std::size_t table);
  void check_rows(std::size_t table, std::vector<std::uint64_t> const& rows, bool once) const;
  void check_finite(std::size_t table, std::span<std::byte const> values);
  [[nodiscard]] bool holds_all(std::size_t table, std::span<std::uint64_t const> rows) const;
  [[nodiscard]] bool holds(std::size_t table, std::uint64_t row) const;

  blueprint const& plan_;
  server_id self_;
  std::uint64_t sparse_max_;
  bool finite_;
  bool was_not_finite_ = false;
  commit_message commit_{};
  std::uint64_t decided_ = 0;  ///< the number of the commit that `refused_` is about
  refusal refused_ = refusal::none;
  windowed_body windows_;
  /// Memory of the worker process, once there is some.
  struct seen_memory {
    std::shared_ptr<arena_view const> view{};
    std::uint64_t session = 0;
    std::shared_ptr<frames_over> over{};
  };
  /// Values of a commit that lie there.
  struct lent_values {
    std::size_t table;
    std::span<std::byte const> values;
    bool in_turns;
  };
  seen_memory seen_;
  std::vector<lent_values> lent_;
  std::uint64_t number_ = 0;  ///< of the commit that is arriving
  bool lent_folded_ = false;  ///< some of a commit that has not been dealt with
  std::uint64_t commit_bytes_ = 0;
  std::uint64_t lent_bytes_ = 0;
  std::vector<update_buffer> parts_;  ///< by table
  std::vector<raw_array> coded_;      ///< by table: values that a codec has written
  std::vector<std::byte> piece_;      ///< of such, as they are folded
  asked_read question_;
  bool has_cut_ = false;
  clock_index cut_c_min_{};
  std::vector<std::int64_t> cut_;
};

}  // namespace rubato::detail
