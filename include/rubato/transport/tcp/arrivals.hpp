// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/cluster/blueprint.hpp"
#include "rubato/transport/tcp/bodies.hpp"
#include "rubato/transport/tcp/pieces.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// What is arriving on one connection of a server: frames are checked against the tables before
/// memory is taken, and scattered into the arrays where they will be used.
template <class Plan>
class arrivals {
 public:
  using message = typename Plan::message;
  using shard_type = typename Plan::shard_type;
  using destinations = std::vector<std::span<std::byte>>;

  /// Rows of sparse tables in one frame take at most `sparse_max` bytes.
  arrivals(Plan const& p, server_id self, std::uint64_t sparse_max)
      : plan_(p), self_(self), sparse_max_(sparse_max) {}

  // ---- commits

  /// `shard` is where large updates are folded while they arrive. `takes`: it may take what this
  /// worker commits. What will be refused takes no memory, but is read over.
  void begin_commit(wire::frame_header const& header, std::span<std::byte const> meta,
                    shard_type& shard, bool takes, destinations& body) {
    auto const m = wire::from_bytes<wire::commit_meta<Plan::table_count>>(meta);
    std::uint64_t total = 0;
    Plan::for_each_table([&](auto tag) { total += check<decltype(tag)::index>(m.parts[decltype(tag)::index]); });
    expect_length(header, total);
    commit_ = {};
    commit_.from = {worker_id{header.sender}, incarnation_id{header.incarnation}, m.stage};
    commit_.stamp = m.stamp;
    commit_.version = m.version;
    pieces_.begin(header.sequence);
    decide(header.sequence, shard, takes);
    if (refused_ == refusal::none) prepare_parts(m, shard);
    else read_over(total);
    pieces_.give(body);
  }
  /// Of a commit that is folded while it arrives, the next piece.
  void more(shard_type& shard, destinations& body) {
    fold_window(shard);
    pieces_.give(body);
  }

