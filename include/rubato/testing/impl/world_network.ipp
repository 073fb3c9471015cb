// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <list>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/net/impl/make_connection.hpp"
#include "rubato/net/impl/opening.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/refusal_log.hpp"
#include "rubato/testing/impl/world_wire.hpp"

namespace rubato::testing::world_parts {

namespace {

std::string place_of(net::address const& a) { return a.is_unix() ? a.text() : ":" + std::to_string(a.port); }

void expect_no_certificates(net::security const& keys) {
  if (keys.tls) throw option_error("a simulated network has no certificates: leave security::tls empty");
}

}  // namespace

/// Whoever listens; the handshakes of those who connect, as they are over sockets.
struct listening : std::enable_shared_from_this<listening> {
  listening(std::shared_ptr<node> by, net::address at, std::string secret, net::listener_options const& options,
            net::network::accepted told)
      : in(std::move(by)),
        bound(std::move(at)),
        token(std::move(secret)),
        limits(options),
        accepted(std::move(told)) {}

  std::shared_ptr<node> in;
  net::address bound;
  std::string token;
  net::listener_options limits;
  net::network::accepted accepted;
  std::shared_ptr<void> tickets = std::make_shared<char>();
  std::list<std::shared_ptr<net::opening>> openings = {};
  net::refusal_log refusals{bound.text()};

  void open(std::shared_ptr<wire> const& w, std::string const& who) {
    if (!make_room(who)) return w->close(1);
    auto which = std::make_shared<net::opening const*>(nullptr);
    auto const one = std::make_shared<net::opening>(
        in, stream_over(w, 1), net::handshake::role::accepting, token, limits,
        [weak = weak_from_this(), which, who, ticket = tickets](std::unique_ptr<net::stream> opened,
                                                                 std::string const& reason, bool) {
          if (auto const self = weak.lock()) self->opened(*which, std::move(opened), who, ticket, reason);
        });
    *which = one.get();
    openings.push_back(one);
    one->start(in->now() + limits.handshake);
  }

  bool make_room(std::string const& who) {
    bool const is_full = static_cast<std::size_t>(tickets.use_count() - 1) >= limits.connections_max;
    if (!is_full && openings.size() < limits.handshakes_max) return true;
    if (openings.empty()) {
      refusals.tell(who + ": refused, since there are too many connections", in->now());
      return false;
    }
    auto const silent = std::ranges::find(openings, false, &net::opening::is_greeted);
    auto const gone = silent == openings.end() ? openings.begin() : silent;
    (*gone)->cancel();
    openings.erase(gone);
    return true;
  }

  void opened(net::opening const* which, std::unique_ptr<net::stream> over, std::string const& who,
              std::shared_ptr<void> ticket, std::string const& reason) {
    net::peer_identity const shown = over ? which->other() : net::peer_identity();
    std::erase_if(openings, [which](auto const& o) { return o.get() == which; });
    if (!over) return refusals.tell(who + ": refused: " + reason, in->now());
    accepted(net::make_connection(in, std::move(over), who, shown, limits, std::move(ticket)));
  }

  void close() noexcept {
    for (auto const& o : openings) o->cancel();
    openings.clear();
  }
};

bool is_of_the_dead(listening const& l) noexcept { return l.in->of().end.killed; }

namespace {

class simulated_listener final : public net::listener {
 public:
  simulated_listener(world_state& world, std::shared_ptr<listening> l) : world_(world), listening_(std::move(l)) {}
  simulated_listener(simulated_listener const&) = delete;
  simulated_listener& operator=(simulated_listener const&) = delete;
  ~simulated_listener() override {
    auto const at = world_.places.find(place_of(listening_->bound));
    if (at != world_.places.end() && at->second.lock() == listening_) world_.places.erase(at);
    listening_->close();
  }
  net::address bound() const override { return listening_->bound; }

 private:
  world_state& world_;
  std::shared_ptr<listening> listening_;
};

/// One attempt to connect: gives up when its handle goes.
struct attempt : std::enable_shared_from_this<attempt> {
  std::shared_ptr<node> by;
  net::address to;
  std::string token;
  net::connection_options options;
  net::network::dialed done;
  net::network::clock::time_point until{};
  std::shared_ptr<void> timer = {};
  std::shared_ptr<wire> made = {};
  std::shared_ptr<net::opening> opening = {};

  [[nodiscard]] world_state& world() const { return by->world(); }
  [[nodiscard]] process_number here() const { return by->of().at.number; }

  void start() {
    until = by->now() + options.handshake;
    timer = by->at(until, [weak = weak_from_this()] {
      if (auto const self = weak.lock()) self->finish("nobody answered in time");
    });
    if (by->of().end.killed)
      return by->post([weak = weak_from_this()] {
        if (auto const self = weak.lock()) self->finish("this process has been killed", {}, true);
      });
    process_number there = here();
    if (auto const at = world().places.find(place_of(to)); at != world().places.end())
      if (auto const l = at->second.lock()) there = l->in->of().at.number;
    knock_at(world().now() + world().travel(world().path(here(), there)), there);
  }

