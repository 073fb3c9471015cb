// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "rubato/core/raw_array.hpp"
#include "rubato/net/link.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/storage/coding.hpp"
#include "rubato/storage/table_host.hpp"
#include "rubato/storage/table_state.hpp"
#include "rubato/storage/update.hpp"
#include "rubato/transport/processes/lent_turns.hpp"
#include "rubato/transport/processes/update_memory.hpp"

namespace rubato::detail {

/// A frozen state, sent from where it is; the store copies what it changes meanwhile.
class state_body final : public net::body_source {
 public:
  /// Takes the state.
  explicit state_body(table_state& state);
  [[nodiscard]] std::span<std::byte const> next() override;
  [[nodiscard]] std::span<std::byte const> next_beside() override { return next(); }

 private:
  table_state state_;
  std::size_t next_ = 0;
};

/// The rows of a table that holds every row, each chunk as it is when its turn comes: holds no more chunks at a time
/// than the network asks for, at most sixteen, however slow the reader is. For eager visibility, where chunks may
/// differ by commits anyway.
class live_body final : public net::body_source {
 public:
  /// @param bytes of all rows @param to_come what is yet to be taken from tables is kept in it, this body's share too
  live_body(table_host const& host, std::uint64_t bytes, std::shared_ptr<std::uint64_t> to_come);
  ~live_body() override;
  [[nodiscard]] std::span<std::byte const> next() override;
  [[nodiscard]] std::span<std::byte const> next_beside() override;

 private:
  table_host const& host_;
  std::uint64_t bytes_;  ///< yet to be taken
  std::shared_ptr<std::uint64_t> to_come_;
  std::array<block_ref, 16> chunks_;  ///< that have been given since `next` let those before go
  std::size_t given_ = 0;            ///< how many these are
  std::size_t next_ = 0;
};

/// An answer's values as a codec writes them, a piece at a time: of a frozen state, or of a table's chunks, each as it
/// is when its turn comes.
class coded_body final : public net::body_source {
 public:
  /// Takes the state.
  coded_body(table_state& state, coding const& answers);
  /// As `live_body`; what is yet to be taken is counted as it will be written.
  coded_body(table_host const& host, std::uint64_t bytes, coding const& answers,
             std::shared_ptr<std::uint64_t> to_come);
  ~coded_body() override;
  [[nodiscard]] std::span<std::byte const> next() override;

 private:
  coding const& answers_;
  table_state state_{};
  table_host const* host_ = nullptr;  ///< none: it is of a state
  std::uint64_t bytes_ = 0;           ///< of the table's, yet to be taken
  std::shared_ptr<std::uint64_t> to_come_{};
  std::vector<std::byte> coded_;  ///< the piece that was given last
  bool keys_given_ = false;
  std::size_t chunk_ = 0;
};

/// A commit under way: kept until the server has it.
class commit_frame final : public net::reliable_frame {
 public:
  /// Parts are written as their tables say, and as they lie where there are none. What lies in memory that the server
  /// sees is not sent; of whole updates that are more than `at_once_max` bytes together some go in turns.
  /// @param seen is asked once
  explicit commit_frame(commit_message&& m, std::span<table_blueprint const> tables = {},
                        update_memory const* seen = nullptr,
                        std::size_t at_once_max = std::numeric_limits<std::size_t>::max());

  [[nodiscard]] wire::frame_header header() const override;
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>& body) const override;
  [[nodiscard]] std::size_t lent() const override { return lent_; }

 private:
  [[nodiscard]] std::span<std::byte const> values_of(std::size_t part) const noexcept {
    return part < coded_.size() && !coded_[part].empty() ? coded_[part].bytes() : message_.parts[part]->values.bytes();
  }

  [[nodiscard]] bool is_lent(std::size_t part) const noexcept { return part < lends_.size() && lends_[part].lent; }

  struct lending {
    bool lent = false;
    std::size_t row_bytes = 0;  ///< where it goes in turns; 0: it does not
  };
  [[nodiscard]] lent_turns turns_of(std::size_t part) const noexcept {
    return {values_of(part).size(), lends_[part].row_bytes};
  }
  void gather_pieces(std::size_t part, std::vector<std::span<std::byte const>>& body) const;

  commit_message message_;
  std::vector<lending> lends_;  ///< by part, up to the last that is lent
  std::size_t lent_ = 0;        ///< bytes
  std::vector<raw_array> coded_;  ///< by part, of those that a codec writes; none where no table has one
  std::vector<std::byte> meta_;
};

/// Values of rows of a table, for one server to have.
class values_frame final : public net::reliable_frame {
 public:
  values_frame(std::uint16_t table, update values);

  [[nodiscard]] wire::frame_header header() const override;
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>& body) const override;

 private:
  std::uint16_t table_;
  update values_;
  std::vector<std::byte> meta_;
};

}  // namespace rubato::detail
