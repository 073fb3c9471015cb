// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/net/link.hpp"
#include "rubato/net/reactor.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/transport/tcp/run_control.hpp"

namespace rubato::detail {

/// A conductor whose orders go to other processes.
template <pace_conductor Conductor>
class erased_conductor final : public any_conductor {
 public:
  explicit erased_conductor(Conductor c) : conductor_(std::move(c)) {}

  void join(worker_id w, clock_index at, time_point now, orders& out) override {
    fresh_.clear();
    conductor_.join(w, at, now, fresh_);
    pass(out);
  }
  void leave(worker_id w) override { conductor_.leave(w); }
  void commit(worker_id w, clock_index at, time_point now) override { conductor_.commit(w, at, now); }
  void observe(time_point at, double loss) override { conductor_.observe(at, loss); }
  void tick(time_point now, orders& out) override {
    fresh_.clear();
    conductor_.tick(now, fresh_);
    pass(out);
  }
  [[nodiscard]] time_point next_tick() const override { return conductor_.next_tick(); }
  [[nodiscard]] time_point next_sample() const override { return conductor_.next_sample(); }
  [[nodiscard]] std::span<pace_change const> changes() const override { return conductor_.changes(); }

 private:
  void pass(orders& out) {
    for (auto const& [to, order] : fresh_) {
      auto const bytes = std::as_bytes(std::span(&order, 1));
      out.emplace_back(to, std::vector<std::byte>(bytes.begin(), bytes.end()));
    }
  }

  Conductor conductor_;
  pace_orders<typename Conductor::order_type> fresh_;
};

/// The coordinator's process: `run_control` behind links to all others.
class coordinator_node final : net::link_user {
 public:
  /// `agreed`: what every process must say, or it is refused; empty: what the first one says.
  coordinator_node(net::deployment const& place, run_control::options const& options,
                   std::string agreed = {});
  ~coordinator_node() override;

  /// Where it listens.
  [[nodiscard]] net::address bound() const { return listener_.bound(); }
  /// Coordinates until all have left, or `stop` is called. @throws lost_error when it could not go on
  void run();
  /// Makes `run` return. Any thread.
  void stop() noexcept;

 private:
  struct guest;

  void welcome(std::unique_ptr<net::connection> fresh, net::hello const& said);
  void begin(net::link& from, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override;
  void end(net::link& from, wire::frame_header const& header) override;
  void lost(net::link& from, std::string const& reason, bool expected) override;

  void enroll(guest& g, wire::registration const& r);
  void take_place_of_dead(wire::registration const& r);
  void deliver();
  void check_patience();
  void forget_strangers();
  void dismiss(guest& g, std::string const& reason);
  /// It will not be heard of any more.
  void miss(guest& g, std::string const& reason, bool expected);
  [[nodiscard]] time_point now() const;

  net::deployment place_;
  run_control control_;
  std::string agreed_;
  net::reactor reactor_;
  net::reactor::clock::time_point began_ = net::reactor::clock::now();
  std::map<std::uint64_t, std::unique_ptr<guest>> guests_;  ///< by session
  std::map<run_control::place, guest*> at_;
  net::reactor::clock::time_point looked_ = began_;  ///< for strangers
  std::atomic<bool> stop_asked_ = false;
  /// When those who are there have waited long enough for the others.
  std::optional<net::reactor::clock::time_point> patience_ends_ = began_ + place_.patience;
  net::doorkeeper door_;
  net::listener listener_;
};

/// What `run_control` needs to know of a protocol.
template <class Plan>
[[nodiscard]] run_control::options control_options(Plan const& p, net::deployment const& place) {
  run_control::options o;
  o.workers = place.workers;
  o.servers = place.servers;
  o.when_lost = place.when_lost;
  o.synchronized = Plan::synchronized;
  auto const protocol = p.protocol_used();
  o.need = [admission = protocol.admission()](clock_index c, staleness s) {
    return admission.need(c, s);
  };
  if constexpr (Plan::conducted)
    o.make_conductor = [protocol]() -> std::unique_ptr<any_conductor> {
      return std::make_unique<erased_conductor<typename Plan::conductor_type>>(
          make_conductor(protocol.pace()));
    };
  return o;
}

}  // namespace rubato::detail
