// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A coordinator in a thread of its own, and processes that a test plays.
#pragma once

#include <rubato/transport/processes/coordinator_process.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/link.hpp>
#include <rubato/net/log.hpp>
#include <rubato/net/network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/conductor.hpp>
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/transport/processes/coordinator_link.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "net/ends.hpp"

namespace rubato::test::coordinating {

using namespace std::chrono_literals;

inline constexpr char const* agreed = "played";

/// Sockets, and a time that a test moves on while nothing runs them.
class hurried_network final : public net::network_decorator {
 public:
  explicit hurried_network(std::atomic<std::chrono::milliseconds> const& ahead)
      : network_decorator(std::make_unique<net::asio_network>()), ahead_(ahead) {}

  [[nodiscard]] clock::time_point now() const override { return inner().now() + ahead_.load(); }
  [[nodiscard]] std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override {
    auto made = std::make_shared<std::function<void()>>(std::move(f));
    timers_.emplace(when, made);
    return made;
  }
  void run_one(clock::time_point deadline) override {
    if (!timers_.empty()) deadline = std::min(deadline, timers_.begin()->first);
    inner().run_one(deadline == clock::time_point::max() ? deadline : deadline - ahead_.load());
    call_timers();
  }
  void poll() override {
    inner().poll();
    call_timers();
  }

 private:
  void call_timers() {
    while (!timers_.empty() && timers_.begin()->first <= now()) {
      auto const f = timers_.begin()->second.lock();
      timers_.erase(timers_.begin());
      if (f) (*f)();
    }
  }

  std::atomic<std::chrono::milliseconds> const& ahead_;
  std::multimap<clock::time_point, std::weak_ptr<std::function<void()>>> timers_;
};

/// A coordinator in a thread of its own.
class coordinated {
 public:
  explicit coordinated(std::chrono::milliseconds silence, rules const& protocol = asp{},
                       std::unique_ptr<net::network> network = std::make_unique<net::asio_network>(),
                       std::uint32_t workers = 1, net::security const& keys = {},
                       std::chrono::milliseconds reconnect = 0ms) {  // at its end it waits for nobody
    place_.workers = workers;
    place_.keys = keys;
    place_.coordinator.path = folder_.file("coordinator");
    place_.silence = silence;
    place_.reconnect = reconnect;
    net::deployment own = place_;
    own.as = net::role::coordinator;
    process_.emplace(std::move(network), own, std::vector<rules>{protocol});
    serving_ = std::jthread([this] {
      try {
        process_->run();
      } catch (lost_error const&) {  // those who are there are told
      }
    });
  }
  ~coordinated() { process_->stop(); }
  coordinated(coordinated const&) = delete;
  coordinated& operator=(coordinated const&) = delete;

  /// For others.
  [[nodiscard]] net::deployment const& place() const noexcept { return place_; }
  /// Ends it. For how many processes it had links.
  [[nodiscard]] std::size_t links() {
    process_->stop();
    serving_.join();
    return process_->links();
  }

 private:
  temporary_folder folder_;
  net::deployment place_;
  std::optional<detail::coordinator_process> process_;
  std::jthread serving_;
};

/// A process of a run, as far as the coordinator knows. A server does what it is ordered to.
class member final : detail::coordinator_user {
 public:
  member(net::network& where, net::deployment const& place, net::role as, std::string what = agreed,
         std::optional<std::uint32_t> rank = std::nullopt)
      : link_(where, *this, place,
              {.as = as, .rank = rank ? rank : place.rank, .listens = "here", .agreed = std::move(what), .pid = 0}) {}