  /// The first packet is on its way; it is sent again until it gets through.
  void knock_at(time_point t, process_number there) {
    world().push(t, [weak = weak_from_this(), there] {
      auto const self = weak.lock();
      if (!self || !self->done) return;
      time_point const open = self->world().opens(self->here(), there);
      if (open > self->world().now()) return self->knock_at(open, there);
      self->knock(there);
    });
  }

  void knock(process_number there) {
    auto const at = world().places.find(place_of(to));
    auto const l = at == world().places.end() ? nullptr : at->second.lock();
    time_point const back = std::max(world().opens(there, here()), world().now()) +
                            world().travel(world().path(there, here()));
    if (!l && world().deserted.contains(place_of(to))) return;  // nothing comes back
    bool const refuses = l && (l->in->of().at.refuses_until > world().now() || l->in->of().end.killed);
    if (!l || refuses) {
      world().push(back, [weak = weak_from_this()] {
        if (auto const self = weak.lock()) self->told_soon("Connection refused");
      });
      return;
    }
    made = std::make_shared<wire>(world(), by, l->in);
    world().wires_ever.push_back(made);
    l->in->deliver([weak = std::weak_ptr<listening>(l), w = made, who = by->of().name()] {
      if (auto const still = weak.lock()) still->open(w, who);
      else w->close(1);
    });
    world().push(back, [weak = weak_from_this()] {
      auto const self = weak.lock();
      if (!self) return;
      self->by->deliver([weak] {
        if (auto const one = weak.lock()) one->connected();
      });
    });
  }

  void told_soon(char const* reason) {
    by->deliver([weak = weak_from_this(), reason] {
      if (auto const self = weak.lock()) self->finish(reason);
    });
  }

  void connected() {
    if (!done) return;
    opening = std::make_shared<net::opening>(
        by, stream_over(made, 0), net::handshake::role::connecting, token, options,
        [weak = weak_from_this()](std::unique_ptr<net::stream> opened, std::string const& reason, bool refused) {
          auto const self = weak.lock();
          if (!self) return;
          if (!opened) return self->finish(reason, {}, refused);
          self->finish({}, net::make_connection(self->by, std::move(opened), self->to.text(), self->opening->other(),
                                                self->options));
        });
    timer.reset();
    opening->start(until);
  }

  void finish(std::string const& reason, std::unique_ptr<net::connection> ready = {}, bool refused = false) {
    if (!done) return;
    auto const told = std::exchange(done, nullptr);
    timer.reset();
    if (made && !ready && !opening) made->close(0);
    told(std::move(ready), reason.empty() ? reason : fmt::format("{}: {}", to.text(), reason), refused);
  }

  void cancel() noexcept {
    done = nullptr;
    timer.reset();
    if (opening) opening->cancel();
    else if (made) made->close(0);
  }
};

struct attempt_handle {
  explicit attempt_handle(std::shared_ptr<attempt> what) : of(std::move(what)) {}
  attempt_handle(attempt_handle const&) = delete;
  attempt_handle& operator=(attempt_handle const&) = delete;
  ~attempt_handle() { of->cancel(); }
  std::shared_ptr<attempt> of;
};

class simulated_network final : public net::network {
 public:
  simulated_network(std::shared_ptr<world_state> world, one_life& of)
      : world_(std::move(world)), node_(std::make_shared<node>(*world_, of)) {}
  simulated_network(simulated_network const&) = delete;
  simulated_network& operator=(simulated_network const&) = delete;
  ~simulated_network() override { node_->close(); }

  std::shared_ptr<void> dial(net::address const& to, net::security const& keys,
                             net::connection_options const& options, dialed done) override {
    return world_parts::dial(node_, to, keys, options, std::move(done));
  }
  std::unique_ptr<net::listener> listen(net::address const& at, net::security const& keys,
                                        net::listener_options const& options, accepted f) override {
    return world_parts::listen(node_, at, keys, options, std::move(f));
  }
  std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override {
    return node_->at(when, std::move(f));
  }
  clock::time_point now() const override { return node_->now(); }
  void run_one(clock::time_point deadline) override { node_->run_one(deadline); }
  void poll() override { node_->poll(); }
  void interrupt() noexcept override { node_->interrupt(); }
  std::optional<net::address> reached(net::address const& bound, net::address const&) const override { return bound; }
  void random(std::span<std::byte> into) override {
    for (std::byte& b : into) b = static_cast<std::byte>(world_->random.below(256));
  }
  net::process_identity process() const override {
    std::uint32_t const number = 1000 * (node_->of().at.number + 1) + node_->of().end.life;
    return {number, number};  // no two lives have the same
  }
  thread_source& threads() noexcept override { return node_->of().threads; }

