// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/table.hpp"
#include "rubato/partition/locator.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/worker/replica.hpp"

namespace rubato {

/// What everybody in a run agrees on: a protocol, tables, and which server holds which rows. Makes
/// the servers' shards and the workers' replicas; holds neither.
template <class Mutex, protocol Protocol, table_spec... Tables>
class blueprint {
 public:
  static_assert(sizeof...(Tables) != 0, "a cluster needs at least one table");
  static_assert(((!std::integral<typename Tables::value_type> ||
                  exact_merge<merge_for<Tables, Protocol>>)&&...),
                "a table of integers needs an exact merge: write dense<T, sum> or sparse<T, sum>");
  static_assert((merge_policy<merge_for<Tables, Protocol>> && ...),
                "a table's merge must model merge_policy or be merge_of_protocol");
  static_assert(((!versioned_merge<merge_for<Tables, Protocol>> || versioned_table<Tables>)&&...),
                "this merge keeps versions of the parameters: wrap the table in multi_version{…}");
  static_assert(((!synchronized_visibility<visibility_of<Protocol>> ||
                  !velocity_merge<merge_for<Tables, Protocol>>)&&...),
                "stable_cut reads commits in any order, which a merge with velocity cannot: use "
                "eager or strict visibility with it");

  using protocol_type = Protocol;
  using shard_type = shard<Mutex, Protocol, Tables...>;
  using message = typename shard_type::message;
  static constexpr bool versioned = shard_type::versioned;
  static constexpr bool synchronized = shard_type::synchronized;
  using conductor_type = conductor_of<Protocol>;
  using pace_order = typename conductor_type::order_type;
  static constexpr bool conducted = !std::same_as<conductor_type, no_conductor>;
  static constexpr std::size_t table_count = sizeof...(Tables);
  template <std::size_t I>
  using table_type = std::tuple_element_t<I, std::tuple<Tables...>>;
  template <std::size_t I>
  using value_type = typename table_type<I>::value_type;
  template <std::size_t I>
  using store_type = typename table_type<I>::template store<Mutex>;
  template <std::size_t I>
  using snapshot_type = typename store_type<I>::snapshot_type;
  template <std::size_t I>
  using replica_type = replica<table_type<I>, store_type<I>>;
  using replicas =
      std::tuple<replica<Tables, typename Tables::template store<Mutex>>...>;

  /// @throws option_error naming the table and what was expected
  blueprint(Protocol p, std::uint32_t servers, Tables... tables)
      : protocol_(std::move(p)),
        tables_(tables...),
        servers_(servers),
        locators_(make_locator(tables, servers)...) {
    for_each_table([&](auto tag) { check<decltype(tag)::index>(); });
  }

  [[nodiscard]] Protocol const& protocol_used() const noexcept { return protocol_; }
  [[nodiscard]] std::uint32_t servers() const noexcept { return servers_; }

  template <std::size_t I>
  [[nodiscard]] table_type<I> const& spec() const noexcept {
    return std::get<I>(tables_);
  }
  template <std::size_t I>
  [[nodiscard]] auto const& locator() const noexcept {
    return std::get<I>(locators_);
  }
  /// Buffers for the table's commits.
  template <std::size_t I>
  [[nodiscard]] update_pool<value_type<I>> const& pool() const noexcept {
    return std::get<I>(pools_);
  }

  /// What the updates of a table are worth: as the table says, or the protocol.
  template <std::size_t I>
  [[nodiscard]] auto merge() const {
    if constexpr (std::same_as<typename table_type<I>::merge_type, merge_of_protocol>)
      return protocol_.merge();
    else
      return spec<I>().merge;
  }

  /// A server's part of all tables, with its part of the initial values.
  [[nodiscard]] std::unique_ptr<shard_type> make_shard(server_id s) const {
    auto made = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::make_unique<shard_type>(protocol_, typename shard_type::merges(merge<I>()...),
                                          store_maker<I>{*this, s}...);
    }(std::make_index_sequence<table_count>{});
    for_each_table([&](auto tag) { set_initial_rows<decltype(tag)::index>(*made, s); });
    return made;
  }

  /// They are the caller's, and may be gone soon.
  void forget_initial_values() noexcept {
    std::apply([](auto&... t) { (forget(t), ...); }, tables_);
  }

