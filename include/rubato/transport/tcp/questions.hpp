// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rubato/transport/tcp/bodies.hpp"
#include "rubato/transport/tcp/worker_node.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// A read, whose answer goes into a slot.
template <std::size_t I, class Plan>
class read_question final : public question {
 public:
  using store_type = typename Plan::template store_type<I>;
  using value_type = typename Plan::template value_type<I>;

  read_question(Plan const& p, server_id server, read_slot<store_type>& slot,
                std::uint64_t sparse_max)
      : plan_(p), server_(server), slot_(slot), sparse_max_(sparse_max) {}

  void begin(wire::frame_header const& h, std::span<std::byte const> said,
             std::vector<std::span<std::byte>>& to) override {
    auto const m = wire::from_bytes<wire::reply_meta>(said);
    if (h.kind != +wire::kind::reply || m.asked != slot_.asked)
      throw wire::frame_error("an answer to another question");
    slot_.stamp = {m.server_clock, m.included, m.version};
    slot_.admitted = slot_.arrived + m.held;
    std::size_t const width = plan_.template spec<I>().width;
    switch (slot_.asked) {
      case selection::nothing: return expect_length(h, 0);
      case selection::rows:
        expect_length(h, slot_.rows.size() * width * sizeof(value_type));
        slot_.values.resize(slot_.rows.size() * width);
        to.push_back(wire::bytes_of(slot_.values));
        return;
      case selection::all: return begin_all(h, m.rows, width, to);
    }
  }

 private:
  void begin_all(wire::frame_header const& h, std::uint64_t rows, std::size_t width,
                 std::vector<std::span<std::byte>>& to) {
    if constexpr (Plan::template table_type<I>::bounded) {
      auto const elements =
          static_cast<std::size_t>(plan_.template locator<I>().rows_of(server_)) * width;
      expect_length(h, elements * sizeof(value_type));
      slot_.snapshot.receive(elements, width, [&](value_type* chunk, std::size_t n) {
        to.push_back(std::as_writable_bytes(std::span(chunk, n)));
      });
    } else {
      std::uint64_t const row_bytes = sizeof(std::uint64_t) + width * sizeof(value_type);
      expect_length(h, bytes_for(rows, row_bytes, sparse_max_));
      slot_.snapshot.keys.resize(static_cast<std::size_t>(rows));
      slot_.snapshot.values.resize(static_cast<std::size_t>(rows) * width);
      to.push_back(wire::bytes_of(slot_.snapshot.keys));
      to.push_back(wire::bytes_of(slot_.snapshot.values));
    }
  }

  Plan const& plan_;
  server_id server_;
  read_slot<store_type>& slot_;
  std::uint64_t sparse_max_;
};

/// How many commits has a server counted? Owns where the answer goes, together with whoever asks.
class count_question final : public question {
 public:
  count_question(std::shared_ptr<std::uint64_t> to, std::shared_ptr<inquiry> asked)
      : to_(std::move(to)) {
    header.kind = +wire::kind::count;
    asker = std::move(asked);
  }
  void begin(wire::frame_header const& h, std::span<std::byte const> m,
             std::vector<std::span<std::byte>>&) override {
    if (h.kind != +wire::kind::counted) throw wire::frame_error("an answer to another question");
    expect_length(h, 0);
    *to_ = wire::from_bytes<std::uint64_t>(m);
  }

 private:
  std::shared_ptr<std::uint64_t> to_;
};

/// A worker's read. `keep` holds what the slot lives in.
template <std::size_t I, class Plan, class Slot>
[[nodiscard]] std::unique_ptr<question> make_question(Plan const& p, server_id server,
                                                      read_header const& read, Slot& slot,
                                                      std::shared_ptr<inquiry> asker,
                                                      std::shared_ptr<void> keep,
                                                      std::uint64_t sparse_max) {
  auto q = std::make_unique<read_question<I, Plan>>(p, server, slot, sparse_max);
  q->header.kind = +wire::kind::request;
  q->header.table = I;
  q->header.sender = read.from.worker.value();
  q->header.incarnation = read.from.incarnation.value();
  wire::request_meta meta{.stage = read.from.stage,
                          .clock = read.clock,
                          .bound = read.bound,
                          .asked = slot.asked,
                          .rows = slot.asked == selection::rows ? slot.rows.size() : 0,
                          .has_cut = read.cut != nullptr,
                          .cut_size = read.cut ? read.cut->size() : 0,
                          .cut_c_min = read.cut ? read.cut->c_min() : clock_index{}};
  q->meta = wire::to_bytes(meta);
  for (std::uint32_t w = 0; w < meta.cut_size; ++w) {
    auto const c = read.cut->of(worker_id{w});
    auto const bytes = std::as_bytes(std::span(&c, 1));
    q->body.insert(q->body.end(), bytes.begin(), bytes.end());
  }
  if (slot.asked == selection::rows) {
    auto const bytes = std::as_bytes(std::span(slot.rows));
    q->body.insert(q->body.end(), bytes.begin(), bytes.end());
  }
  q->asker = std::move(asker);
  q->keep = std::move(keep);
  return q;
}

/// The folded state, for whoever is no worker. `keep` holds what the slot lives in: an answer may come
/// after whoever asked has given up.
template <std::size_t I, class Plan, class Slot>
[[nodiscard]] std::unique_ptr<question> make_observation(Plan const& p, server_id server, Slot& slot,
                                                         std::shared_ptr<inquiry> asker,
                                                         std::shared_ptr<void> keep,
                                                         std::uint64_t sparse_max) {
  slot.asked = selection::all;
  auto q = make_question<I>(p, server, read_header{}, slot, std::move(asker), std::move(keep),
                            sparse_max);
  q->header.sender = wire::observer;
  return q;
}

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
