// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A server among processes that a test plays itself, message by message.
#pragma once

#include <rubato/net/asio_network.hpp>
#include <rubato/transport/processes/server_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/net/connection.hpp>
#include <rubato/net/link.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/server/coordinator.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/transport/processes/enrolments.hpp>
#include <rubato/transport/processes/outbound_frames.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "net/ends.hpp"

namespace rubato::test::serving_alone {

using counting = dense<std::int64_t, sum>;

constexpr worker_id first_worker{0};
constexpr worker_id second_worker{1};

/// Without heartbeats, which would take along what somebody has forgotten to send.
constexpr std::chrono::seconds long_silence{60};
inline net::link::options without_heartbeats() {
  net::link::options o;
  o.silence = long_silence;
  return o;
}
inline net::listener_options coordinator_limits() {
  net::listener_options o;
  o.silence = long_silence;
  o.as = net::role::coordinator;
  return o;
}

/// What the coordinator draws for a life of a worker process.
inline wire::secret secret_of(std::uint32_t process, std::uint32_t incarnation) {
  wire::secret s{};
  s[0] = static_cast<std::uint8_t>(process + 1);
  s[1] = static_cast<std::uint8_t>(incarnation);
  return s;
}
/// With what shows it to be that process's own, at server 0.
inline net::hello shown(net::hello said) {
  said.credential = detail::session_credential(secret_of(said.number, said.incarnation), said, 0);
  return said;
}

/// A worker process, as far as a server knows.
class worker_peer final : public net::link_user {
 public:
  static constexpr std::uint64_t usual_session = 100;
  struct answer {
    wire::frame_header header;
    std::vector<std::byte> meta;
    std::vector<std::byte> body;
  };

  worker_peer(net::network& where, net::address const& server, net::hello const& said)
      : link_(where, *this, without_heartbeats(), "the server") {
    link_.dial(server, {}, said, 10s);
  }
  worker_peer(net::network& where, net::address const& server, std::uint32_t process,
              std::uint64_t session = usual_session)
      : worker_peer(where, server, hello_of(process, session)) {}
  [[nodiscard]] static net::hello hello_of(std::uint32_t process,
                                           std::uint64_t session = usual_session) {
    net::hello h;
    h.number = process;
    h.session = session + process;
    return shown(h);
  }

  [[nodiscard]] bool is_up() const noexcept { return link_.is_up(); }
  /// What it has said.
  [[nodiscard]] bool has_arrived() const noexcept { return link_.unacknowledged() == 0; }
  void cut() { link_.cut(); }
  [[nodiscard]] std::string const& lost_for() const noexcept { return lost_for_; }
  [[nodiscard]] std::vector<answer> const& answers() const noexcept { return answers_; }
  /// An answer's parameters.
  [[nodiscard]] std::vector<std::int64_t> values(std::size_t of) const {
    auto const& bytes = answers_.at(of).body;
    std::vector<std::int64_t> all(bytes.size() / sizeof(std::int64_t));
    std::ranges::copy(bytes, std::as_writable_bytes(std::span(all)).begin());
    return all;
  }

  /// For the whole of a table.
  void ask(sender const& from, clock_index clock, commit_cut const* cut = nullptr, std::uint16_t table = 0) {
    wire::frame_header h;
    h.kind = +wire::kind::request;
    h.table = table;
    h.sender = from.worker.value();
    h.incarnation = from.incarnation.value();
    h.sequence = ++asked_;
    wire::request_meta m{.stage = from.stage, .clock = clock, .bound = {}, .asked = selection::all};
    std::vector<clock_index> below;
    if (cut != nullptr) {
      for (std::uint32_t w = 0; w < cut->size(); ++w) below.push_back(cut->of(worker_id{w}));
      m.has_cut = true;
      m.cut_size = below.size();
      m.cut_c_min = cut->c_min();
    }
    link_.send(h, wire::to_bytes(m), std::as_bytes(std::span(below)));
    link_.flush();
  }
  /// A frame without a body.
  void say(wire::kind kind, std::uint64_t sequence, std::span<std::byte const> meta = {}) {
    wire::frame_header h;
    h.kind = +kind;
    h.sequence = sequence;
    link_.send(h, meta);
    link_.flush();
  }
  /// What no server understands.
  void babble() {
    wire::frame_header h;
    h.kind = 99;
    link_.send(h, {});
    link_.flush();
  }
  /// @param seen by the server @param at_once_max of whole updates there, so many bytes; more goes in turns
  void commit(commit_message&& m, detail::update_memory const* seen = nullptr,
              std::span<table_blueprint const> tables = {},
              std::size_t at_once_max = std::numeric_limits<std::size_t>::max()) {
    send(std::make_shared<detail::commit_frame const>(std::move(m), tables, seen, at_once_max));
  }
  void send(std::shared_ptr<net::reliable_frame const> frame) {
    link_.send(std::move(frame));
    link_.flush();
  }
  /// Row `row` is to be this.
  void give(std::uint64_t row, std::int64_t value) {
    update u{.whole = false, .rows = {row}, .values = {}};
    u.values.append(std::as_bytes(std::span(&value, 1)));
    link_.send(std::make_shared<detail::values_frame const>(std::uint16_t{0}, std::move(u)));
    link_.flush();
  }

  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override {
    arriving_ = {header, {meta.begin(), meta.end()},
                 std::vector<std::byte>(static_cast<std::size_t>(header.length))};
    body.emplace_back(arriving_.body);
  }
  void end(net::link&, wire::frame_header const&) override { answers_.push_back(std::move(arriving_)); }
  void lost(net::link&, std::string const& reason, bool) override { lost_for_ = reason; }