  [[nodiscard]] replicas make_replicas() const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return replicas(replica_type<I>(std::get<I>(locators_), spec<I>().width, servers(),
                                      std::get<I>(pools_), spec<I>().filter,
                                      spec<I>().cached_rows)...);
    }(std::make_index_sequence<table_count>{});
  }

  /// The whole of a dense table, in the order of its keys, from what each server holds.
  template <std::size_t I>
    requires(table_type<I>::bounded)
  void assemble(std::span<snapshot_type<I> const> states, std::vector<value_type<I>>& out) const {
    std::size_t const width = spec<I>().width;
    out.resize(static_cast<std::size_t>(spec<I>().rows) * width);
    for (auto const& run : locator<I>().rows().runs())
      states[run.server.index()].copy(run.local_first * width, run.rows * width,
                                      out.data() + run.first * width);
  }

  /// The whole of a sparse table: its touched rows by key.
  template <std::size_t I>
    requires(!table_type<I>::bounded)
  void assemble(std::span<snapshot_type<I> const> states,
                sparse_snapshot<value_type<I>>& out) const {
    std::size_t const width = spec<I>().width;
    std::map<std::uint64_t, std::vector<value_type<I>>> rows;
    for (auto const& part : states)
      for (std::size_t i = 0; i < part.keys.size(); ++i) {
        auto const from = part.values.begin() + static_cast<std::ptrdiff_t>(i * width);
        rows.try_emplace(part.keys[i], from, from + static_cast<std::ptrdiff_t>(width));
      }
    out.clear();
    for (auto const& [k, row] : rows) {
      out.keys.push_back(k);
      out.values.insert(out.values.end(), row.begin(), row.end());
    }
  }

  /// Calls `f(table<I>)` for each table.
  template <class F>
  static void for_each_table(F f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(table_tag<I>{}), ...);
    }(std::make_index_sequence<table_count>{});
  }

 private:
  template <class Table>
  static locator_for<Table> make_locator(Table const& t, std::uint32_t servers) {
    if (servers == 0) throw option_error("servers: a cluster needs at least 1");
    constexpr std::uint64_t elements_max = (std::uint64_t{1} << 46) / sizeof(typename Table::value_type);
    if (t.width > elements_max || (Table::bounded && t.width != 0 && t.rows > elements_max / t.width))
      throw option_error("table: " + std::to_string(t.rows) + " rows of width " +
                         std::to_string(t.width) + " are more than memory can hold");
    return locator_for<Table>(t.partition, table_shape{t.rows, servers});
  }

  template <std::size_t I>
  void check() const {
    auto const& t = spec<I>();
    auto const say = [](std::string const& what) {
      throw option_error("table " + std::to_string(I) + ": " + what);
    };
    t.filter.check();
    if (t.width == 0) say("width must be at least 1");
    if (table_type<I>::bounded && t.rows == 0) say("rows must be at least 1");
    std::uint64_t rows = t.rows;
    if constexpr (!table_type<I>::bounded) {
      rows = t.init_keys.size();
      for (key const k : t.init_keys)
        if (!std::get<I>(locators_).contains(k))
          say("init_keys holds " + std::to_string(k.value()) + ", expected keys below " +
              std::to_string(t.rows));
    }
    if ((table_type<I>::bounded ? !t.init.empty() : true) && t.init.size() != rows * t.width)
      say("init has " + std::to_string(t.init.size()) + " values, expected " +
          std::to_string(rows * t.width) + " (rows x width)");
  }

  /// Converts to a store, so that a tuple can hold stores, which cannot move.
  template <std::size_t I>
  struct store_maker {
    blueprint const& self;
    server_id server;

    operator store_type<I>() const {
      auto const& t = self.template spec<I>();
      if constexpr (!table_type<I>::bounded) {
        return store_type<I>(t.width);
      } else {
        auto const& where = std::get<I>(self.locators_);
        return store_type<I>(where.rows_of(server), t.width,
                             [&](std::size_t first, std::size_t count, value_type<I>* out) {
                               fill(t, where.rows(), server, first, count, out);
                             });
      }
    }

    static void fill(table_type<I> const& t, layout const& rows, server_id s, std::size_t first,
                     std::size_t count, value_type<I>* out) {
      if (t.init.empty()) {
        std::fill_n(out, count, value_type<I>{});
        return;
      }
      for (std::size_t const i : rows.runs_of(s, first / t.width)) {
        auto const& run = rows.runs()[i];
        std::size_t const begin = std::max(first, run.local_first * t.width);
        std::size_t const end = std::min(first + count, (run.local_first + run.rows) * t.width);
        if (begin >= end) break;
        std::copy_n(t.init.data() + run.first * t.width + (begin - run.local_first * t.width),
                    end - begin, out + (begin - first));
      }
    }
  };

  template <std::size_t I>
  void set_initial_rows(shard_type& made, server_id s) const {
    if constexpr (!table_type<I>::bounded) {
      auto const& t = spec<I>();
      for (std::size_t i = 0; i < t.init_keys.size(); ++i)
        if (layout::place const at = locator<I>().locate(t.init_keys[i]); at.server == s)
          made.template store<I>().set(at.local, t.init.subspan(i * t.width, t.width));
    }
  }

  template <class Table>
  static void forget(Table& t) noexcept {
    t.init = {};
    if constexpr (!Table::bounded) t.init_keys = {};
  }

  Protocol protocol_;
  std::tuple<Tables...> tables_;
  std::uint32_t servers_;
  std::tuple<locator_for<Tables>...> locators_;
  std::tuple<update_pool<typename Tables::value_type>...> pools_;
};

}  // namespace rubato