  void say(wire::control_message const& m) { link_.send(m); }
  [[nodiscard]] bool is_in() const noexcept { return is_in_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::string const& lost_for() const noexcept { return lost_for_; }
  [[nodiscard]] bool has_arrived() const noexcept { return link_.unacknowledged() == 0; }
  /// What ended it, as the coordinator said.
  [[nodiscard]] std::string told_last() const { return std::get<wire::stop_run>(heard_.back()).sentence; }
  template <class Message>
  [[nodiscard]] std::ptrdiff_t count() const {
    return std::ranges::count_if(heard_, [](auto const& m) { return std::holds_alternative<Message>(m); });
  }
  template <class Message>
  [[nodiscard]] bool has_heard() const {
    return count<Message>() != 0;
  }

 private:
  void welcomed(wire::welcome const& w) override {
    is_in_ = true;
    number_ = w.process;
  }
  void told(wire::control_message const& m) override {
    heard_.push_back(m);
    if (auto const* o = std::get_if<wire::server_order>(&m)) carry_out(o->order);
  }
  void coordinator_lost(std::string const& why, bool) override { lost_for_ = why; }
  void coordinator_absent(std::string const& sentence) override { lost_for_ = sentence; }
  void coordinator_refused(std::string const& why) override { lost_for_ = why; }

  void carry_out(membership_order const& o) {
    bool const reports =
        o.what == membership_order::kind::enlist || o.what == membership_order::kind::freeze;
    say(wire::order_done{o, reports ? std::optional(membership_report{}) : std::nullopt});
  }

  bool is_in_ = false;
  std::uint32_t number_ = 0;
  std::string lost_for_;
  std::vector<wire::control_message> heard_;
  detail::coordinator_link link_;
};

/// A link to a coordinator that says a hello, and not who it is before it is asked to.
class stranger final : public net::link_user {
 public:
  stranger(net::network& where, net::address const& to, std::uint64_t session,
           std::chrono::milliseconds silence = 5s, net::role as = net::role::worker)
      : silence_(silence), link_(where, *this, limits(silence, as), "the coordinator") {
    net::hello h;
    h.as = as;
    h.session = session;
    link_.dial(to, {}, h, 10s);
  }
  void register_itself(net::role as = net::role::worker) {
    register_itself({.as = as, .rank = std::nullopt, .listens = {}, .agreed = agreed, .pid = 0});
  }
  void register_itself(wire::registration self) {
    self.silence = silence_.count();
    say(self);
  }
  void say(wire::control_message const& m) {
    link_.send_reliable(+wire::kind::control, wire::encode(m));
    link_.flush();
  }
  void cut() { link_.cut(); }
  [[nodiscard]] bool is_up() const noexcept { return link_.is_up(); }
  [[nodiscard]] bool has_arrived() const noexcept { return link_.unacknowledged() == 0; }
  [[nodiscard]] bool is_in() const noexcept { return is_in_; }
  [[nodiscard]] std::string const& lost_for() const noexcept { return lost_for_; }
  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    arriving_.resize(static_cast<std::size_t>(header.length));
    body.emplace_back(arriving_);
  }
  void end(net::link&, wire::frame_header const&) override { is_in_ = true; }
  void lost(net::link&, std::string const& reason, bool) override { lost_for_ = reason; }

 private:
  static net::link::options limits(std::chrono::milliseconds silence, net::role as) {
    net::link::options o;
    o.silence = silence;
    o.as = as;
    return o;
  }

  bool is_in_ = false;
  std::string lost_for_;
  std::vector<std::byte> arriving_;
  std::chrono::milliseconds silence_;
  net::link link_;
};

/// Orders and wants nothing.
class idle_conductor {
 public:
  struct order_type {
    std::array<std::byte, 1024 * 1024> bytes{};
  };
  using orders = pace_orders<order_type>;

  void join(worker_id, clock_index, time_point, orders&) {}
  void leave(worker_id) {}
  void commit(worker_id, clock_index, time_point) {}
  void observe(time_point, double) {}
  void tick(time_point, orders&) {}
  [[nodiscard]] time_point next_tick() const noexcept { return time_point::max(); }
  [[nodiscard]] time_point next_sample() const noexcept { return time_point::max(); }
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return {}; }
};

/// A pace with that conductor.
template <pace_conductor Conductor>
struct conducted_by : every_step {
  explicit conducted_by(std::function<Conductor()> how) : make_conductor(std::move(how)) {}
  void follow(typename Conductor::order_type const&, pace_point const&) {}
  void spent(duration) {}

  std::function<Conductor()> make_conductor;
};

/// Hears what is logged, in the thread that says it.
struct log_listener {
  explicit log_listener(std::function<void(std::string_view)> hear) {
    net::set_log([hear = std::move(hear)](net::log_level, std::string_view line) { hear(line); });
  }
  log_listener(log_listener const&) = delete;
  log_listener& operator=(log_listener const&) = delete;
  ~log_listener() { net::set_log({}); }
};

/// Warnings of whatever thread.
class shared_log {
 public:
  shared_log() {
    net::set_log([this](net::log_level level, std::string_view line) {
      std::lock_guard const guard(lock_);
      if (level == net::log_level::warning) lines_ += std::string(line) + '\n';
    });
  }
  shared_log(shared_log const&) = delete;
  shared_log& operator=(shared_log const&) = delete;
  ~shared_log() { net::set_log({}); }
  [[nodiscard]] std::string lines() const {
    std::lock_guard const guard(lock_);
    return lines_;
  }

 private:
  mutable std::mutex lock_;
  std::string lines_;
};

}  // namespace rubato::test::coordinating
