// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/optional_mutex.hpp"
#include "rubato/partition/locator.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/storage/coding.hpp"
#include "rubato/storage/table_change.hpp"
#include "rubato/storage/table_description.hpp"
#include "rubato/storage/table_host.hpp"
#include "rubato/storage/table_state.hpp"
#include "rubato/storage/shared_update.hpp"

namespace rubato {

/// What everybody in a run agrees on about one table.
class table_blueprint {
 public:
  /// @throws option_error naming the table and what was expected
  table_blueprint(std::size_t number, table_description description, std::span<rules const> protocols,
                  std::uint32_t servers);

  [[nodiscard]] table_description const& description() const noexcept { return description_; }
  [[nodiscard]] bool bounded() const noexcept { return description_.bounded; }
  [[nodiscard]] std::uint64_t rows() const noexcept { return description_.rows; }
  [[nodiscard]] std::size_t width() const noexcept { return description_.width; }
  /// Of a bounded table, all its elements.
  [[nodiscard]] std::size_t elements() const noexcept {
    return static_cast<std::size_t>(description_.rows) * description_.width;
  }
  [[nodiscard]] element_type element() const noexcept { return description_.element; }
  [[nodiscard]] std::size_t row_bytes() const noexcept {
    return description_.width * size_of(description_.element);
  }
  /// What updates are worth under a protocol: as the table says, or the protocol.
  [[nodiscard]] merge_rule const& merge(std::size_t protocol = 0) const noexcept { return merges_[protocol]; }
  /// Whether updates are kept apart by version.
  [[nodiscard]] bool versioned(std::size_t protocol = 0) const noexcept { return merge(protocol).versioned(); }
  [[nodiscard]] rubato::locator const& where() const noexcept { return where_; }
  /// How what workers commit goes over a wire, and what they read. A row that is read by key is coded by itself, or it
  /// would depend on those that it is read with, and caches on who has read what before.
  [[nodiscard]] coding const& updates() const noexcept { return updates_; }
  [[nodiscard]] coding const& answers() const noexcept { return answers_; }
  [[nodiscard]] coding const& answers_by_key() const noexcept { return answers_by_key_; }
  /// Whether a server's part of it may lie in memory that processes on its machine look at: where answers are of whole
  /// chunks as they lie, and long enough for saying where to be less work than sending them.
  [[nodiscard]] bool may_be_looked_at(server_id s) const noexcept {
    constexpr std::uint64_t long_enough = 32 * 1024;  // bytes
    return description_.bounded && !answers_ && where_.rows_of(s) * row_bytes() >= long_enough;
  }
  /// Buffers for commits.
  [[nodiscard]] update_pool const& pool() const noexcept { return pool_; }

  /// Whether runs may follow this protocol. @throws option_error naming the table and what was expected
  void check(std::size_t number, rules const& protocol) const;

  /// A server's part, with its part of the initial values. @param memory see `store_shape::memory`
  [[nodiscard]] std::unique_ptr<table_host> make_host(server_id s, threading t, block_memory* memory = nullptr) const;
  /// A server's part of the initial values; empty where there are none.
  [[nodiscard]] update initial_values(server_id s) const;
  void forget_initial_values() noexcept;

  /// The whole of a bounded table, in the order of its keys, from what each server holds.
  void assemble(std::span<table_state const> states, std::byte* out) const;

 private:
  void check(std::size_t number) const;
  void check_filter(std::size_t number, rules const& protocol, merge_rule const& merge) const;
  void check_codec(std::size_t number) const;

  table_description description_;
  std::vector<merge_rule> merges_;  ///< by protocol
  rubato::locator where_;
  coding updates_;
  coding answers_;
  coding answers_by_key_;
  update_pool pool_;
};

/// What everybody agrees on: protocols, of which each run follows one, tables, and which server holds which
/// rows. Immutable, but that initial values are forgotten; so it is shared by all workers and servers.
class blueprint {
 public:
  /// @param changes by protocol, what is done to tables when a run that follows it begins anew; nothing where
  /// the list ends
  /// @throws option_error naming the table and what was expected
  blueprint(std::vector<rules> protocols, std::uint32_t servers, std::vector<table_description> tables,
            std::vector<table_changes> changes = {});
  blueprint(rules protocol, std::uint32_t servers, std::vector<table_description> tables)
      : blueprint(std::vector<rules>{std::move(protocol)}, servers, std::move(tables)) {}

