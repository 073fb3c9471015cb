// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/transport/processes/coordinator_link.hpp"
#include "rubato/transport/processes/listening.hpp"
#include "rubato/transport/processes/question.hpp"
#include "rubato/transport/processes/rows_transfer.hpp"

namespace rubato::detail {

namespace {

/// Who waits looks so often whether somebody still waits for it.
constexpr std::chrono::milliseconds look_again{50};
constexpr std::uint64_t piece_max = std::uint64_t{1} << 30;

/// Rows in a frame: kept until the other end has them.
class rows_frame final : public net::reliable_frame {
 public:
  explicit rows_frame(moved_rows&& rows) : rows_(std::move(rows)) {
    meta_ = wire::to_bytes(wire::moved_rows_meta{rows_.run.first, rows_.run.count, rows_.keys.size(), rows_.changed});
  }
  [[nodiscard]] wire::frame_header header() const override {
    wire::frame_header h;
    h.kind = +wire::kind::moved_rows;
    h.table = static_cast<std::uint16_t>(rows_.table);
    return h;
  }
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>& body) const override {
    body.push_back(wire::bytes_of(rows_.keys));
    body.push_back(rows_.values.bytes());
  }

 private:
  moved_rows rows_;
  std::vector<std::byte> meta_;
};

/// A worker process listens for others only here: on a port that the system chooses, and under no address of a server.
net::deployment listening_for_rows(net::deployment place) {
  place.listen.reset();
  place.announce.reset();
  return place;
}

}  // namespace

// ---- the end that takes

rows_receiver::rows_receiver(std::unique_ptr<net::network> network, net::deployment const& place, blueprint const& plan,
                             taker take)
    : place_(listening_for_rows(place)),
      plan_(plan),
      take_(std::move(take)),
      network_(std::move(network)),
      session_(fresh_session(*network_)),
      link_(*network_, *this, link_limits(place_), "the process that has the tables"),
      door_(*network_, connection_limits(place_),
            [this](auto guest, auto const& said) { welcome(std::move(guest), said); }),
      listener_(listen_as(place_, *network_, between(net::role::worker, net::role::worker, listener_limits(place_)),
                          [this](auto fresh) { door_.receive(std::move(fresh)); })) {
  door_.open();
}

std::string rows_receiver::address() const { return announced(place_, *network_, listener_->bound()).text(); }

void rows_receiver::welcome(std::unique_ptr<net::connection> guest, net::hello const& said) {
  if (said.session != session_ || ended_) return net::refuse(*guest, "rows are expected from another process");
  link_.adopt(std::move(guest), said);
}

void rows_receiver::receive(std::function<void()> const& checkpoint) {
  while (!ended_) {
    checkpoint();
    network_->run_one(network_->now() + look_again);
  }
  if (!complete_) throw lost_error("the process that has the tables was lost while it sent them: " + *ended_);
}

void rows_receiver::begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
                          std::vector<std::span<std::byte>>& body) {
  if (complete_) throw wire::frame_error("a frame after the last of the rows");
  arriving_ = {};
  if (header.kind == +wire::kind::control) return expect_length(header, 0);
  if (header.kind != +wire::kind::moved_rows || header.table >= plan_.tables().size())
    throw wire::frame_error("a frame of kind " + std::to_string(header.kind) + " about table " +
                            std::to_string(header.table) + ", expected rows of one of " +
                            std::to_string(plan_.tables().size()) + " tables");
  auto const m = wire::from_bytes<wire::moved_rows_meta>(meta);
  table_blueprint const& t = plan_.table(header.table);
  std::uint64_t const rows = t.bounded() ? m.count : m.keys;
  if (rows > piece_max / t.row_bytes() || (t.bounded() ? m.keys != 0 : m.first != 0 || m.count != 0) ||
      (t.bounded() && (m.first > t.rows() || m.count > t.rows() - m.first)))
    throw wire::frame_error("rows that table " + std::to_string(header.table) +
                            " does not have, or too many at a time");
  expect_length(header, m.keys * sizeof(std::uint64_t) + rows * t.row_bytes());
  arriving_.table = header.table;
  arriving_.run = {m.first, m.count};
  arriving_.changed = m.changed;
  arriving_.keys.resize(static_cast<std::size_t>(m.keys));
  arriving_.values.resize_bytes(static_cast<std::size_t>(rows) * t.row_bytes());
  body.push_back(wire::bytes_of(arriving_.keys));
  body.push_back(arriving_.values.bytes());
}

void rows_receiver::end(net::link&, wire::frame_header const& header) {
  if (header.kind == +wire::kind::control) {
    complete_ = true;
    return;
  }
  for (std::uint64_t const k : arriving_.keys)
    if (!plan_.table(arriving_.table).where().contains(key{k}))
      throw wire::frame_error("key " + std::to_string(k) + ", which table " + std::to_string(arriving_.table) +
                              " does not have");
  take_(arriving_);
}

void rows_receiver::lost(net::link&, std::string const& reason, bool) { ended_ = reason; }

// ---- the end that gives

rows_sender::rows_sender(std::unique_ptr<net::network> network, net::deployment const& place,
                         std::string const& address, std::uint64_t session, std::function<void()> checkpoint)
    : checkpoint_(std::move(checkpoint)),
      network_(std::move(network)),
      link_(*network_, *this, between(net::role::worker, net::role::worker, link_limits(place)),
            "the process that is to have the tables") {
  net::hello self;
  self.as = net::role::worker;
  self.session = session;
  link_.dial(net::address::parse(address), place.keys, self, place.reconnect);
}

void rows_sender::send(moved_rows&& rows) {
  constexpr std::size_t under_way_max = std::size_t{16} << 20;
  link_.send(std::make_shared<rows_frame const>(std::move(rows)));
  wait_for_room(under_way_max);
}

void rows_sender::finish() {
  link_.send_reliable(+wire::kind::control, {});
  wait_for_room(0);
  link_.close();
}

void rows_sender::wait_for_room(std::size_t most) {
  link_.flush();
  network_->poll();  // or the time for the first connection ends while rows are made, and nobody has looked for it
  while (true) {
    // First: of a link that is over nothing is under way.
    if (ended_) throw lost_error("the process that is to have the tables was lost while they were sent: " + *ended_);
    if (most == 0 ? link_.unacknowledged() == 0 : link_.unacknowledged_bytes() <= most) return;
    checkpoint_();
    network_->run_one(network_->now() + look_again);
  }
}

void rows_sender::begin(net::link&, wire::frame_header const& header, std::span<std::byte const>,
                        std::vector<std::span<std::byte>>&) {
  throw wire::frame_error("a frame of kind " + std::to_string(header.kind) + ", expected none");
}

void rows_sender::lost(net::link&, std::string const& reason, bool) { ended_ = reason; }

}  // namespace rubato::detail
