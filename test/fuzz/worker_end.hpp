// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "fuzz/wire_end.hpp"
#include "rubato/transport/processes/enrolments.hpp"

namespace rubato::fuzz {

/// A worker process as a server sees it: a link, over one connection after the other.
class worker_end {
 public:
  worker_end(std::string server, net::hello const& self, std::function<void()> const& pump)
      : server_(std::move(server)), self_(self), pump_(pump) {}

  [[nodiscard]] net::hello const& self() const noexcept { return self_; }
  /// All bytes after the handshake that have gone into the present connection.
  [[nodiscard]] std::span<std::byte const> sent() const noexcept { return sent_; }
  [[nodiscard]] bool is_open() const noexcept { return end_ && !end_->has_ended(); }

  /// The server has closed the connection.
  [[nodiscard]] bool has_ended() const noexcept { return end_ && end_->has_ended(); }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_; }

  /// A connection of the same link, after which the server says which frames it has.
  void connect(std::uint64_t received = 0) {
    self_.received = received;
    self_.credential = detail::session_credential(secret_of(self_.number, self_.incarnation), self_, 0);
    if (on_connect) on_connect(self_);
    if (!open()) return;
    bytes opening = greeting();
    opening.push_back(std::byte{0});
    end_->send(opening);
    send_raw(encoded(hello_frame(self_)));
    pump_();
    receive();
  }
  /// A new life of the process, with a link of its own.
  void restart(std::uint32_t incarnation) {
    self_.incarnation = incarnation;
    self_.session += 1 << 16;
    sequence_ = 0;
    connect();
  }
  /// A connection that does not get through the handshake.
  void knock(std::span<std::byte const> what) {
    if (!open()) return;
    end_->send(what);
    pump_();
    cut();
  }
  void cut() {
    end_.reset();
    if (on_sent) on_sent(sent_);
    sent_.clear();
  }

  /// The number that the next reliable frame has to have.
  [[nodiscard]] std::uint64_t next_sequence() noexcept { return ++sequence_; }
  void send_raw(std::span<std::byte const> what) {
    if (!end_) return;
    append(sent_, what);
    end_->send(what);
  }

  /// Reads all that has come, and gives each frame but the link's own to `on_frame`.
  void receive() {
    if (!end_) return;
    end_->receive();
    while (auto const f = end_->next()) {
      if (f->header.kind == own::welcome)
        sequence_ = f->header.sequence;
      else if (f->header.kind >= net::first_user_kind && on_frame)
        on_frame(*f);
    }
  }

  /// Is told who connects, before it does.
  std::function<void(net::hello const&)> on_connect;
  std::function<void(frame const&)> on_frame;
  /// Is given `sent()` when a connection is cut.
  std::function<void(std::span<std::byte const>)> on_sent;

 private:
  /// Says whether there is one. Connecting is slow, and soon tells nothing new.
  [[nodiscard]] bool open() {
    constexpr std::size_t most = 12;
    cut();
    if (++connections_ > most) return false;
    end_ =
        std::make_unique<wire_end>(wire_end::connected_to(server_), greeting().size() + 2, pump_);
    return true;
  }

  std::string server_;
  net::hello self_;
  std::function<void()> const& pump_;
  std::unique_ptr<wire_end> end_;
  std::uint64_t sequence_ = 0;
  std::size_t connections_ = 0;
  bytes sent_;
};

}  // namespace rubato::fuzz
