// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Two ends of a link in one network, and what speaks to one of them without a link.
#pragma once

#include <rubato/net/link.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <rubato/wire/archive.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ends.hpp"
#include "patience.hpp"

namespace rubato::test {

inline constexpr std::uint8_t plain = net::first_user_kind + 1;
inline constexpr std::uint8_t reliable = plain | net::reliable_bit;
enum own : std::uint8_t {
  hello_kind = 1,
  welcome_kind,
  refused_kind,
  ack_kind,
  goodbye_kind,
  cut_kind
};

/// Keeps what a link tells it.
class listener_of_link : public net::link_user {
 public:
  std::vector<bytes> reliable_bodies, plain_bodies;
  std::vector<std::string> reasons;
  int resumptions = 0, breaks = 0, expected_losses = 0;
  std::function<void(wire::frame_header const&)> on_begin, on_end;
  std::function<void()> on_resumed;

  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    if (on_begin) on_begin(header);
    arriving_.assign(header.length, std::byte{});
    body.emplace_back(arriving_);
  }
  void end(net::link&, wire::frame_header const& header) override {
    if (on_end) on_end(header);
    ((header.kind & net::reliable_bit) != 0 ? reliable_bodies : plain_bodies).push_back(arriving_);
  }
  void resumed(net::link&) override {
    ++resumptions;
    if (on_resumed) on_resumed();
  }
  void broken(net::link&, std::string const&) override { ++breaks; }
  void lost(net::link&, std::string const& reason, bool expected) override {
    reasons.push_back(reason);
    expected_losses += expected ? 1 : 0;
  }
  [[nodiscard]] bool is_lost() const noexcept { return !reasons.empty(); }
  [[nodiscard]] std::string reason() const { return reasons.empty() ? "" : reasons.front(); }

 private:
  bytes arriving_;
};

inline wire::frame_header header_of(std::uint8_t kind, std::uint64_t sequence = 0) {
  wire::frame_header h;
  h.kind = kind;
  h.sequence = sequence;
  return h;
}
inline bytes encoded(net::hello const& h) {
  wire::output_archive out;
  out << h.as << h.number << h.incarnation << h.session << h.received << h.credential;
  return out.take();
}

/// A listener with a doorkeeper and the links behind it, all with one user; and what dials.
struct linked {
  explicit linked(net::link::options const& o = {}, bool open = true, std::size_t guests = 256)
      : limits(o), opens(open), guests_max(guests) {
    listen({"127.0.0.1", 0});
  }

  log_capture logged;
  net::asio_network network;
  net::link::options limits;
  bool opens;
  std::size_t guests_max;
  listener_of_link at_dialer, at_listener;
  std::map<std::uint64_t, std::unique_ptr<net::link>> adopted;
  std::unique_ptr<net::link> dialer;
  std::unique_ptr<net::doorkeeper> door;
  std::unique_ptr<net::listener> listener;
  std::string refusal;
  // what speaks without a link
  std::shared_ptr<void> attempt;
  std::unique_ptr<net::connection> raw;
  recorder heard;

  void listen(net::address const& where) {
    net::listener_options o;
    static_cast<net::connection_options&>(o) = limits;
    door = std::make_unique<net::doorkeeper>(
        network, limits, [this](auto fresh, auto const& said) { welcome(std::move(fresh), said); },
        guests_max);
    if (opens) door->open();
    listener =
        network.listen(where, net::security{}, o,
                                        [this](auto fresh) { door->receive(std::move(fresh)); });
  }
  void welcome(std::unique_ptr<net::connection> fresh, net::hello const& said) {
    if (!refusal.empty()) return net::refuse(*fresh, refusal);
    auto& l = adopted[said.session];
    if (l && l->is_over()) return net::refuse(*fresh, "too late");
    if (!l) l = std::make_unique<net::link>(network, at_listener, limits, "worker 7");
    l->adopt(std::move(fresh), said);
  }
  void dial(std::chrono::milliseconds limit = patience) { dial(listener->bound(), limit); }
  void dial(net::address const& to, std::chrono::milliseconds limit) {
    dialer = std::make_unique<net::link>(network, at_dialer, limits, "server 1");
    dialer->dial(to, {}, {.number = 7, .incarnation = 1, .session = 42, .received = 0}, limit);
  }
  void connect() {
    dial();
    REQUIRE(until([&] { return both_up(); }));
  }
  [[nodiscard]] bool both_up() {
    return dialer && dialer->is_up() && adopted.contains(42) && adopted[42]->is_up();
  }
  net::link& other() { return *adopted.at(42); }
  template <class Condition>
  [[nodiscard]] bool until(Condition c, std::chrono::milliseconds limit = patience) {
    return run_until(network, c, limit);
  }
  /// Connects without a link, and says this.
  void speak_raw() {
    heard = {};
    attempt = network.dial(listener->bound(), {}, limits,
                           [this](auto fresh, auto const&, bool) { raw = std::move(fresh); });
    raw.reset();
    REQUIRE(until([&] { return raw != nullptr; }));
    raw->attach(heard);
  }
  void say(wire::frame_header const& h, std::span<std::byte const> meta = {},
           std::span<std::byte const> body = {}) {
    raw->send(h, meta, body);
    raw->flush();
  }
  void say_hello(std::uint64_t session = 42, std::uint64_t received = 0) {
    say(header_of(hello_kind), encoded({.session = session, .received = received}));
  }
  /// The sentence of the refusal that was heard.
  [[nodiscard]] std::string refused() const {
    for (frame const& f : heard.frames)
      if (f.header.kind == refused_kind) return as_text(f.meta);
    return "";
  }
};

inline bytes numbered(std::uint64_t n, std::size_t size) {
  bytes b = pattern(std::max<std::size_t>(size, 8), n);
  std::memcpy(b.data(), &n, sizeof n);
  return b;
}
/// Whether these are frames 0, 1, 2 and so on, whole.
inline bool in_order(std::vector<bytes> const& bodies) {
  for (std::size_t i = 0; i < bodies.size(); ++i)
    if (bodies[i] != numbered(i, bodies[i].size())) return false;
  return true;
}

}  // namespace rubato::test
