// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include <boost/asio/error.hpp>

#include "rubato/core/rare.hpp"
#include "rubato/testing/impl/world_wire.hpp"

namespace rubato::testing::world_parts {

wire::wire(world_state& w, std::shared_ptr<node> from, std::shared_ptr<node> to) : world(w) {
  ends[0].in = std::move(from);
  ends[1].in = std::move(to);
  for (std::size_t const i : {0U, 1U}) ways[i].how = w.path(process(i), process(1 - i));
}

// ---- sending

std::size_t wire::write(std::size_t i, buffers_out from, net::error_code& error) {
  end& here = ends[i];
  if (here.in->of().end.killed) return boost::asio::buffer_size(from);  // of a process that is no more
  if (here.is_reset || here.closed) {
    error = boost::asio::error::broken_pipe;
    return 0;
  }
  way& w = ways[i];
  std::size_t room = w.how.room - std::min(w.how.room, w.held);
  std::vector<std::byte> bytes;
  for (auto const& b : from) {
    std::size_t const some = std::min(room, b.size());
    auto const* const at = static_cast<std::byte const*>(b.data());
    bytes.insert(bytes.end(), at, at + some);
    room -= some;
  }
  std::size_t const all = bytes.size();
  if (all == 0 && boost::asio::buffer_size(from) != 0) {
    RUBATO_RARE("a connection took no more");
    error = boost::asio::error::would_block;
    return 0;
  }
  w.held += all;
  send(i, std::move(bytes), false);
  return all;
}

void wire::send(std::size_t i, std::vector<std::byte> bytes, bool last) {
  way& w = ways[i];
  world.mix(std::span<std::byte const>(bytes));
  if (w.vanishes) return;
  time_point leaves = std::max(world.now(), w.free);
  if (w.how.bandwidth != 0)
    leaves += seconds(static_cast<double>(bytes.size()) / static_cast<double>(w.how.bandwidth));
  w.free = leaves;
  w.latest = std::max(w.latest, leaves + world.travel(w.how));
  w.under_way.push_back({w.latest, std::move(bytes), last});
  if (!w.pumping) pump_at(i, w.latest);
}

void wire::pump_at(std::size_t i, time_point t) {
  ways[i].pumping = true;
  world.push(t, [self = shared_from_this(), i] { self->pump(i); });
}

void wire::pump(std::size_t i) {
  way& w = ways[i];
  w.pumping = false;
  if (w.under_way.empty()) return;
  time_point const open = world.opens(process(i), process(1 - i));
  if (open > world.now()) return pump_at(i, open);
  if (w.under_way.front().at <= world.now()) {
    piece p = std::move(w.under_way.front());
    w.under_way.pop_front();
    arrive(i, std::move(p));
  }
  if (!w.under_way.empty() && !w.pumping) pump_at(i, w.under_way.front().at);
}

/// At the end that `i` sends to.
void wire::arrive(std::size_t i, piece p) {
  end& there = ends[1 - i];
  way& w = ways[i];
  if (w.cut_after != never) {
    std::uint64_t const left = w.cut_after;
    if (left < p.bytes.size()) {
      p.bytes.resize(static_cast<std::size_t>(left));
      there.arrived.insert(there.arrived.end(), p.bytes.begin(), p.bytes.end());
      there.total += p.bytes.size();
      return fail();
    }
    w.cut_after -= p.bytes.size();
  }
  bool const is_gone = there.closed || there.in->of().end.killed;
  if (is_gone && !p.bytes.empty()) {  // nobody reads it: the system says so
    ends[i].is_reset = true;
    read_soon(i);
    write_soon(i);
    return;
  }
  there.arrived.insert(there.arrived.end(), p.bytes.begin(), p.bytes.end());
  there.total += p.bytes.size();
  there.ended = there.ended || p.last;
  read_soon(1 - i);
}

void wire::when_writable(std::size_t i, std::shared_ptr<net::stream::user> told) {
  if (ends[i].closed) return;
  ends[i].writer = std::move(told);
  if (ends[i].is_reset || ways[i].held < ways[i].how.room) write_soon(i);
}

void wire::write_soon(std::size_t i) {
  if (!ends[i].writer) return;
  ends[i].in->deliver([self = shared_from_this(), i, told = std::exchange(ends[i].writer, nullptr)] {
    net::error_code error;
    if (self->ends[i].closed) error = boost::asio::error::operation_aborted;
    else if (self->ends[i].is_reset) error = boost::asio::error::connection_reset;
    told->may_write(error);
  });
}

// ---- receiving

void wire::read(std::size_t i, buffers_in into, std::shared_ptr<net::stream::user> told) {
  if (ends[i].closed) return;
  ends[i].into.assign(into.begin(), into.end());
  ends[i].reader = std::move(told);
  read_soon(i);
}

void wire::read_soon(std::size_t i) {
  end& e = ends[i];
  if (!e.reader || e.read_is_due || e.closed) return;
  if (e.taken == e.arrived.size() && !e.ended && !e.is_reset) return;
  e.read_is_due = true;
  e.in->deliver([self = shared_from_this(), i] { self->complete_read(i); });
}

void wire::complete_read(std::size_t i) {
  end& e = ends[i];
  e.read_is_due = false;
  if (!e.reader || e.closed) return;
  auto const told = std::exchange(e.reader, nullptr);
  if (e.in->of().end.killed) return told->was_read(boost::asio::error::connection_reset, 0);
  std::size_t const there = e.arrived.size() - e.taken;
  if (there == 0) {
    net::error_code error = boost::asio::error::connection_reset;
    if (e.ended) error = boost::asio::error::eof;
    return told->was_read(error, 0);
  }
  way& w = ways[1 - i];
  std::size_t most = w.how.piece_max;
  if (most < w.how.room) most = 1 + static_cast<std::size_t>(world.random.below(most));
  std::size_t bytes = 0;
  for (auto const& b : e.into) {
    std::size_t const some = std::min({b.size(), there - bytes, most - bytes});
    std::memcpy(b.data(), e.arrived.data() + e.taken + bytes, some);
    bytes += some;
  }
  e.taken += bytes;
  if (e.taken == e.arrived.size()) {
    e.arrived.clear();
    e.taken = 0;
  }
  bool const was_full = w.held >= w.how.room;
  w.held -= std::min(w.held, bytes);
  if (was_full) write_soon(1 - i);
  told->was_read({}, bytes);
}

// ---- the end

void wire::close(std::size_t i) noexcept {
  end& e = ends[i];
  if (std::exchange(e.closed, true)) return;
  e.reader.reset();
  e.writer.reset();
  e.arrived.clear();
  e.taken = 0;
  if (!e.is_reset && !e.in->of().end.killed) send(i, {}, true);
}

void wire::fail() {
  for (std::size_t const i : {0U, 1U}) {
    ways[i].under_way.clear();
    ends[i].is_reset = true;
    read_soon(i);
    write_soon(i);
  }
}

void wire::fail_half() {
  for (way& w : ways) {
    w.under_way.clear();
    w.vanishes = true;
  }
  ends[0].is_reset = true;
  read_soon(0);
  write_soon(0);
}

namespace {

class wire_stream final : public net::stream {
 public:
  wire_stream(std::shared_ptr<wire> w, std::size_t end) : wire_(std::move(w)), end_(end) {}
  wire_stream(wire_stream const&) = delete;
  wire_stream& operator=(wire_stream const&) = delete;
  ~wire_stream() override { wire_->close(end_); }

