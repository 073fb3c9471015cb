// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/mpi_network.hpp"

#include <fmt/core.h>

#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/impl/mpi_desk.hpp"
#include "rubato/net/impl/mpi_pipe.hpp"
#include "rubato/net/impl/mpi_sum.hpp"
#include "rubato/net/impl/mpi_world.hpp"

namespace rubato::net {
namespace {

using detail::mpi_control;
using detail::mpi_desk;
using detail::mpi_pipe;
using detail::mpi_sum;
using detail::mpi_world;

constexpr std::string_view rank_prefix = "rank-";

/// The rank of an address.
int rank_at(address const& where, int count) {
  std::string_view digits = where.host;
  int rank = -1;
  if (digits.starts_with(rank_prefix)) {
    digits.remove_prefix(rank_prefix.size());
    auto const [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (failure != std::errc{} || end != digits.data() + digits.size()) rank = -1;
  }
  if (where.is_unix() || rank < 0 || rank >= count)
    throw option_error(
        fmt::format("the address '{}' is none of this MPI job's; expected rank-N:NUMBER with N from 0 to {}",
                    where.text(), count - 1));
  return rank;
}

void refuse_keys(security const& keys) {
  if (keys.token.empty() && !keys.tls) return;
  throw option_error(
      "ranks of an MPI job prove nothing to each other, mpirun lets them in; expected no token (RUBATO_TOKEN, "
      "RUBATO_TOKEN_FILE, security::token) and no certificates (RUBATO_TLS_..., security::tls)");
}

/// The owner's end of a connection.
class mpi_connection final : public connection {
 public:
  explicit mpi_connection(std::shared_ptr<mpi_pipe> to) : pipe_(std::move(to)) {}
  mpi_connection(mpi_connection const&) = delete;
  mpi_connection& operator=(mpi_connection const&) = delete;
  ~mpi_connection() override { pipe_->close(); }

  void attach(frame_receiver& owner) override { pipe_->attach(owner); }
  void send(wire::frame_header header, std::span<std::byte const> meta, std::span<std::byte const> body) override {
    pipe_->send(header, meta, body);
  }
  void send(wire::frame_header header, std::span<std::byte const> meta, std::uint64_t length,
            std::unique_ptr<body_source> body) override {
    pipe_->send(header, meta, length, std::move(body));
  }
  void send_newest(wire::frame_header header) override { pipe_->send_newest(header); }
  void flush() override { pipe_->flush(); }
  [[nodiscard]] std::size_t unsent() const noexcept override { return pipe_->unsent(); }
  void close() noexcept override { pipe_->close(); }
  [[nodiscard]] bool is_open() const noexcept override { return pipe_->is_open(); }
  [[nodiscard]] std::string peer() const override { return pipe_->peer(); }

 private:
  std::shared_ptr<mpi_pipe> pipe_;
};

/// One attempt to connect: gives up when it is dropped.
class mpi_attempt {
 public:
  mpi_attempt(mpi_desk& desk, address const& to, int rank, connection_options const& options, network::dialed done)
      : to_(to.text()), done_(std::move(done)), pipe_(std::make_shared<mpi_pipe>(desk, rank, to_, options)) {
    pipe_->when_answered([this](mpi_control const& said) { answered(said); });
    timer_ = desk.at(mpi_desk::clock::now() + options.handshake, [this] { finish({}, "nobody answered in time"); });
    std::lock_guard const guard(desk.world().mutex());
    desk.world().tell(rank, {.what = mpi_control::kind::dial, .number = to.port, .from = pipe_->tag()});
  }
  mpi_attempt(mpi_attempt const&) = delete;
  mpi_attempt& operator=(mpi_attempt const&) = delete;
  ~mpi_attempt() {
    if (pipe_) pipe_->close();
  }

 private:
  void answered(mpi_control const& said) {
    switch (said.what) {
      case mpi_control::kind::accepted:
        pipe_->connect(said.from);
        return finish(std::make_unique<mpi_connection>(pipe_), {});
      case mpi_control::kind::full: return finish({}, "too many connections are open there");
      default: return finish({}, "nobody listens there");
    }
  }
  void finish(std::unique_ptr<connection> made, std::string const& reason) {
    timer_.reset();
    if (!made) pipe_->close();
    pipe_.reset();
    // The caller may drop this from there.
    auto const done = std::exchange(done_, nullptr);
    done(std::move(made), reason.empty() ? reason : fmt::format("{}: {}", to_, reason), false);
  }

  std::string to_;
  network::dialed done_;
  std::shared_ptr<mpi_pipe> pipe_;
  std::shared_ptr<void> timer_;
};

/// What stays where a listener was for as long as calls may be on their way to it.
struct mpi_door final : mpi_world::door, std::enable_shared_from_this<mpi_door> {
  mpi_door(mpi_desk& where, listener_options const& given, network::accepted f)
      : desk(where), options(given), accepted(std::move(f)) {}

  void called(int source, mpi_control const& said) override {
    desk.bring([self = shared_from_this(), source, said] { self->take(source, said); });
  }
  void take(int source, mpi_control const& said) {
    auto& world = desk.world();
    auto const say = [&](mpi_control::kind what, int from) {
      std::lock_guard const guard(world.mutex());
      world.tell(source, {.what = what, .from = from, .to = said.from});
    };
    if (!open) return say(mpi_control::kind::nobody, 0);
    std::string const name = mpi_network::address_of(static_cast<std::uint32_t>(source)).host;
    // Whoever holds a copy counts as an open connection.
    if (static_cast<std::size_t>(tickets.use_count() - 1) >= options.connections_max) {
      log(log_level::warning,
          fmt::format("{}: refused, since {} connections are open already", name, options.connections_max));
      return say(mpi_control::kind::full, 0);
    }
    auto const pipe = std::make_shared<mpi_pipe>(desk, source, name, options, tickets);
    pipe->connect(said.from);
    say(mpi_control::kind::accepted, pipe->tag());
    log(log_level::info, fmt::format("{}: connected", name));
    accepted(std::make_unique<mpi_connection>(pipe));
  }

  mpi_desk& desk;
  listener_options options;
  network::accepted accepted;
  std::shared_ptr<void> tickets = std::make_shared<char>();
  bool open = true;
};

class mpi_listener final : public listener {
 public:
  mpi_listener(mpi_desk& desk, std::uint16_t number, listener_options const& options, network::accepted f)
      : door_(std::make_shared<mpi_door>(desk, options, std::move(f))) {
    std::lock_guard const guard(desk.world().mutex());
    number_ = desk.world().add(*door_, number);
  }
  mpi_listener(mpi_listener const&) = delete;
  mpi_listener& operator=(mpi_listener const&) = delete;
  ~mpi_listener() override {
    door_->open = false;
    std::lock_guard const guard(door_->desk.world().mutex());
    door_->desk.world().remove(number_);
  }
  [[nodiscard]] address bound() const override {
    return mpi_network::address_of(static_cast<std::uint32_t>(door_->desk.world().rank()), number_);
  }

 private:
  std::shared_ptr<mpi_door> door_;
  std::uint16_t number_ = 0;
};

/// The owner's end of a sum.
class mpi_collective final : public collective {
 public:
  explicit mpi_collective(std::shared_ptr<mpi_sum> to) : sum_(std::move(to)) {}
  mpi_collective(mpi_collective const&) = delete;
  mpi_collective& operator=(mpi_collective const&) = delete;
  ~mpi_collective() override { sum_->part(); }

  void begin() override { sum_->begin(); }
  void sum(std::span<std::byte const> mine, std::function<void()> done) override { sum_->sum(mine, std::move(done)); }
  [[nodiscard]] outcome result() const override { return sum_->result(); }
  void leave(leaving why) override { sum_->leave(why); }
  [[nodiscard]] bool is_at_rest() const noexcept override { return sum_->is_at_rest(); }

 private:
  std::shared_ptr<mpi_sum> sum_;
};

}  // namespace

struct mpi_network::state {
  mpi_desk desk;
};

mpi_rank this_mpi_rank() {
  auto const& world = mpi_world::get();
  return {.number = static_cast<std::uint32_t>(world.rank()), .count = static_cast<std::uint32_t>(world.count())};
}

mpi_network::mpi_network() : state_(std::make_unique<state>()) {}
mpi_network::~mpi_network() = default;

address mpi_network::address_of(std::uint32_t rank, std::uint16_t number) {
  return {.host = fmt::format("{}{}", rank_prefix, rank), .port = number};
}

std::unique_ptr<collective> mpi_network::join_others(element_type element, std::size_t size) {
  auto const sum = std::make_shared<mpi_sum>(state_->desk, element, size);
  auto made = std::make_unique<mpi_collective>(sum);
  sum->join();
  return made;
}

std::shared_ptr<void> mpi_network::dial(address const& to, security const& keys, connection_options const& options,
                                        dialed done) {
  refuse_keys(keys);
  int const rank = rank_at(to, state_->desk.world().count());
  return std::make_shared<mpi_attempt>(state_->desk, to, rank, options, std::move(done));
}

std::unique_ptr<listener> mpi_network::listen(address const& at, security const& keys, listener_options const& options,
                                              accepted f) {
  refuse_keys(keys);
  auto& desk = state_->desk;
  if (int const rank = rank_at(at, desk.world().count()); rank != desk.world().rank())
    throw option_error(fmt::format("rank {} cannot listen at {}, expected its own address, such as {}",
                                   desk.world().rank(), at.text(),
                                   address_of(static_cast<std::uint32_t>(desk.world().rank())).text()));
  return std::make_unique<mpi_listener>(desk, at.port, options, std::move(f));
}

std::shared_ptr<void> mpi_network::at(clock::time_point when, std::function<void()> f) {
  return state_->desk.at(when, std::move(f));
}

void mpi_network::run_one(clock::time_point deadline) { state_->desk.run_one(deadline); }

void mpi_network::poll() {
  while (state_->desk.step(clock::now())) continue;
}

void mpi_network::interrupt() noexcept { state_->desk.wake(); }

std::optional<address> mpi_network::reached(address const& bound, address const&) const { return bound; }

}  // namespace rubato::net
