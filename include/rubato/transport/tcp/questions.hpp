// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/transport/tcp/bodies.hpp"
#include "rubato/transport/tcp/worker_node.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// A read of one server's part of table I, whose answer goes into a slot. May be asked again and again.
template <std::size_t I, class Plan>
class read_question : public question {
 public:
  using store_type = typename Plan::template store_type<I>;
  using slot_type = read_slot<store_type>;
  using value_type = typename Plan::template value_type<I>;

  /// Rows of a sparse table may take `sparse_max` bytes in one answer.
  read_question(Plan const& p, server_id server, std::uint64_t sparse_max)
      : plan_(p), server_(server), sparse_max_(sparse_max) {}

  /// A worker's read, as its slot says.
  void renew(read_header const& read, slot_type& slot, inquiry& by) {
    slot_ = &slot;
    asker = &by;
    header.kind = +wire::kind::request;
    header.table = static_cast<std::uint16_t>(I);
    header.sender = read.from.worker.value();
    header.incarnation = read.from.incarnation.value();
    wire::write(wire::request_meta{.stage = read.from.stage,
                                   .clock = read.clock,
                                   .bound = read.bound,
                                   .asked = slot.asked,
                                   .rows = slot.asked == selection::rows ? slot.rows.size() : 0,
                                   .has_cut = read.cut != nullptr,
                                   .cut_size = read.cut ? read.cut->size() : 0,
                                   .cut_c_min = read.cut ? read.cut->c_min() : clock_index{}},
                meta);
    write_body(read);
  }
  /// A read of the folded state, by whoever is no worker.
  void renew_observation(slot_type& slot, inquiry& by) {
    slot.asked = selection::all;
    renew(read_header{}, slot, by);
    header.sender = wire::observer;
  }

  void begin(wire::frame_header const& h, std::span<std::byte const> said,
             std::vector<std::span<std::byte>>& to) override {
    auto const m = wire::from_bytes<wire::reply_meta>(said);
    if (h.kind != +wire::kind::reply || m.asked != slot_->asked)
      throw wire::frame_error("an answer to another question");
    slot_->stamp = {m.server_clock, m.included, m.version, m.folded_below};
    slot_->admitted = slot_->arrived + m.held;
    std::size_t const width = plan_.template spec<I>().width;
    switch (slot_->asked) {
      case selection::nothing: return expect_length(h, 0);
      case selection::rows:
        expect_length(h, slot_->rows.size() * width * sizeof(value_type));
        slot_->values.resize(slot_->rows.size() * width);
        to.push_back(wire::bytes_of(slot_->values));
        return;
      case selection::all: return begin_all(h, m.rows, width, to);
    }
  }

 private:
  void write_body(read_header const& read) {
    body.clear();
    auto const append = [this](auto const& many) {
      auto const bytes = std::as_bytes(std::span(many));
      body.insert(body.end(), bytes.begin(), bytes.end());
    };
    if (read.cut) {
      std::vector<clock_index> below;
      for (std::uint32_t w = 0; w < read.cut->size(); ++w) below.push_back(read.cut->of(worker_id{w}));
      append(below);
    }
    if (slot_->asked == selection::rows) append(slot_->rows);
  }

  void begin_all(wire::frame_header const& h, std::uint64_t rows, std::size_t width,
                 std::vector<std::span<std::byte>>& to) {
    if constexpr (Plan::template table_type<I>::bounded) {
      auto const elements =
          static_cast<std::size_t>(plan_.template locator<I>().rows_of(server_)) * width;
      expect_length(h, elements * sizeof(value_type));
      if (!slot_->scattered.empty()) {
        for (auto const piece : slot_->scattered) to.push_back(std::as_writable_bytes(piece));
        return;
      }
      slot_->snapshot.receive(elements, width, [&](value_type* chunk, std::size_t n) {
        to.push_back(std::as_writable_bytes(std::span(chunk, n)));
      });
    } else {
      std::uint64_t const row_bytes = sizeof(std::uint64_t) + width * sizeof(value_type);
      std::uint64_t const bytes =
          bytes_for(rows, row_bytes, std::numeric_limits<std::uint64_t>::max());
      expect_length(h, bytes);
      if (bytes > sparse_max_) refuse(bytes);
      slot_->snapshot.keys.resize(static_cast<std::size_t>(rows));
      slot_->snapshot.values.resize(static_cast<std::size_t>(rows) * width);
      to.push_back(wire::bytes_of(slot_->snapshot.keys));
      to.push_back(wire::bytes_of(slot_->snapshot.values));
    }
  }

