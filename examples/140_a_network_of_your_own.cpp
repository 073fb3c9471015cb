// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A network around sockets, whose connections break after forty frames: what was under way is sent again on
// the next one, and every commit counts exactly once. Worker 0 checks it first, on connections of fewer frames.
//   rubato-launch -n 2 -s 1 -- 140_a_network_of_your_own
#include <atomic>
#include <cstdio>
#include <memory>
#include <rubato/net/asio_network.hpp>
#include <rubato/rubato.hpp>
#include <rubato/testing/check_network.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;
namespace net = rubato::net;

std::atomic<int> broken = 0;

class brittle_connection : public net::connection {
 public:
  brittle_connection(net::network& where, std::unique_ptr<net::connection> c)
      : network_(where), inner_(std::move(c)) {}

  void attach(net::frame_receiver& owner) override { inner_->attach(*(owner_ = &owner)); }
  void send(rb::wire::frame_header h, std::span<std::byte const> meta,
            std::span<std::byte const> body) override {
    inner_->send(h, meta, body), count();
  }
  void send(rb::wire::frame_header h, std::span<std::byte const> meta, std::uint64_t length,
            std::unique_ptr<net::body_source> body) override {
    inner_->send(h, meta, length, std::move(body)), count();
  }
  void flush() override { inner_->flush(); }
  std::size_t unsent() const noexcept override { return inner_->unsent(); }
  void close() noexcept override { inner_->close(); }
  bool is_open() const noexcept override { return inner_->is_open(); }
  std::string peer() const override { return inner_->peer(); }
  net::peer_identity shown() const override { return inner_->shown(); }

 private:
  void count() {
    if (++frames_ != 40) return;
    ++broken;
    inner_->close();  // the other end notices; this one's owner is told from inside the network
    bad_news_ = network_.at(network_.now(), [this] { owner_->closed("it has broken"); });
  }
  net::network& network_;
  std::unique_ptr<net::connection> inner_;
  net::frame_receiver* owner_ = nullptr;
  int frames_ = 0;
  std::shared_ptr<void> bad_news_;
};

struct brittle_network : net::network_decorator {
  using network_decorator::network_decorator;
  std::shared_ptr<void> dial(net::address const& to, net::security const& keys,
                             net::connection_options const& options, dialed done) override {
    return inner().dial(to, keys, options, [this, done](auto made, auto const& reason, bool refused) {
      done(made ? std::make_unique<brittle_connection>(*this, std::move(made)) : nullptr, reason, refused);
    });
  }
};

int main() {
  auto across = rb::tcp::from_environment();
  across.network = [] { return std::make_unique<brittle_network>(std::make_unique<net::asio_network>()); };
  if (across.place.as == net::role::worker && across.place.rank == 0)
    if (auto const wrong = rb::testing::check_network(across.network); !wrong.empty())
      return std::printf("%s\n", wrong.front().c_str()), 1;
  rb::cluster cluster{across, rb::bsp{}, rb::dense<std::int64_t, rb::sum>{.rows = 1}};
  cluster.run([](auto& worker) {
    for (std::vector<std::int64_t> seen(1), one{1}; worker.clock().value() < 200; worker.step())
      worker.pull(seen), worker.push(one);
  });
  if (across.place.as == net::role::worker)
    std::printf("400 commits make %lld; connections broke%s\n",
                static_cast<long long>(cluster.parameters()[0]), broken > 0 ? "" : " never");
}