 private:
  answer arriving_{};
  std::vector<answer> answers_;
  std::uint64_t asked_ = 0;
  std::string lost_for_;
  net::link link_;
};

/// The coordinator of one server. Orders can be held back, as by a slow network.
class played_coordinator final : public net::link_user {
 public:
  played_coordinator(net::network& where, net::address const& at, bool synchronized)
      : orders_(1, synchronized),
        link_(where, *this, without_heartbeats(), "the server"),
        door_(where, without_heartbeats(),
              [this](auto fresh, auto const& said) { link_.adopt(std::move(fresh), said); }),
        listener_(where.listen(at, {}, coordinator_limits(),
                               [this](auto fresh) { door_.receive(std::move(fresh)); })) {
    door_.open();
  }

  [[nodiscard]] bool is_up() const noexcept { return link_.is_up(); }
  /// What it has said.
  [[nodiscard]] bool has_arrived() const noexcept { return link_.unacknowledged() == 0; }
  [[nodiscard]] stage_id stage() const noexcept { return stage_; }
  [[nodiscard]] sender identity(worker_id w) const noexcept { return {w, incarnation_id{0}, stage_}; }
  [[nodiscard]] stable_cuts& cuts() noexcept { return orders_.cuts(); }
  [[nodiscard]] bool has_started(worker_id w) const { return started_.contains(w); }

  /// The number of the server whom it takes this one for.
  void welcome(std::uint32_t number) {
    say(wire::welcome{.process = number, .incarnation = 0, .workers = 1, .servers = {}});
  }
  void begin_stage() {
    say(wire::welcome{.process = 0, .incarnation = 0, .workers = 1, .servers = {}});
    admit(first_worker.value());
    admit(second_worker.value());
    stage_ = stage_id{1};
    orders_.begin_stage(stage_);
    say(wire::begin_stage{stage_, 0, false});
  }
  /// The next one, of the same protocol; its workers have yet to join.
  void begin_next_stage(bool changes_tables, recovery what = recovery::none) {
    stage_ = stage_id{stage_.value() + 1};
    started_.clear();
    orders_.begin_stage(stage_);
    say(wire::begin_stage{stage_, 0, changes_tables, what});
  }
  void admit(std::uint32_t process, std::uint32_t incarnation = 0) {
    say(wire::admission{process, incarnation, secret_of(process, incarnation)});
  }
  /// Its process has the worker's number.
  void join(worker_id w) { order(orders_.join(w, incarnation_id{0})); }
  void lose(worker_id w) {
    drop(w);
    say(wire::expel{w.value(), 0});
  }
  /// Its commits count no more; what its process is still sending may come.
  void drop(worker_id w) {
    if (auto const o = orders_.lose(w)) order(*o);
  }
  void end_stage() { say(wire::end_stage{stage_}); }
  /// In good order, and without an end of the run.
  void leave() { link_.close(); }
  /// What the server has counted, once it has said so.
  [[nodiscard]] std::optional<shard_counters> const& counted() const noexcept { return counted_; }
  void shut_down() { say(wire::shut_down{}); }

  /// As if another server, which is ahead, had reported it: joiners start there.
  void start_joiners_at(clock_index clock) { ahead_ = clock; }
  void hold_back() { holds_back_ = true; }
  [[nodiscard]] bool has_held_back() const noexcept { return !held_.empty(); }
  void let_go() {
    holds_back_ = false;
    for (auto const& m : std::exchange(held_, {})) say(m);
  }

  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const>,
             std::vector<std::span<std::byte>>& body) override {
    arriving_.resize(static_cast<std::size_t>(header.length));
    body.emplace_back(arriving_);
  }
  void end(net::link&, wire::frame_header const&) override {
    auto const message = wire::decode_control(arriving_);
    if (auto const* done = std::get_if<wire::order_done>(&message)) {
      if (done->order.what == membership_order::kind::start) started_.insert(done->order.worker);
      if (done->report) heard(done->order, *done->report);
    } else if (auto const* note = std::get_if<wire::progress_note>(&message)) {
      cuts().report(server_id{0}, note->worker, note->received);
    } else if (auto const* over = std::get_if<wire::stage_over>(&message)) {
      counted_ = over->counters;
    }
  }
  void lost(net::link&, std::string const&, bool) override {}

 private:
  void heard(membership_order const& about, membership_report report) {
    if (about.what == membership_order::kind::enlist) report.clock = std::max(report.clock, ahead_);
    if (auto const next = orders_.report(about, report)) order(*next);
  }
  void order(membership_order const& o) { say(wire::server_order{o, o.worker.value()}); }
  void say(wire::control_message const& m) {
    if (holds_back_) return held_.push_back(m);
    link_.send_reliable(+wire::kind::control, wire::encode(m));
    link_.flush();
  }