  void read(wire::buffers_in into, std::size_t, std::shared_ptr<user> told) override {
    wire_->read(end_, into, std::move(told));
  }
  std::size_t write(wire::buffers_out from, net::error_code& error) override {
    return wire_->write(end_, from, error);
  }
  void when_writable(std::shared_ptr<user> told) override { wire_->when_writable(end_, std::move(told)); }
  [[nodiscard]] std::uint64_t untold() const noexcept override { return wire_->ends[end_].total; }
  void close() noexcept override { wire_->close(end_); }

 private:
  std::shared_ptr<wire> wire_;
  std::size_t end_;
};

}  // namespace

std::unique_ptr<net::stream> stream_over(std::shared_ptr<wire> w, std::size_t end) {
  return std::make_unique<wire_stream>(std::move(w), end);
}

std::size_t cut(world_state& world, process_number a, process_number b, bool is_noticed) {
  std::size_t cuts = 0;
  for (auto const& w : world.wires()) {
    bool const is_one = (w->process(0) == a && w->process(1) == b) || (w->process(0) == b && w->process(1) == a);
    if (!is_one) continue;
    if (is_noticed) w->fail();
    else w->fail_half();
    ++cuts;
  }
  if (cuts != 0)
    world.tell("the world", fmt::format("{} connections between {} and {} break{}", cuts, world.slots[a]->name,
                                        world.slots[b]->name, is_noticed ? "" : ", which one of them does not notice"));
  return cuts;
}

void cut_off(world_state& world, one_life& of, death how) {
  for (auto const& w : world.wires())
    for (std::size_t const i : {0U, 1U}) {
      if (&w->ends[i].in->of() != &of) continue;
      wire::way& out = w->ways[i];
      if (how == death::vanishes) {
        out.under_way.clear();
        out.vanishes = w->ways[1 - i].vanishes = true;
        w->ways[1 - i].under_way.clear();
      } else if (!w->ends[i].closed) {
        // What it had sent arrives, or only a part of it, and then the end.
        while (!out.under_way.empty() && world.random.chance(0.3)) out.under_way.pop_back();
        w->send(i, {}, true);
      }
      w->ends[i].is_reset = true;  // as what is left of it sees it
      w->read_soon(i);
      w->write_soon(i);
    }
}

}  // namespace rubato::testing::world_parts
