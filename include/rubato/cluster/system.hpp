// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/table.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/partition/locator.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/server/coordinator.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/worker/replica.hpp"

namespace rubato {

/// The servers' side of a cluster: a protocol and tables, put together into shards. Knows no
/// transport, starts nothing.
template <class Mutex, protocol Protocol, table_spec... Tables>
class system {
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
  using replica_type = replica<table_type<I>, store_type<I>>;
  using replicas =
      std::tuple<replica<Tables, typename Tables::template store<Mutex>>...>;

  /// Initial values are copied. @throws option_error naming the table and what was expected
  system(Protocol p, std::uint32_t servers, Tables... tables)
      : protocol_(std::move(p)),
        tables_(tables...),
        locators_(make_locator(tables, servers)...),
        coordinator_(servers, synchronized),
        conductor_(detail::make_conductor(protocol_.pace())) {
    for_each_table([&](auto tag) { check<decltype(tag)::index>(); });
    for (std::uint32_t s = 0; s < servers; ++s) shards_.push_back(make_shard(server_id{s}));
    for_each_table([&](auto tag) {
      set_initial_rows<decltype(tag)::index>();
      forget_initial_values(std::get<decltype(tag)::index>(tables_));
    });
  }

  [[nodiscard]] Protocol const& protocol_used() const noexcept { return protocol_; }
  [[nodiscard]] std::uint32_t servers() const noexcept {
    return static_cast<std::uint32_t>(shards_.size());
  }
  [[nodiscard]] shard_type& server(server_id s) noexcept { return *shards_[s.index()]; }
  [[nodiscard]] shard_type const& server(server_id s) const noexcept { return *shards_[s.index()]; }
  [[nodiscard]] coordinator& members() noexcept { return coordinator_; }
  [[nodiscard]] coordinator const& members() const noexcept { return coordinator_; }
  /// The pace's half in the coordinator. The transport tells it who comes and goes.
  [[nodiscard]] conductor_type& conductor() noexcept { return conductor_; }

  template <std::size_t I>
  [[nodiscard]] table_type<I> const& spec() const noexcept {
    return std::get<I>(tables_);
  }
  [[nodiscard]] stage_id stage() const noexcept { return stage_; }

  /// Starts all clocks anew on every shard.
  void begin_stage() {
    stage_ = stage_id{stage_.value() + 1};
    coordinator_.begin_stage(stage_);
    conductor_ = detail::make_conductor(protocol_.pace());
    for (auto& s : shards_) s->begin_stage(stage_);
  }

  /// Carries an order to every shard at once, and the orders that follow from their reports; appends
  /// who may go on to `released`. Returns what the last order said. For transports that reach all
  /// shards by a call.
  starting_point carry(membership_order const& o, std::vector<worker_id>& released) {
    starting_point last{o.clock, o.version};
    for (auto& s : shards_)
      if (auto const said = s->order(o, released))
        if (auto const next = coordinator_.report(o, *said)) last = carry(*next, released);
    return last;
  }

  /// Asks the coordinator for a cut; nothing when the worker has to wait until `take_released` of
  /// the cuts names it. @pre `coordinator::check` is content
  [[nodiscard]] shared_cut ask_cut(read_header const& read, bool pull)
    requires synchronized
  {
    clock_index const need = protocol_.admission().need(read.clock, read.bound);
    if (!coordinator_.cuts().admit(read.from.worker, read.clock, need)) return nullptr;
    return coordinator_.cuts().grant(read.from.worker, pull);
  }

  /// Tells every shard that no read asks for less than `mark`.
  void fold_below(commit_cut const& mark, std::vector<worker_id>& released) {
    for (auto& s : shards_) s->advance(stage_, mark, released);
  }