  /// @throws wire::frame_error when a row is named that this server does not hold
  [[nodiscard]] message take_commit(shard_type& shard) {
    fold_window(shard);
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      auto& part = std::get<I>(parts_);
      if (!part) {
        std::get<I>(commit_.parts) = plan_.template pool<I>().nothing();
        return;
      }
      check_rows<I>(part->rows, true);
      std::get<I>(commit_.parts) = std::move(part);
    });
    return std::move(commit_);
  }
  /// It has been dealt with.
  void end_commit() noexcept { pieces_.end(); }
  /// Why the commit that has arrived was not to be taken when it began; so it cannot be now, whatever
  /// has changed since: it is not here.
  [[nodiscard]] refusal refused() const noexcept { return refused_; }
  /// Whether some of a commit that has not been dealt with is folded.
  [[nodiscard]] bool is_in_pieces() const noexcept { return pieces_.any_used(); }

  // ---- requests

  struct question {
    std::uint16_t table = 0;
    std::uint64_t ticket = 0;
    bool by_observer = false;
    read_header read{};
    selection asked{};
    std::vector<std::uint64_t> rows;
  };

  void begin_request(wire::frame_header const& header, std::span<std::byte const> meta,
                     destinations& body) {
    auto const m = wire::from_bytes<wire::request_meta>(meta);
    if (header.table >= Plan::table_count)
      throw wire::frame_error("a request about table " + std::to_string(header.table) +
                              ", expected one below " + std::to_string(Plan::table_count));
    if (m.asked > selection::all)
      throw wire::frame_error("a request for something unknown");
    if (m.bound > plan_.protocol_used().admission().bound())
      throw wire::frame_error("a request with staleness " + std::to_string(m.bound.clocks()) +
                              ", which is more than the protocol's");
    if ((m.rows != 0 && m.asked != selection::rows) || (m.cut_size != 0 && !m.has_cut))
      throw wire::frame_error("a request with rows or clocks that it does not ask for");
    constexpr std::uint64_t workers_max = 1 << 20;
    std::uint64_t const cut = bytes_for(m.cut_size, sizeof(clock_index), workers_max * 8);
    std::uint64_t const rows = bytes_for(m.rows, sizeof(std::uint64_t), rows_max(header.table) * 8);
    expect_length(header, cut + rows);
    question_.table = header.table;
    question_.ticket = header.sequence;
    question_.by_observer = header.sender == wire::observer;
    question_.read = {{worker_id{header.sender}, incarnation_id{header.incarnation}, m.stage},
                      m.clock,
                      m.bound,
                      {}};
    question_.asked = m.asked;
    has_cut_ = m.has_cut;
    cut_c_min_ = m.cut_c_min;
    cut_.resize(static_cast<std::size_t>(m.cut_size));
    question_.rows.resize(static_cast<std::size_t>(m.rows));
    body.push_back(wire::bytes_of(cut_));
    body.push_back(wire::bytes_of(question_.rows));
  }

  /// It may be moved from; what is not is used again. @throws wire::frame_error when a row is named
  /// that this server does not hold
  [[nodiscard]] question& take_request() {
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      if (question_.table == I) check_rows<I>(question_.rows, false);
    });
    if (has_cut_) {
      std::vector<clock_index> below;
      for (std::int64_t const c : cut_) below.emplace_back(c);
      question_.read.cut = std::make_shared<commit_cut const>(std::move(below), cut_c_min_);
    }
    return question_;
  }

  // ---- initial values

  void begin_initial(wire::frame_header const& header, std::span<std::byte const> meta,
                     destinations& body) {
    auto const m = wire::from_bytes<wire::part_size>(meta);
    bool known = false;
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      if (header.table != I) return;
      known = true;
      expect_length(header, check<I>(m));
      prepare<I>(m, std::get<I>(parts_), body);
    });
    if (!known) throw wire::frame_error("initial values of a table that there is not");
  }

  template <class Shard>
  void take_initial(std::uint16_t table, Shard& shard) {
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      if (table != I) return;
      auto const part = std::move(std::get<I>(parts_));
      if constexpr (Plan::template table_type<I>::bounded) {
        if (!part->whole) throw wire::frame_error("initial values of some rows of a dense table");
        shard.template store<I>().set_all(part->values);
      } else {
        check_rows<I>(part->rows, true);
        std::size_t const width = plan_.template spec<I>().width;
        for (std::size_t i = 0; i < part->rows.size(); ++i)
          shard.template store<I>().set(part->rows[i], std::span(part->values).subspan(i * width, width));
      }
    });
  }

 private:
  template <std::size_t I>
  [[nodiscard]] std::uint64_t rows_here() const noexcept {
    return plan_.template locator<I>().rows_of(self_);
  }

  /// Rows that one request may name: it takes memory for the answer.
  [[nodiscard]] std::uint64_t rows_max(std::uint16_t table) const {
    std::uint64_t most = 0;
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      if (table != I) return;
      most = sparse_max_ / row_bytes<I>();
      // Who asks for a row twice gets it twice, within reason.
      if (Plan::template table_type<I>::bounded)
        most = std::max<std::uint64_t>(most, 2 * rows_here<I>());
    });
    return most;
  }
  /// Of a row and its number.
  template <std::size_t I>
  [[nodiscard]] std::uint64_t row_bytes() const noexcept {
    return sizeof(std::uint64_t) +
           plan_.template spec<I>().width * sizeof(typename Plan::template value_type<I>);
  }

  /// The bytes of a part that fits its table.
  template <std::size_t I>
  [[nodiscard]] std::uint64_t check(wire::part_size const& p) const {
    using value_type = typename Plan::template value_type<I>;
    constexpr bool bounded = Plan::template table_type<I>::bounded;
    std::uint64_t const width = plan_.template spec<I>().width;
    std::uint64_t const most = bounded ? rows_here<I>() : sparse_max_ / row_bytes<I>();
    std::uint64_t const rows = p.whole ? rows_here<I>() : p.rows;
    if ((p.whole && (!bounded || p.rows != 0)) || rows > most || p.values != rows * width)
      throw wire::frame_error("an update of table " + std::to_string(I) + " with " +
                              std::to_string(p.rows) + " rows and " + std::to_string(p.values) +
                              " values, expected at most " + std::to_string(most) + " rows of width " +
                              std::to_string(width));
    return p.rows * sizeof(std::uint64_t) + p.values * sizeof(value_type);
  }

  template <std::size_t I>
  using update_type = update<typename Plan::template value_type<I>>;

  template <std::size_t I>
  void prepare(wire::part_size const& p, std::shared_ptr<update_type<I>>& part, destinations& body) {
    part = plan_.template pool<I>().take();
    part->whole = p.whole;
    part->rows.resize(static_cast<std::size_t>(p.rows));
    part->values.resize(static_cast<std::size_t>(p.values));
    body.push_back(wire::bytes_of(part->rows));
    body.push_back(wire::bytes_of(part->values));
  }

  // ---- commits that are refused, or folded while they arrive

  /// Once for each commit, also if it breaks off and comes again: some of it may have been folded, or
  /// dropped.
  void decide(std::uint64_t sequence, shard_type const& shard, bool takes) {
    if (std::exchange(decided_, sequence) != sequence) refused_ = refusal::none;
    if (refused_ != refusal::none) return;
    refused_ = takes ? shard.check(commit_.from, commit_.stamp, commit_.version) : refusal::stranger;
  }

  void read_over(std::uint64_t bytes) {
    Plan::for_each_table([&](auto tag) { std::get<decltype(tag)::index>(parts_) = nullptr; });
    pieces_.add({.room = {}, .bytes = static_cast<std::size_t>(bytes)});
  }

  void prepare_parts(wire::commit_meta<Plan::table_count> const& m, shard_type& shard) {
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      prepare_part<I>(m.parts[I], shard);
    });
  }

  /// A large whole update has no room here: a server would need as much memory for each worker as
  /// for its parameters.
  template <std::size_t I>
  void prepare_part(wire::part_size const& p, shard_type& shard) {
    auto& part = std::get<I>(parts_);
    if constexpr (shard_type::template folds_pieces<I>) {
      using value_type = typename Plan::template value_type<I>;
      std::size_t const bytes = static_cast<std::size_t>(p.values) * sizeof(value_type);
      // Between windows others may read: each chunk of the store is changed as a whole.
      std::size_t const unit =
          chunk_elements<value_type>(plan_.template spec<I>().width) * sizeof(value_type);
      if (p.whole && bytes > pieces::window_size && unit <= pieces::window_size) {
        part = nullptr;
        pieces_.add({.room = {},
                     .table = I,
                     .bytes = bytes,
                     .unit = unit,
                     .weight = shard.template weigh<I>(commit_.from, commit_.stamp, commit_.version)});
        return;
      }
    }
    destinations room;
    prepare<I>(p, part, room);
    for (auto const one : room) pieces_.add({.room = one});
  }

  void fold_window(shard_type& shard) {
    pieces_.take([&](std::size_t table, std::size_t first, std::span<std::byte const> bytes,
                     double weight) {
      Plan::for_each_table([&](auto tag) {
        constexpr std::size_t I = decltype(tag)::index;
        using value_type = typename Plan::template value_type<I>;
        if constexpr (shard_type::template folds_pieces<I>)
          if (table == I)
            shard.template fold_piece<I>(first / sizeof(value_type),
                                         {reinterpret_cast<value_type const*>(bytes.data()),
                                          bytes.size() / sizeof(value_type)},
                                         weight);
      });
    });
  }

  template <std::size_t I>
  void check_rows(std::vector<std::uint64_t> const& rows, bool once) const {
    bool ascending = true;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!holds<I>(rows[i]))
        throw wire::frame_error("row " + std::to_string(rows[i]) + " of table " + std::to_string(I) +
                                ", which is not on this server");
      ascending = ascending && (i == 0 || rows[i - 1] < rows[i]);
    }
    if (!once || ascending) return;
    row_map<std::size_t> seen;
    for (std::uint64_t const row : rows)
      if (!seen.try_emplace(row, 0).second)
        throw wire::frame_error("an update names row " + std::to_string(row) + " twice");
  }

  template <std::size_t I>
  [[nodiscard]] bool holds(std::uint64_t row) const {
    if constexpr (Plan::template table_type<I>::bounded) {
      return row < rows_here<I>();
    } else {
      auto const& where = plan_.template locator<I>();
      return where.contains(key{row}) && where.locate(key{row}).server == self_;
    }
  }

  template <class Sequence>
  struct parts_of;
  template <std::size_t... I>
  struct parts_of<std::index_sequence<I...>> {
    using type = std::tuple<std::shared_ptr<update_type<I>>...>;
  };

  Plan const& plan_;
  server_id self_;
  std::uint64_t sparse_max_;
  message commit_{};
  std::uint64_t decided_ = 0;  ///< the number of the commit that `refused_` is about
  refusal refused_ = refusal::none;
  pieces pieces_;
  typename parts_of<std::make_index_sequence<Plan::table_count>>::type parts_;
  question question_;
  bool has_cut_ = false;
  clock_index cut_c_min_{};
  std::vector<std::int64_t> cut_;
};

}  // namespace rubato::detail
