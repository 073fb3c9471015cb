// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/check_network.hpp>
//
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <rubato/net/asio_network.hpp>
#include <string>
#include <utility>

#include "testing/says.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using test::says;
using testing::sentences;

namespace {

/// What the check says of sockets with a fault.
template <class Faulty>
sentences check_sockets_with() {
  return testing::check_network(
      [] { return std::make_unique<Faulty>(std::make_unique<net::asio_network>()); },
      {.largest = 100'000, .patience = 300ms});
}

/// A connection that does what another one does.
class connection_decorator : public net::connection {
 public:
  explicit connection_decorator(std::unique_ptr<net::connection> c) : inner_(std::move(c)) {}
  void attach(net::frame_receiver& owner) override { inner_->attach(owner); }
  void send(wire::frame_header h, std::span<std::byte const> meta,
            std::span<std::byte const> body) override {
    inner_->send(h, meta, body);
  }
  void send(wire::frame_header h, std::span<std::byte const> meta, std::uint64_t length,
            std::unique_ptr<net::body_source> body) override {
    inner_->send(h, meta, length, std::move(body));
  }
  void flush() override { inner_->flush(); }
  [[nodiscard]] std::size_t unsent() const noexcept override { return inner_->unsent(); }
  void close() noexcept override { inner_->close(); }
  [[nodiscard]] bool is_open() const noexcept override { return inner_->is_open(); }
  [[nodiscard]] std::string peer() const override { return inner_->peer(); }
  [[nodiscard]] net::peer_identity shown() const override { return inner_->shown(); }

 protected:
  std::unique_ptr<net::connection> inner_;
};

/// Sockets whose dialed connections are such ones.
template <class Connection>
struct dialing : net::network_decorator {
  using network_decorator::network_decorator;
  std::shared_ptr<void> dial(net::address const& to, net::security const& keys,
                             net::connection_options const& options, dialed done) override {
    return inner().dial(to, keys, options,
                        [done = std::move(done)](auto made, auto const& reason, bool refused) {
                          if (made) made = std::make_unique<Connection>(std::move(made));
                          done(std::move(made), reason, refused);
                        });
  }
};

struct faultless_connection : connection_decorator {
  using connection_decorator::connection_decorator;
};

struct that_loses_frames : connection_decorator {
  using connection_decorator::connection_decorator;
  void send(wire::frame_header h, std::span<std::byte const> meta,
            std::span<std::byte const> body) override {
    if (++sent != 3) inner_->send(h, meta, body);
  }
  using connection_decorator::send;
  int sent = 0;
};

struct that_changes_a_byte : connection_decorator {
  using connection_decorator::connection_decorator;
  void send(wire::frame_header h, std::span<std::byte const> meta,
            std::span<std::byte const> body) override {
    std::vector<std::byte> changed(body.begin(), body.end());
    if (changed.size() > 400) changed[400] ^= std::byte{1};
    inner_->send(h, meta, changed);
  }
  using connection_decorator::send;
};

struct that_keeps_the_oldest : connection_decorator {
  using connection_decorator::connection_decorator;
  void send_newest(wire::frame_header h) override {
    if (!std::exchange(waits, true)) inner_->send(h, {}, {});
  }
  bool waits = false;
};

struct that_turns_around : connection_decorator {
  using connection_decorator::connection_decorator;
  void send_newest(wire::frame_header h) override {
    h.sequence = h.sequence == 3 ? 3 : 3 - h.sequence;
    inner_->send(h, {}, {});
  }
};

struct that_never_closes : connection_decorator {
  using connection_decorator::connection_decorator;
  void close() noexcept override {}
};

struct without_timers : net::network_decorator {
  using network_decorator::network_decorator;
  std::shared_ptr<void> at(clock::time_point, std::function<void()>) override {
    return std::make_shared<int>(0);
  }
};

struct whose_timers_ring_at_once : net::network_decorator {
  using network_decorator::network_decorator;
  std::shared_ptr<void> at(clock::time_point, std::function<void()> f) override {
    f();
    return {};
  }
};

struct that_cannot_be_interrupted : net::network_decorator {
  using network_decorator::network_decorator;
  void interrupt() noexcept override {}
};

struct that_does_not_wait : net::network_decorator {
  using network_decorator::network_decorator;
  void run_one(clock::time_point) override { poll(); }
};

struct that_keeps_its_listeners : net::network_decorator {
  using network_decorator::network_decorator;
  struct open_door : net::listener {
    explicit open_door(net::address a) : at(std::move(a)) {}
    [[nodiscard]] net::address bound() const override { return at; }
    net::address at;
  };
  std::unique_ptr<net::listener> listen(net::address const& at, net::security const& keys,
                                        net::listener_options const& options, accepted f) override {
    kept.push_back(inner().listen(at, keys, options, std::move(f)));
    return std::make_unique<open_door>(kept.back()->bound());
  }
  std::vector<std::unique_ptr<net::listener>> kept;
};

}  // namespace

TEST_CASE("check_network accepts sockets, and what stands around them", "[testing][net]") {
  CHECK(testing::check_network([] { return std::make_unique<net::asio_network>(); }) == sentences{});
  CHECK(testing::check_network([] { return std::make_unique<net::asio_network>(0us); }) == sentences{});
  CHECK(check_sockets_with<net::network_decorator>() == sentences{});
  CHECK(check_sockets_with<dialing<faultless_connection>>() == sentences{});
}

TEST_CASE("check_network catches connections that do not do what they should", "[testing][net]") {
  CHECK(says(check_sockets_with<dialing<that_loses_frames>>(), "of 8 frames each way 7 and 8 arrived"));
  CHECK(says(check_sockets_with<dialing<that_changes_a_byte>>(), "arrives changed"));
  CHECK(says(check_sockets_with<dialing<that_keeps_the_oldest>>(), "the last of three frames sent by send_newest()"));
  CHECK(says(check_sockets_with<dialing<that_turns_around>>(), "arrive out of their order"));
  CHECK(says(check_sockets_with<dialing<that_never_closes>>(), "is open after close()"));
}

TEST_CASE("check_network catches networks that do not do what they should", "[testing][net]") {
  CHECK(says(check_sockets_with<without_timers>(), "timers did not ring"));
  CHECK(says(check_sockets_with<whose_timers_ring_at_once>(), "a timer rings inside at()"));
  CHECK(says(check_sockets_with<that_cannot_be_interrupted>(), "interrupt() did not"));
  CHECK(says(check_sockets_with<that_does_not_wait>(), "run_one returned before its deadline"));
  CHECK(says(check_sockets_with<that_keeps_its_listeners>(), "who dials where nobody listens any more"));
}