  [[nodiscard]] std::span<rules const> protocols() const noexcept { return protocols_; }
  [[nodiscard]] rules const& protocol(std::size_t i = 0) const noexcept { return protocols_[i]; }
  [[nodiscard]] std::uint32_t servers() const noexcept { return static_cast<std::uint32_t>(servers_.size()); }
  /// All of them, in order.
  [[nodiscard]] std::span<server_id const> server_ids() const noexcept { return servers_; }
  [[nodiscard]] std::span<table_blueprint const> tables() const noexcept { return tables_; }
  [[nodiscard]] table_blueprint const& table(std::size_t i) const noexcept { return tables_[i]; }

  [[nodiscard]] table_changes const& changes(std::size_t protocol) const noexcept { return changes_[protocol]; }

  /// Whether reads are of cuts that the coordinator grants.
  [[nodiscard]] bool synchronized(std::size_t p = 0) const noexcept {
    return protocols_[p].visibility.synchronized();
  }
  /// Whether clocks say who is let in and what is seen, so that a read may ask for less staleness.
  [[nodiscard]] bool goes_by_clocks(std::size_t p = 0) const noexcept {
    return !protocol(p).admission.limits() && !protocol(p).visibility.rounds();
  }
  /// Whether some table keeps updates apart by version.
  [[nodiscard]] bool versioned(std::size_t p = 0) const noexcept;
  /// Whether some table has a copy for each worker, so that nobody may read for another.
  [[nodiscard]] bool keeps_copies(std::size_t p = 0) const noexcept;
  /// Whether some table's updates count by when their worker has read.
  [[nodiscard]] bool by_age(std::size_t p = 0) const noexcept;
  /// Whether threads of a process may share what one of them has read: not where each has a cut, a round or a copy of
  /// its own, is let in for itself, or has updates that count by when it has read.
  [[nodiscard]] bool shares_reads(std::size_t p = 0) const noexcept {
    return !synchronized(p) && !protocol(p).visibility.rounds() && !keeps_copies(p) && !by_age(p) &&
           !protocol(p).admission.lets_in_one_by_one();
  }
  /// Whether the pace has a half in the coordinator.
  [[nodiscard]] bool conducted(std::size_t p = 0) const noexcept { return protocols_[p].pace.conducted(); }

  /// Before servers are made: whether this machine's memory is enough for what one of them has of the tables, or,
  /// without a number, for all of it in one process. Only dense tables have a size that is known before; stores
  /// of one's own may keep their rows elsewhere, as `paged` does, and are not counted. O(tables).
  /// @throws option_error naming the table, its size and the memory that there is
  void check_memory(std::optional<server_id> of = std::nullopt) const;

  /// Bytes of the rows that a server has of dense tables, and of others whose number of rows is known before.
  [[nodiscard]] std::uint64_t bytes_of(server_id s) const;

  /// They are the caller's memory, and may be gone soon.
  void forget_initial_values() noexcept;

  /// All that the processes of a run must agree on, in words that can be shown when they do not: when a
  /// read may go on, what it sees, what an update is worth, what tables there are and who holds which
  /// rows. By what policies do more than by what they are called, so that a server may put the same
  /// protocol together in another way. Parts are named and lie between "; ", as "merge of table 0: …".
  [[nodiscard]] std::string agreement() const;

 private:
  void check(table_changes const& c) const;
  void check(table_copy const& c) const;

  std::vector<rules> protocols_;
  std::vector<server_id> servers_;
  std::vector<table_blueprint> tables_;
  std::vector<table_changes> changes_;  ///< by protocol
};

}  // namespace rubato
