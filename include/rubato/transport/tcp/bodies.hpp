// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/net/link.hpp"
#include "rubato/storage/dense_store.hpp"
#include "rubato/storage/sparse_store.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

template <class Snapshot>
inline constexpr bool is_dense_state = false;
template <class T>
inline constexpr bool is_dense_state<dense_snapshot<T>> = true;

/// A frozen state, sent from where it is; the store copies what it changes meanwhile.
template <class Snapshot>
class state_body final : public net::body_source {
 public:
  /// Takes the state. `elements`: of a dense one, rows × width.
  state_body(Snapshot& state, std::size_t elements) {
    using std::swap;
    swap(state_, state);
    if constexpr (is_dense_state<Snapshot>) {
      state_.for_each_piece(0, elements, [this](auto const* from, std::size_t n, std::size_t) {
        pieces_.push_back(std::as_bytes(std::span(from, n)));
      });
    } else {
      pieces_ = {wire::bytes_of(std::as_const(state_.keys)),
                 wire::bytes_of(std::as_const(state_.values))};
    }
  }
  [[nodiscard]] std::span<std::byte const> next() override {
    while (next_ < pieces_.size())
      if (auto const piece = pieces_[next_++]; !piece.empty()) return piece;
    return {};
  }

 private:
  Snapshot state_;
  std::vector<std::span<std::byte const>> pieces_;
  std::size_t next_ = 0;
};

/// The rows of a dense store, each chunk as it is when its turn comes: holds one chunk at a time,
/// however slow the reader is. For eager visibility, where chunks may differ by commits anyway.
template <class Store>
class live_body final : public net::body_source {
 public:
  explicit live_body(Store const& store) noexcept : store_(store) {}
  [[nodiscard]] std::span<std::byte const> next() override {
    chunk_ = {};  // before the next one is taken, so that a fold need not copy it
    if (next_ == store_.chunks()) return {};
    chunk_ = store_.chunk_now(next_++);
    return std::as_bytes(std::span(chunk_.data(), chunk_.size()));
  }

 private:
  Store const& store_;
  block_ref<typename Store::value_type> chunk_;
  std::size_t next_ = 0;
};

/// A commit under way: kept until the server has it.
template <class Message>
class commit_frame final : public net::reliable_frame {
 public:
  explicit commit_frame(Message m) : message_(std::move(m)) {
    wire::commit_meta<std::tuple_size_v<decltype(message_.parts)>> meta{
        .stage = message_.from.stage, .stamp = message_.stamp, .version = message_.version, .parts = {}};
    std::apply(
        [at = meta.parts.begin()](auto const&... part) mutable {
          ((*at++ = {part->whole, part->rows.size(), part->values.size()}), ...);
        },
        message_.parts);
    meta_ = wire::to_bytes(meta);
  }

  [[nodiscard]] wire::frame_header header() const override {
    wire::frame_header h;
    h.kind = +wire::kind::commit;
    h.sender = message_.from.worker.value();
    h.incarnation = message_.from.incarnation.value();
    return h;
  }
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>& body) const override {
    std::apply(
        [&](auto const&... part) {
          ((body.push_back(wire::bytes_of(part->rows)), body.push_back(wire::bytes_of(part->values))),
           ...);
        },
        message_.parts);
  }

 private:
  Message message_;
  std::vector<std::byte> meta_;
};

/// Initial values of a table, for one server.
template <class T>
class initial_frame final : public net::reliable_frame {
 public:
  initial_frame(std::uint16_t table, std::vector<std::uint64_t> rows, std::vector<T> values)
      : table_(table), rows_(std::move(rows)), values_(std::move(values)) {
    meta_ = wire::to_bytes(wire::part_size{rows_.empty(), rows_.size(), values_.size()});
  }
  [[nodiscard]] wire::frame_header header() const override {
    wire::frame_header h;
    h.kind = +wire::kind::initial;
    h.table = table_;
    return h;
  }
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>& body) const override {
    body.push_back(wire::bytes_of(rows_));
    body.push_back(wire::bytes_of(values_));
  }

 private:
  std::uint16_t table_;
  std::vector<std::uint64_t> rows_;
  std::vector<T> values_;
  std::vector<std::byte> meta_;
};

/// Checks that a body's parts add up to what the header says. @throws wire::frame_error
inline void expect_length(wire::frame_header const& header, std::uint64_t bytes) {
  if (header.length != bytes)
    throw wire::frame_error("a body of " + std::to_string(header.length) + " bytes, expected " +
                            std::to_string(bytes));
}

/// `count` elements of `size` bytes. @throws wire::frame_error when they are more than `limit` bytes
[[nodiscard]] inline std::uint64_t bytes_for(std::uint64_t count, std::uint64_t size,
                                             std::uint64_t limit) {
  if (count > limit / size)
    throw wire::frame_error("an array of " + std::to_string(count) + " elements, expected at most " +
                            std::to_string(limit / size));
  return count * size;
}

}  // namespace rubato::detail