  [[nodiscard]] replicas make_replicas() const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return replicas(replica_type<I>(std::get<I>(locators_), spec<I>().width, servers(),
                                      std::get<I>(pools_), spec<I>().filter)...);
    }(std::make_index_sequence<table_count>{});
  }

  /// The state of a dense table, in the order of its keys.
  template <std::size_t I>
    requires(table_type<I>::bounded)
  void read_state(std::vector<value_type<I>>& out) const {
    std::size_t const width = spec<I>().width;
    out.resize(static_cast<std::size_t>(spec<I>().rows) * width);
    std::vector<typename store_type<I>::snapshot_type> states(shards_.size());
    for (std::size_t s = 0; s < shards_.size(); ++s)
      shards_[s]->template observe<I>(states[s]);
    for (auto const& run : std::get<I>(locators_).rows().runs())
      states[run.server.index()].copy(run.local_first * width, run.rows * width,
                                      out.data() + run.first * width);
  }

  /// The state of a sparse table: its touched rows by key.
  template <std::size_t I>
    requires(!table_type<I>::bounded)
  void read_state(sparse_snapshot<value_type<I>>& out) const {
    std::size_t const width = spec<I>().width;
    std::map<std::uint64_t, std::vector<value_type<I>>> rows;
    for (auto const& s : shards_) {
      sparse_snapshot<value_type<I>> part;
      s->template observe<I>(part);
      for (std::size_t i = 0; i < part.keys.size(); ++i) {
        auto const from = part.values.begin() + static_cast<std::ptrdiff_t>(i * width);
        rows.try_emplace(part.keys[i], from, from + static_cast<std::ptrdiff_t>(width));
      }
    }
    out.clear();
    for (auto const& [k, row] : rows) {
      out.keys.push_back(k);
      out.values.insert(out.values.end(), row.begin(), row.end());
    }
  }

  /// Adds what the shards have counted to a report.
  void add_counters(run_report& r) const {
    for (auto const& s : shards_) r.versions_peak = std::max(r.versions_peak, s->versions_peak());
    for (auto const& s : shards_)
      s->inspect([&](auto const& control) {
        shard_counters const& c = control.counters();
        r.updates = std::max(r.updates, c.commits);
        r.servers += c;
      });
  }

  /// What the conductor has decided in this run, oldest first. Not during a run.
  [[nodiscard]] std::vector<pace_change> pace_changes() const {
    if constexpr (conducted) return {conductor_.changes().begin(), conductor_.changes().end()};
    else return {};
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

  [[nodiscard]] std::unique_ptr<shard_type> make_shard(server_id s) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::make_unique<shard_type>(protocol_, typename shard_type::merges(merge<I>()...),
                                          store_maker<I>{*this, s}...);
    }(std::make_index_sequence<table_count>{});
  }

  template <std::size_t I>
  [[nodiscard]] auto merge() const {
    if constexpr (std::same_as<typename table_type<I>::merge_type, merge_of_protocol>)
      return protocol_.merge();
    else
      return spec<I>().merge;
  }

  /// Converts to a store, so that a tuple can hold stores, which cannot move.
  template <std::size_t I>
  struct store_maker {
    system const& self;
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

  /// They are the caller's, and may be gone soon.
  template <class Table>
  static void forget_initial_values(Table& t) noexcept {
    t.init = {};
    if constexpr (!Table::bounded) t.init_keys = {};
  }

  template <std::size_t I>
  void set_initial_rows() {
    if constexpr (!table_type<I>::bounded) {
      auto const& t = spec<I>();
      for (std::size_t i = 0; i < t.init_keys.size(); ++i) {
        layout::place const at = std::get<I>(locators_).locate(t.init_keys[i]);
        server(at.server).template store<I>().set(at.local, t.init.subspan(i * t.width, t.width));
      }
    }
  }

  Protocol protocol_;
  std::tuple<Tables...> tables_;
  std::tuple<locator_for<Tables>...> locators_;
  std::tuple<update_pool<typename Tables::value_type>...> pools_;
  std::vector<std::unique_ptr<shard_type>> shards_;
  coordinator coordinator_;
  conductor_type conductor_;
  stage_id stage_{0};
};

}  // namespace rubato