  coordinator orders_;
  stage_id stage_{};
  std::set<worker_id> started_;
  std::optional<shard_counters> counted_;
  clock_index ahead_ = clock_index::lowest();
  bool holds_back_ = false;
  std::vector<wire::control_message> held_;
  std::vector<std::byte> arriving_;
  net::link link_;
  net::doorkeeper door_;
  std::unique_ptr<net::listener> listener_;
};

/// A server in a run of two workers, in processes of their own. All of it in one thread.
class played_run {
 public:
  played_run(rules const& p, std::size_t rows, std::uint64_t held_max = std::uint64_t{1} << 30,
             table_changes const& changes = {})
      : played_run(blueprint(std::vector<rules>{p}, 1, {describe(counting{.rows = rows})}, {changes}), {}, held_max) {}
  played_run(rules const& p, table_description const& table, net::server_limits const& limits)
      : played_run(blueprint(p, 1, {table}), limits, std::uint64_t{1} << 30) {}
  played_run(blueprint plan, std::chrono::milliseconds long_wait)
      : played_run(std::move(plan), {}, std::uint64_t{1} << 30, std::make_unique<net::asio_network>(), false, long_wait) {}
  played_run(blueprint plan, net::server_limits const& limits, std::uint64_t held_max,
             std::unique_ptr<net::network> of_server = std::make_unique<net::asio_network>(),
             bool share_memory = false, std::chrono::milliseconds long_wait = 60s)
      : plan_(std::move(plan)) {
    net::deployment place;
    place.limits = limits;
    place.as = net::role::server;
    place.rank = 0;
    place.coordinator.path = folder_.file("coordinator");
    place.listen = {.host = {}, .path = folder_.file("server")};
    place.silence = long_silence;
    place.share_memory = share_memory;
    place.long_wait = long_wait;
    coordinator_.emplace(network_, place.coordinator, plan_.synchronized());
    server_.emplace(std::move(of_server), plan_, plan_.agreement(), place, 1 << 20, held_max);
    REQUIRE(until([&] { return coordinator_->is_up(); }));
    coordinator_->begin_stage();
    coordinator_->join(first_worker);
    REQUIRE(until([&] { return coordinator_->has_started(first_worker); }));
    first_ = connected(network_, first_worker);
  }
  ~played_run() {
    coordinator_->shut_down();
    (void)until([&] { return false; }, 20ms);
  }

  [[nodiscard]] bool until(std::function<bool()> const& condition, std::chrono::milliseconds limit = test::patience) {
    auto const end = net::network::clock::now() + limit;
    while (!condition()) {
      if (net::network::clock::now() > end) return false;
      server_->poll();
      network_.run_one(net::network::clock::now() + 1ms);
    }
    return true;
  }
  /// The server and the others do what they can for now.
  void settle() {
    auto turns = 0;  // a machine with other work may stand still for all of the time
    auto const end = net::network::clock::now() + 50ms;
    (void)until([&] { return ++turns > 50 && net::network::clock::now() > end; });
  }

  [[nodiscard]] std::unique_ptr<worker_peer> connected(net::network& where, worker_id w) {
    auto made = dialling(where, worker_peer::hello_of(w.value()));
    REQUIRE(until([&] {
      where.poll();
      return made->is_up();
    }));
    return made;
  }
  /// A worker process that the server has yet to let in.
  [[nodiscard]] std::unique_ptr<worker_peer> dialling(net::network& where, net::hello const& said) {
    return std::make_unique<worker_peer>(where, server_->bound(), said);
  }
  /// It pushes a one to every element of every table.
  void commit(worker_peer& from, worker_id w, clock_index stamp) {
    commit_message m{.from = to().identity(w), .stamp = stamp, .version = version_index{stamp.value()}, .parts = {}};
    for (auto const& t : plan_.tables()) {
      auto part = t.pool().take();
      part->whole = true;
      part->rows.clear();
      part->values.resize_bytes(t.elements() * sizeof(std::int64_t));
      std::ranges::fill(part->values.as<std::int64_t>(), 1);
      m.parts.push_back(std::move(part));
    }
    from.commit(std::move(m));
  }

  [[nodiscard]] blueprint const& plan() const noexcept { return plan_; }
  [[nodiscard]] played_coordinator& to() { return *coordinator_; }
  [[nodiscard]] worker_peer& first() { return *first_; }
  [[nodiscard]] server_stats const& stats() const { return server_->stats(); }
  [[nodiscard]] detail::server_process const& server() const { return *server_; }
  [[nodiscard]] net::address server_address() const { return server_->bound(); }
  [[nodiscard]] net::network& network() { return network_; }

 private:
  temporary_folder folder_;
  net::asio_network network_;
  blueprint plan_;
  std::optional<played_coordinator> coordinator_;
  std::optional<detail::server_process> server_;
  std::unique_ptr<worker_peer> first_;
};

}  // namespace rubato::test::serving_alone
