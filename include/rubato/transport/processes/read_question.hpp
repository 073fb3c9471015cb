// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rubato/core/raw_array.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/transport/processes/question.hpp"

namespace rubato::detail {

/// A read of one server's part of a table, whose answer goes into a slot. May be asked again and again.
class read_question : public question {
 public:
  /// Rows of a sparse table may take `sparse_max` bytes in one answer.
  read_question(blueprint const& plan, std::size_t table, server_id server, std::uint64_t sparse_max)
      : table_(plan.table(table)), number_(table), server_(server), sparse_max_(sparse_max) {}

  /// A worker's read, as its slot says.
  void renew(read_header const& read, read_slot& slot, inquiry& by);
  /// A read of the folded state, by whoever is no worker.
  void renew_observation(read_slot& slot, inquiry& by);

  void begin(wire::frame_header const& h, std::span<std::byte const> said,
             std::vector<std::span<std::byte>>& to) override;
  [[nodiscard]] bool take() override;
  void done(refusal why) override {
    if (why == refusal::none) decode();
    question::done(why);
  }

 protected:
  /// An answer that a codec has written is there.
  void decode();

 private:
  void write_body(read_header const& read);
  void begin_all(wire::frame_header const& h, std::uint64_t rows, std::vector<std::span<std::byte>>& to);
  [[nodiscard]] coding const& answers() const noexcept;
  [[nodiscard]] std::uint64_t values_length(std::uint64_t bytes) const noexcept;
  void begin_places(wire::frame_header const& h, std::vector<std::span<std::byte>>& to);
  void await_coded(std::uint64_t bytes, std::vector<std::span<std::byte>>& to);
  [[noreturn]] void refuse(std::uint64_t bytes) const;

  table_blueprint const& table_;
  std::size_t number_;
  server_id server_;
  std::uint64_t sparse_max_;
  bool coded_answer_ = false;  ///< observers get all digits
  read_slot* slot_ = nullptr;
  raw_array coded_;  ///< what is to be decoded

  // of an answer that lies in the server's memory
  std::uint32_t slot_of_pin_ = 0;
  std::vector<std::uint64_t> places_;  ///< of its chunks
  std::vector<std::span<std::byte const>> pieces_;
  std::vector<std::span<std::byte>> room_;  ///< where they go
};

/// The questions of one worker, one for each table and server.
class read_questions {
 public:
  read_questions(blueprint const& plan, std::uint64_t sparse_max);
  [[nodiscard]] read_question& of(std::size_t table, server_id s) noexcept {
    return *all_[table * servers_ + s.index()];
  }

 private:
  std::size_t servers_;
  std::vector<std::unique_ptr<read_question>> all_;
};

/// How many commits has a server counted?
class count_question final : public question {
 public:
  explicit count_question(inquiry& by);
  void begin(wire::frame_header const& h, std::span<std::byte const> m,
             std::vector<std::span<std::byte>>&) override;

  std::uint64_t count = 0;
};

}  // namespace rubato::detail