  [[noreturn]] void refuse(std::uint64_t bytes) const {
    throw answer_too_large("table " + std::to_string(I) + " cannot be read as a whole: its rows on server " +
                           std::to_string(server_.value()) + " take " + std::to_string(bytes) +
                           " bytes, and tcp::sparse_max allows " + std::to_string(sparse_max_) +
                           " in one message");
  }

  Plan const& plan_;
  server_id server_;
  std::uint64_t sparse_max_;
  slot_type* slot_ = nullptr;
};

/// The questions of one worker, one for each table and server.
template <class Plan>
class read_questions {
 public:
  read_questions(Plan const& p, std::uint64_t sparse_max) {
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      for (std::uint32_t s = 0; s < p.servers(); ++s)
        std::get<I>(all_).emplace_back(p, server_id{s}, sparse_max);
    });
  }
  template <std::size_t I>
  [[nodiscard]] read_question<I, Plan>& of(server_id s) noexcept {
    return std::get<I>(all_)[s.index()];
  }

 private:
  template <class Sequence>
  struct all_of;
  template <std::size_t... I>
  struct all_of<std::index_sequence<I...>> {
    using type = std::tuple<std::deque<read_question<I, Plan>>...>;  // they cannot move
  };
  typename all_of<std::make_index_sequence<Plan::table_count>>::type all_;
};

/// How many commits has a server counted?
class count_question final : public question {
 public:
  explicit count_question(inquiry& by) {
    header.kind = +wire::kind::count;
    asker = &by;
  }
  void begin(wire::frame_header const& h, std::span<std::byte const> m,
             std::vector<std::span<std::byte>>&) override {
    if (h.kind != +wire::kind::counted) throw wire::frame_error("an answer to another question");
    expect_length(h, 0);
    count = wire::from_bytes<std::uint64_t>(m);
  }

  std::uint64_t count = 0;
};

/// Sends the initial values of all tables that have some, and waits until the servers have them.
template <class Plan>
void send_initial_values(Plan const& p, worker_node& node) {
  Plan::for_each_table([&](auto tag) {
    constexpr std::size_t I = decltype(tag)::index;
    using value_type = typename Plan::template value_type<I>;
    auto const& spec = p.template spec<I>();
    if (spec.init.empty()) return;
    std::vector<std::vector<std::uint64_t>> rows(p.servers());
    std::vector<std::vector<value_type>> values(p.servers());
    auto const add = [&](server_id s, std::uint64_t first, std::uint64_t count) {
      auto const from = spec.init.subspan(static_cast<std::size_t>(first) * spec.width,
                                          static_cast<std::size_t>(count) * spec.width);
      values[s.index()].insert(values[s.index()].end(), from.begin(), from.end());
    };
    if constexpr (Plan::template table_type<I>::bounded) {
      for (auto const& run : p.template locator<I>().rows().runs()) add(run.server, run.first, run.rows);
    } else {
      for (std::uint64_t i = 0; i < spec.init_keys.size(); ++i) {
        auto const at = p.template locator<I>().locate(spec.init_keys[i]);
        rows[at.server.index()].push_back(at.local);
        add(at.server, i, 1);
      }
    }
    for (std::uint32_t s = 0; s < p.servers(); ++s)
      if (!values[s].empty())
        node.post_and_wait(server_id{s},
                           std::make_shared<initial_frame<value_type> const>(
                               static_cast<std::uint16_t>(I), std::move(rows[s]), std::move(values[s])));
  });
}

}  // namespace rubato::detail
