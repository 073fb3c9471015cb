// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A peer that a test plays, frame by frame, beside one that is real.
#pragma once

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/net/link.hpp>
#include <rubato/peer/peer_agreement.hpp>
#include <rubato/transport/processes/coordinator_link.hpp>
#include <rubato/transport/processes/enrolments.hpp>
#include <rubato/transport/processes/peer_frames.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "net/ends.hpp"
#include "patience.hpp"

namespace rubato::test {

/// Any frame, reliable.
class any_frame final : public net::reliable_frame {
 public:
  any_frame(std::uint8_t kind, std::vector<std::byte> meta, std::vector<std::byte> body)
      : kind_(kind), meta_(std::move(meta)), body_(std::move(body)) {}
  [[nodiscard]] wire::frame_header header() const override {
    wire::frame_header h;
    h.kind = kind_;
    return h;
  }
  [[nodiscard]] std::span<std::byte const> meta() const override { return meta_; }
  void gather(std::vector<std::span<std::byte const>>& body) const override { body.emplace_back(body_); }

 private:
  std::uint8_t kind_;
  std::vector<std::byte> meta_, body_;
};

/// A message between peers of the first run.
inline std::shared_ptr<any_frame const> message_frame(std::uint8_t kind, std::int64_t number, std::size_t length,
                                                      std::uint32_t stage = 1) {
  return std::make_shared<any_frame const>(+wire::kind::peer_message,
                                           wire::to_bytes(wire::peer_meta{stage_id{stage}, kind, number}),
                                           std::vector<std::byte>(length));
}

/// Takes part until its run begins; then `script` says what it does, in this object's thread.
class played_peer final : detail::coordinator_user, net::link_user {
 public:
  using script = std::function<void(played_peer& self)>;

  played_peer(net::deployment const& place, std::string agreed, script s)
      : place_(place),
        script_(std::move(s)),
        door_(network_, detail::connection_limits(place),
              [this](auto fresh, net::hello const& said) { welcome(std::move(fresh), said); }),
        listener_(network_.listen(*place.listen, {},
                                  detail::between(net::role::worker, {}, detail::listener_limits(place)),
                                  [this](auto fresh) { door_.receive(std::move(fresh)); })),
        coordinator_(network_, *this, place,
                     {.as = net::role::worker,
                      .rank = place.rank,
                      .listens = listener_->bound().text(),
                      .agreed = std::move(agreed),
                      .pid = 0,
                      .place_key = {}}) {}

  /// Until `refused()` says something, or a generous time is over.
  void play() {
    auto const end = network_.now() + patience;
    while (refused_.empty() && network_.now() < end) network_.run_one(network_.now() + 5ms);
  }
  /// Nobody dials it, from now on in vain.
  bool takes_connections = true;
  [[nodiscard]] std::string const& refused() const noexcept { return refused_; }

  // ---- for scripts

  /// Dials the real one; `secret` is the pair's own, unless it is another.
  net::link& dial(std::optional<wire::secret> secret = {}) {
    wire::peer_place const& other = begun_.others.at(0);
    net::hello h;
    h.number = *place_.rank;
    h.session = detail::fresh_session(network_);
    h.credential = detail::session_credential(secret.value_or(other.secret), h, other.rank);
    links_.push_back(std::make_unique<net::link>(network_, static_cast<net::link_user&>(*this),
                                                 detail::link_limits(place_), "the real peer"));
    links_.back()->dial(net::address::parse(other.listens), {}, h, 5s);
    return *links_.back();
  }
  void send(std::shared_ptr<any_frame const> frame) {
    send(links_.empty() ? dial() : *links_.back(), std::move(frame));
  }
  static void send(net::link& over, std::shared_ptr<any_frame const> frame) {
    over.send(std::move(frame));
    over.flush();
  }
  void tell(wire::control_message const& m) { coordinator_.send(m); }
  /// Called with the link that the real peer has dialed.
  std::function<void(net::link&)> when_dialed{};
  /// Called with each frame that has come over any link, what its meta was, and its body.
  std::function<void(net::link&, wire::frame_header const&, std::span<std::byte const>, std::span<std::byte const>)>
      when_heard{};
  /// Called with a link of its own once that has a connection.
  std::function<void(net::link&)> when_up{};

 private:
  void welcome(std::unique_ptr<net::connection> fresh, net::hello const& said) {
    if (!takes_connections) return;
    if (!dialed_)
      dialed_ = std::make_unique<net::link>(network_, static_cast<net::link_user&>(*this),
                                            detail::link_limits(place_), "the real peer");
    dialed_->adopt(std::move(fresh), said);
    if (when_dialed) std::exchange(when_dialed, {})(*dialed_);
  }
  // link_user
  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override {
    meta_.assign(meta.begin(), meta.end());
    arriving_.resize(static_cast<std::size_t>(header.length));
    if (!arriving_.empty()) body.emplace_back(arriving_);
  }
  void end(net::link& from, wire::frame_header const& header) override {
    if (when_heard) when_heard(from, header, meta_, arriving_);
  }
  void resumed(net::link& of) override {
    if (when_up && &of != dialed_.get()) when_up(of);
  }
  void lost(net::link&, std::string const& reason, bool) override { refused_ = reason; }
  // coordinator_user
  void welcomed(wire::welcome const&) override { coordinator_.send(wire::ready{}); }
  void told(wire::control_message const& m) override {
    if (auto const* b = std::get_if<wire::peers_begin>(&m)) {
      begun_ = *b;
      script_(*this);
      door_.open();  // not before: the real peer may have heard of the beginning sooner, and be heard by no script
    }
  }
  void coordinator_lost(std::string const&, bool) override {}
  void coordinator_absent(std::string const&) override {}
  void coordinator_refused(std::string const& reason) override { refused_ = "the coordinator: " + reason; }

  net::deployment place_;
  script script_;
  wire::peers_begin begun_{};
  std::string refused_;
  std::vector<std::byte> meta_, arriving_;
  net::asio_network network_;
  std::vector<std::unique_ptr<net::link>> links_;
  std::unique_ptr<net::link> dialed_;
  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
  detail::coordinator_link coordinator_;
};

}  // namespace rubato::test