 private:
  std::shared_ptr<world_state> world_;
  std::shared_ptr<node> node_;
};

}  // namespace

std::shared_ptr<void> dial(std::shared_ptr<node> const& by, net::address const& to, net::security const& keys,
                           net::connection_options const& options, net::network::dialed done) {
  expect_no_certificates(keys);
  auto const one = std::make_shared<attempt>();
  one->by = by;
  one->to = to;
  one->token = keys.token;
  one->options = options;
  one->done = std::move(done);
  auto handle = std::make_shared<attempt_handle>(one);
  one->start();
  return handle;
}

std::unique_ptr<net::listener> listen(std::shared_ptr<node> const& by, net::address const& at,
                                      net::security const& keys, net::listener_options const& options,
                                      net::network::accepted f) {
  expect_no_certificates(keys);
  world_state& world = by->world();
  net::address bound = at;
  if (!at.is_unix() && at.port == 0) bound.port = world.next_port++;
  if (at.is_unix() && at.path.back() == '*')
    bound.path.replace(bound.path.size() - 1, 1, std::to_string(world.next_port++));
  auto& place = world.places[place_of(bound)];
  if (auto const other = place.lock(); other && !other->in->of().end.killed)
    throw error(errc::io, bound.text() + ": cannot listen: Address already in use");
  auto l = std::make_shared<listening>(by, bound, keys.token, options, std::move(f));
  if (!by->of().end.killed) {
    place = l;
    world.deserted.erase(place_of(bound));
  }
  return std::make_unique<simulated_listener>(world, std::move(l));
}

std::unique_ptr<net::network> make_network(std::shared_ptr<world_state> world, one_life& of) {
  return std::make_unique<simulated_network>(std::move(world), of);
}

// ---- a process's network

node::clock::time_point node::now() const { return world_.local(of_.at, world_.now()); }

namespace {
struct timer {
  std::function<void()> ring;
};
}  // namespace

std::shared_ptr<void> node::at(clock::time_point when, std::function<void()> f) {
  auto const one = std::make_shared<timer>(timer{std::move(f)});
  world_.push(world_.global(of_.at, when), [weak = weak_from_this(), one = std::weak_ptr(one)] {
    auto const self = weak.lock();
    if (!self || one.expired()) return;
    self->deliver([one] {
      if (auto const still_wanted = one.lock()) still_wanted->ring();
    });
  });
  return one;
}

void node::post(std::function<void()> f) {
  world_.push_now([weak = weak_from_this(), f = std::move(f)]() mutable {
    if (auto const self = weak.lock()) self->deliver(std::move(f));
  });
}

net::proof node::secret() {
  net::proof p;
  for (auto& b : p) b = static_cast<std::uint8_t>(world_.secrets.below(256));
  return p;
}

void node::close() noexcept {
  closed_ = true;
  auto const unheard = std::exchange(happened_, {});  // it may hold what holds this
}

void node::deliver(std::function<void()> f) {
  if (closed_) return;
  happened_.push_back(std::move(f));
  if (waiter_ != nullptr) world_.wake_soon(*waiter_, waits_);
}

bool node::handle_one() {
  if (happened_.empty()) return false;
  auto const next = std::move(happened_.front());
  happened_.pop_front();
  world_.mix(of_.at.number);
  next();
  return true;
}

void node::run_one(clock::time_point deadline) {
  if (handle_one() || interrupted_.exchange(false) || (deadline <= now() && world_.current() != nullptr)) return;
  if (strand* const s = world_.current()) wait_as(*s, deadline);
  else wait_outside(deadline);
  if (!handle_one()) interrupted_.exchange(false);
}

void node::wait_as(strand& s, clock::time_point deadline) {
  waiter_ = &s;
  waits_ = world_.prepare_to_wait(s);
  if (deadline != clock::time_point::max()) world_.wake_at(world_.global(of_.at, deadline), s, waits_);
  world_.wait(s);
  waiter_ = nullptr;
}

/// Nobody else lets the world go on.
void node::wait_outside(clock::time_point deadline) {
  time_point const end = world_.global(of_.at, deadline);
  while (happened_.empty() && !interrupted_ && !world_.queue.empty() && world_.queue.next_time() <= end) world_.step();
  if (!happened_.empty() || interrupted_ || end <= world_.now()) return;
  if (deadline == clock::time_point::max())
    throw deadlock_error("a simulated network waits, and nothing will ever happen in its world");
  world_.push(end, [] {});
  world_.step();
}

void node::poll() {
  if (world_.current() == nullptr)
    while (!world_.queue.empty() && world_.queue.next_time() <= world_.now()) world_.step();
  for (std::size_t left = happened_.size(); left != 0 && handle_one();) --left;
}

/// From another thread only where nobody runs the world: then who runs next sees it.
void node::interrupt() noexcept {
  interrupted_ = true;
  if (waiter_ != nullptr) world_.wake_soon(*waiter_, waits_);
}

}  // namespace rubato::testing::world_parts
