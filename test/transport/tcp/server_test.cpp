// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A server and a coordinator among processes that a test plays itself, message by message: who does
// not read, who asks before the server has heard of it, who comes and goes.
#include <rubato/transport/tcp/server_node.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <rubato/cluster/blueprint.hpp>
#include <rubato/core/null_mutex.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/link.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/coordinator.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/tcp/agreement.hpp>
#include <rubato/transport/tcp/bodies.hpp>
#include <rubato/transport/tcp/pieces.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "net/ends.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

using counting = dense<std::int64_t, sum>;

constexpr worker_id first_worker{0};
constexpr worker_id second_worker{1};

/// Without heartbeats, which would take along what somebody has forgotten to send.
constexpr std::chrono::seconds long_silence{60};
net::link::options without_heartbeats() {
  net::link::options o;
  o.silence = long_silence;
  return o;
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

  worker_peer(net::reactor& where, net::address const& server, net::hello const& said)
      : link_(where, *this, without_heartbeats(), "the server") {
    link_.dial(server, {}, said, 10s);
  }
  worker_peer(net::reactor& where, net::address const& server, std::uint32_t process,
              std::uint64_t session = usual_session)
      : worker_peer(where, server, hello_of(process, session)) {}
  [[nodiscard]] static net::hello hello_of(std::uint32_t process,
                                           std::uint64_t session = usual_session) {
    net::hello h;
    h.number = process;
    h.session = session + process;
    return h;
  }

  [[nodiscard]] bool is_up() const noexcept { return link_.is_up(); }
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

  /// For the whole of the table.
  void ask(sender const& from, clock_index clock, commit_cut const* cut = nullptr) {
    wire::frame_header h;
    h.kind = +wire::kind::request;
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
  /// What no server understands.
  void babble() {
    wire::frame_header h;
    h.kind = 99;
    link_.send(h, {});
    link_.flush();
  }
  template <class Message>
  void commit(Message m) {
    link_.send(std::make_shared<detail::commit_frame<Message> const>(std::move(m)));
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
  played_coordinator(net::reactor& where, net::address const& at, bool synchronized)
      : orders_(1, synchronized),
        link_(where, *this, without_heartbeats(), "the server"),
        door_(where, without_heartbeats(),
              [this](auto fresh, auto const& said) { link_.adopt(std::move(fresh), said); }),
        listener_(where, at, {}, listener_limits(),
                  [this](auto fresh) { door_.receive(std::move(fresh)); }) {
    door_.open();
  }

  [[nodiscard]] bool is_up() const noexcept { return link_.is_up(); }
  [[nodiscard]] stage_id stage() const noexcept { return stage_; }
  [[nodiscard]] sender identity(worker_id w) const noexcept { return {w, incarnation_id{0}, stage_}; }
  [[nodiscard]] stable_cuts& cuts() noexcept { return orders_.cuts(); }
  [[nodiscard]] bool has_started(worker_id w) const { return started_.contains(w); }

  void begin_stage() {
    say(wire::welcome{.process = 0, .incarnation = 0, .workers = 1, .servers = {}});
    stage_ = stage_id{1};
    orders_.begin_stage(stage_);
    say(wire::begin_stage{stage_});
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
  static net::listener::options listener_limits() {
    net::listener::options o;
    o.silence = long_silence;
    return o;
  }
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
  net::listener listener_;
};

/// A server in a run of two workers, in processes of their own. All of it in one thread.
template <protocol P>
class played_run {
 public:
  using plan = blueprint<null_mutex, P, counting>;

  played_run(P p, std::size_t rows, std::uint64_t held_max = std::uint64_t{1} << 30)
      : tables_(p, 1, counting{.rows = rows}) {
    net::deployment place;
    place.as = net::role::server;
    place.rank = 0;
    place.coordinator.path = folder_.file("coordinator");
    place.listen = {.host = {}, .path = folder_.file("server")};
    place.silence = long_silence;
    coordinator_.emplace(reactor_, place.coordinator, plan::synchronized);
    server_.emplace(tables_, detail::agreement(tables_), place, 1 << 20, held_max);
    REQUIRE(until([&] { return coordinator_->is_up(); }));
    coordinator_->begin_stage();
    coordinator_->join(first_worker);
    REQUIRE(until([&] { return coordinator_->has_started(first_worker); }));
    first_ = connected(reactor_, first_worker);
  }
  ~played_run() {
    coordinator_->shut_down();
    (void)until([&] { return false; }, 20ms);
  }

  [[nodiscard]] bool until(std::function<bool()> const& condition, std::chrono::milliseconds limit = 10s) {
    auto const end = net::reactor::clock::now() + limit;
    while (!condition()) {
      if (net::reactor::clock::now() > end) return false;
      server_->poll();
      reactor_.run_one(net::reactor::clock::now() + 1ms);
    }
    return true;
  }
  /// The server and the others do what they can for now.
  void settle() { (void)until([] { return false; }, 50ms); }

  [[nodiscard]] std::unique_ptr<worker_peer> connected(net::reactor& where, worker_id w) {
    auto made = dialling(where, worker_peer::hello_of(w.value()));
    REQUIRE(until([&] {
      where.poll();
      return made->is_up();
    }));
    return made;
  }
  /// A worker process that the server has yet to let in.
  [[nodiscard]] std::unique_ptr<worker_peer> dialling(net::reactor& where, net::hello const& said) {
    return std::make_unique<worker_peer>(where, server_->bound(), said);
  }
  /// It pushes a one to every element.
  void commit(worker_peer& from, worker_id w, clock_index stamp) {
    auto part = tables_.template pool<0>().take();
    part->whole = true;
    part->rows.clear();
    part->values.assign(static_cast<std::size_t>(tables_.template spec<0>().rows), 1);
    from.commit(typename plan::message{to().identity(w), stamp, version_index{stamp.value()}, {part}});
  }

  [[nodiscard]] played_coordinator& to() { return *coordinator_; }
  [[nodiscard]] worker_peer& first() { return *first_; }
  [[nodiscard]] server_stats const& stats() const { return server_->stats(); }
  [[nodiscard]] net::address server_address() const { return server_->bound(); }
  [[nodiscard]] net::reactor& reactor() { return reactor_; }

 private:
  test::temporary_folder folder_;
  net::reactor reactor_;
  plan tables_;
  std::optional<played_coordinator> coordinator_;
  std::optional<detail::server_node<plan>> server_;
  std::unique_ptr<worker_peer> first_;
};

}  // namespace

// ---- answers that nobody reads

TEST_CASE("server: who asks on and does not read the answers is cut off, and the others go on",
          "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 1 << 20;  // 8 MB
  played_run run(bsp{}, rows);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::reactor idle;  // reads while it is connected, and then no more
  auto const glutton = run.connected(idle, second_worker);

  // 64 MB, and the table twice for each worker and whoever looks on.
  constexpr std::uint64_t allowed = 8 + 2 * 3;
  for (std::uint64_t i = 0; i < 3 * allowed; ++i)
    glutton->ask(run.to().identity(second_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.stats().connections_lost == 1; }));
  CHECK_THAT(log.warnings(), Contains("worker process 1: more comes, but ") &&
                                 Contains(" bytes of answers have not been read"));
  CHECK(run.stats().reads >= allowed);
  CHECK(run.stats().reads <= allowed + 2);

  run.first().ask(run.to().identity(first_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
  run.commit(run.first(), first_worker, clock_index{0});
  run.first().ask(run.to().identity(first_worker), clock_index{1});
  REQUIRE(run.until([&] { return run.stats().reads_waiting == 1; }));  // the barrier holds
  run.to().lose(second_worker);
  REQUIRE(run.until([&] { return run.first().answers().size() == 2; }));
  CHECK(run.first().values(1) == std::vector<std::int64_t>(rows, 1));

  REQUIRE(run.until([&] {
    idle.poll();
    return !glutton->lost_for().empty();
  }));
  CHECK_THAT(glutton->lost_for(), Contains("have not been read") || Contains("given up as lost"));
  CHECK(glutton->answers().size() < allowed);
}

TEST_CASE("server: who commits far ahead of the others is cut off, and they go on", "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 8;
  constexpr std::uint64_t held_max = 1 << 20;
  played_run run(bsp{}, rows, held_max);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::reactor its_own;
  auto const runaway = run.connected(its_own, second_worker);

  // Each counts as its 64 bytes and what it takes to keep it.
  constexpr std::uint64_t allowed = held_max / (256 + 64);
  for (std::uint64_t i = 0; i < 2 * allowed; ++i) {
    run.commit(*runaway, second_worker, clock_index{static_cast<std::int64_t>(i)});
    its_own.poll();
  }
  REQUIRE(run.until([&] {
    its_own.poll();
    return run.stats().connections_lost == 1;
  }));
  CHECK_THAT(log.warnings(), Contains("worker process 1: ") &&
                                 Contains("bytes of commits are ahead of what the slowest worker"));
  CHECK(run.stats().commits >= allowed);
  CHECK(run.stats().commits < allowed + allowed / 8);

  run.commit(run.first(), first_worker, clock_index{0});
  run.to().lose(second_worker);
  run.first().ask(run.to().identity(first_worker), clock_index{1});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
}

TEST_CASE("server: who was given up is not counted among those who are connected", "[tcp]") {
  test::log_capture const log;
  played_run run(bsp{}, 8);
  run.to().join(second_worker);
  net::reactor its_own;
  auto const given_up = run.connected(its_own, second_worker);
  REQUIRE(run.until([&] { return run.stats().connections == 2; }));
  run.to().lose(second_worker);
  REQUIRE(run.until([&] { return run.stats().connections_lost == 1; }));
  CHECK(run.until([&] { return run.stats().connections == 1; }));
}

TEST_CASE("server: who keeps up may commit as much as it likes", "[tcp]") {
  played_run run(bsp{}, 8, 1 << 16);
  std::uint64_t const commits = 4 * (1 << 16) / 256;
  for (std::uint64_t i = 0; i < commits; ++i) {
    run.commit(run.first(), first_worker, clock_index{static_cast<std::int64_t>(i)});
    if (i % 64 == 0) run.settle();
  }
  REQUIRE(run.until([&] { return run.stats().commits == commits; }));
  CHECK(run.stats().connections_lost == 0);
}

TEST_CASE("server: what the protocol lets a worker send is kept, and no more", "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 8192;
  constexpr std::uint64_t held_max = 16;  // less than one commit
  std::int64_t const staleness = GENERATE(3, 20);
  played_run run(with(ssp{.staleness = staleness}, stable_cut{}), rows, held_max);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::reactor its_own;
  auto const ahead = run.connected(its_own, second_worker);
  auto const has = [&](std::uint64_t commits) {
    return run.until([&] {
      its_own.poll();
      return run.stats().commits == commits;
    });
  };
  std::int64_t const allowed = staleness + 2;  // one is on its way when it waits
  for (std::int64_t i = 0; i < allowed; ++i) run.commit(*ahead, second_worker, clock_index{i});
  REQUIRE(has(static_cast<std::uint64_t>(allowed)));
  CHECK(run.stats().connections_lost == 0);
  for (std::int64_t i = allowed; i < allowed + 2; ++i) run.commit(*ahead, second_worker, clock_index{i});
  REQUIRE(run.until([&] {
    its_own.poll();
    return run.stats().connections_lost == 1;
  }));
}

TEST_CASE("server: all processes of a large run may wait at its door", "[tcp]") {
  constexpr std::uint32_t many = 300;
  test::log_capture const log;
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::server;
  place.rank = 0;
  place.workers = many;
  place.coordinator.path = folder.file("coordinator");  // which is not there yet
  place.listen = {.host = {}, .path = folder.file("server")};
  place.silence = long_silence;
  blueprint<null_mutex, bsp, counting> const tables(bsp{}, 1, counting{.rows = 8});
  detail::server_node server(tables, detail::agreement(tables), place, 1 << 20);
  net::reactor reactor;
  std::vector<std::shared_ptr<void>> attempts;
  std::vector<std::unique_ptr<net::connection>> made;
  for (std::uint32_t i = 0; i < many; ++i)
    attempts.push_back(net::connect(reactor, server.bound(), {}, without_heartbeats(),
                                    [&](auto fresh, auto const&, bool) { made.push_back(std::move(fresh)); }));
  REQUIRE(test::run_until(reactor, [&] {
    server.poll();
    return made.size() == many;
  }));
  server.poll();
  CHECK(std::ranges::none_of(made, [](auto const& one) { return one == nullptr; }));
  CHECK(log.warnings() == "");
}

TEST_CASE("server: who was sent away is known when it comes back, and may come as another", "[tcp]") {
  test::log_capture const log;
  played_run run(bsp{}, 8);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::reactor its_own;
  auto const lost = [&](worker_peer const& w) {
    return run.until([&] {
      its_own.poll();
      return !w.lost_for().empty();
    });
  };
  {
    auto const odd = run.connected(its_own, second_worker);
    run.commit(*odd, second_worker, clock_index{0});
    odd->ask(run.to().identity(second_worker), clock_index{1});  // waits for the other worker
    REQUIRE(run.until([&] { return run.stats().reads_waiting == 1; }));
    odd->babble();
    REQUIRE(lost(*odd));
    CHECK_THAT(odd->lost_for(), Contains("a frame of kind 99"));
  }
  worker_peer again(its_own, run.server_address(), second_worker.value());  // the same session
  REQUIRE(lost(again));
  CHECK_THAT(again.lost_for(), Contains("given up as lost"));
  run.commit(run.first(), first_worker, clock_index{0});
  run.settle();  // the question is gone with who asked
  worker_peer anew(its_own, run.server_address(), second_worker.value(), 500);
  REQUIRE(run.until([&] {
    its_own.poll();
    return anew.is_up();
  }));
  anew.ask(run.to().identity(second_worker), clock_index{1});
  REQUIRE(run.until([&] {
    its_own.poll();
    return anew.answers().size() == 1;
  }));
  CHECK(anew.values(0) == std::vector<std::int64_t>(8, 2));
}

TEST_CASE("server: who asks again while it waits is answered once, for what it asked last", "[tcp]") {
  played_run run(bsp{}, 8);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::reactor its_own;
  auto const other = run.connected(its_own, second_worker);
  run.commit(run.first(), first_worker, clock_index{0});
  for (int i = 0; i < 100; ++i) run.first().ask(run.to().identity(first_worker), clock_index{1});
  run.settle();
  CHECK(run.stats().reads_waiting == 1);
  run.commit(*other, second_worker, clock_index{0});
  REQUIRE(run.until([&] {
    its_own.poll();
    return !run.first().answers().empty();
  }));
  run.settle();
  REQUIRE(run.first().answers().size() == 1);
  CHECK(run.first().answers().front().header.sequence == 100);
}

TEST_CASE("server: who reads the answers may ask on", "[tcp]") {
  played_run run(bsp{}, 1 << 20);
  for (std::size_t i = 1; i <= 30; ++i) {
    run.first().ask(run.to().identity(first_worker), clock_index{0});
    REQUIRE(run.until([&] { return run.first().answers().size() == i; }));
  }
  CHECK(run.stats().connections_lost == 0);
}

// ---- who is let in

TEST_CASE("server: a second session of a worker process that is here is refused, and the first goes on",
          "[tcp]") {
  played_run run(asp{}, 5);
  auto said = worker_peer::hello_of(first_worker.value());
  said.session += 1000;
  auto const second = run.dialling(run.reactor(), said);
  REQUIRE(run.until([&] { return second->is_up() || !second->lost_for().empty(); }));
  CHECK_FALSE(second->is_up());
  CHECK_THAT(second->lost_for(), Contains("worker process 0 is here already"));

  run.first().ask(run.to().identity(first_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
  CHECK(run.stats().connections_lost == 0);

  // Another one than the process that is here: its next life, or one of another number.
  bool const lives_again = GENERATE(true, false);
  if (lives_again) ++said.incarnation;
  else said.number = second_worker.value();
  auto const other = run.dialling(run.reactor(), said);
  REQUIRE(run.until([&] { return other->is_up() || !other->lost_for().empty(); }));
  CHECK(other->lost_for() == "");
}

// ---- commits that are refused

TEST_CASE("server: a commit that is refused changes nothing, and its connection goes on", "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 1 << 20;  // 8 MB
  bool const joins_meanwhile = GENERATE(true, false);
  played_run run(asp{}, rows);
  net::reactor its_own;
  auto const stranger = run.connected(its_own, second_worker);
  auto const join = [&] {
    run.to().join(second_worker);
    REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  };
  run.commit(*stranger, second_worker, clock_index{0});
  for (int i = 0; i < 3; ++i) {  // as much as fits into the socket
    its_own.poll();
    run.settle();
  }
  REQUIRE(stranger->answers().empty());
  if (joins_meanwhile) join();
  REQUIRE(run.until([&] {
    its_own.poll();
    return stranger->answers().size() == 1;
  }));
  CHECK(stranger->answers()[0].header.kind == +wire::kind::refused);
  CHECK(run.stats().refused == 1);
  CHECK(run.stats().commits == 0);

  if (!joins_meanwhile) join();
  run.commit(*stranger, second_worker, clock_index{0});
  REQUIRE(run.until([&] {
    its_own.poll();
    return run.stats().commits == 1;
  }));
  run.first().ask(run.to().identity(first_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
  CHECK(run.first().values(0) == std::vector<std::int64_t>(rows, 1));
  CHECK(run.stats().connections_lost == 0);
  CHECK(stranger->lost_for() == "");
}

// ---- a worker that is lost in the middle of a large commit

namespace {

/// A run whose second worker is in the middle of a commit of which the server has folded some.
class half_folded {
 public:
  static constexpr std::size_t rows = 1 << 20;  // 8 MB, and so many windows

  half_folded() {
    run.to().join(second_worker);
    REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
    sender = run.connected(slow, second_worker);
    run.commit(*sender, second_worker, clock_index{0});
    // Only what fits into the socket comes at a time, which is less than a window.
    std::vector<std::int64_t> seen;
    do {
      slow.poll();
      seen = read();
    } while (seen.front() == 0);
    REQUIRE(seen.back() == 0);
  }

  /// What the first worker sees.
  std::vector<std::int64_t> read() {
    std::size_t const before = run.first().answers().size();
    run.first().ask(run.to().identity(first_worker), clock_index{0});
    REQUIRE(run.until([&] { return run.first().answers().size() == before + 1; }));
    return run.first().values(before);
  }
  /// The stage ends, and with it the first worker.
  shard_counters counted() {
    run.to().lose(first_worker);
    run.to().end_stage();
    REQUIRE(run.until([&] { return run.to().counted().has_value(); }));
    return *run.to().counted();
  }

  played_run<asp> run{asp{}, rows};
  net::reactor slow;
  std::unique_ptr<worker_peer> sender;
};

static_assert(half_folded::rows * sizeof(std::int64_t) > 4 * detail::pieces::window_size);

}  // namespace

TEST_CASE("server: a commit whose worker is lost while it is folded counts as folded in part", "[tcp]") {
  test::log_capture const log;
  half_folded at;
  bool const is_cut = GENERATE(true, false);
  if (is_cut) {
    at.sender->cut();
    REQUIRE(at.run.until([&] { return at.run.stats().connections == 1; }));
  }
  at.run.to().lose(second_worker);
  auto const counted = at.counted();
  CHECK(counted.partly_folded == 1);
  CHECK(counted.commits == 0);
}

TEST_CASE("server: a commit whose worker is given up while it is folded is refused, and counts as folded "
          "in part once",
          "[tcp]") {
  test::log_capture const log;
  half_folded at;
  at.run.to().drop(second_worker);
  at.run.settle();
  REQUIRE(at.run.until([&] {
    at.slow.poll();
    return at.run.stats().refused == 1;
  }));
  at.run.to().lose(second_worker);  // there is nothing half done any more
  auto const counted = at.counted();
  CHECK(counted.partly_folded == 1);
  CHECK(counted.commits == 0);
}

TEST_CASE("server: a commit that breaks off while it is folded and comes again counts as a whole", "[tcp]") {
  test::log_capture const log;
  half_folded at;
  at.sender->cut();
  REQUIRE(at.run.until([&] {
    at.slow.poll();
    return at.run.stats().commits == 1;
  }));
  CHECK(at.read() == std::vector<std::int64_t>(half_folded::rows, 1));
  at.run.to().lose(second_worker);
  auto const counted = at.counted();
  CHECK(counted.partly_folded == 0);
  CHECK(counted.commits == 1);
}

// ---- questions that come before what they go by

namespace {

/// A run under synchronized reads whose first worker has asked for a cut that the server does not
/// hold, so that it waits.
class early_question {
 public:
  static constexpr std::size_t rows = 5;

  void ask_first(shared_cut const& cut) {
    run.first().ask(run.to().identity(first_worker), clock_index{1}, cut.get());
    run.settle();
    CHECK(run.stats().reads_waiting == 1);
    CHECK(run.stats().refused == 0);
    CHECK(run.first().answers().empty());
  }
  void check_answer(std::int64_t expected) {
    REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
    CHECK(run.first().answers()[0].header.kind == +wire::kind::reply);
    CHECK(run.first().values(0) == std::vector<std::int64_t>(rows, expected));
    CHECK(run.stats().reads_waiting == 0);
  }
  void commit_first(std::int64_t stamp) {
    run.commit(run.first(), first_worker, clock_index{stamp});
    auto const commits = run.stats().commits + 1;
    REQUIRE(run.until([&] { return run.stats().commits == commits; }));
  }

  using protocol_type = decltype(with(ssp{}, stable_cut{}));
  played_run<protocol_type> run{with(ssp{.staleness = 3}, stable_cut{}), rows};
};

shared_cut cut_of(std::vector<clock_index> below, clock_index c_min) {
  return std::make_shared<commit_cut const>(std::move(below), c_min);
}

}  // namespace

TEST_CASE("server: a cut that goes by an order still on its way is answered when that is here",
          "[tcp][cut]") {
  early_question at;
  at.commit_first(0);
  at.run.to().start_joiners_at(clock_index{2});
  at.run.to().join(second_worker);
  at.run.to().hold_back();  // the server hears of the worker, and not where it starts
  REQUIRE(at.run.until([&] { return at.run.to().has_held_back(); }));
  at.ask_first(cut_of({clock_index{1}, clock_index{2}}, clock_index{1}));
  at.run.to().let_go();
  at.check_answer(1);
}

TEST_CASE("server: a cut that another worker's commit is missing of is answered when that is here",
          "[tcp][cut]") {
  early_question at;
  at.run.to().join(second_worker);
  REQUIRE(at.run.until([&] { return at.run.to().has_started(second_worker); }));
  auto const other = at.run.connected(at.run.reactor(), second_worker);
  at.commit_first(0);
  at.ask_first(cut_of({clock_index{1}, clock_index{1}}, clock_index{1}));
  at.run.commit(*other, second_worker, clock_index{0});
  at.check_answer(2);
}

TEST_CASE("server: a question that waits for a cut may come again, over the next connection or the same",
          "[tcp][cut]") {
  test::log_capture const log;  // of the cut
  bool const cuts = GENERATE(true, false);
  early_question at;
  at.run.to().join(second_worker);
  REQUIRE(at.run.until([&] { return at.run.to().has_started(second_worker); }));
  auto const other = at.run.connected(at.run.reactor(), second_worker);
  auto const cut = cut_of({clock_index{0}, clock_index{1}}, clock_index{0});
  at.ask_first(cut);
  if (cuts) {
    at.run.first().cut();
    REQUIRE(at.run.until([&] { return at.run.first().is_up(); }));
  }
  at.ask_first(cut);
  at.run.commit(*other, second_worker, clock_index{0});
  at.check_answer(1);
  at.run.settle();
  CHECK(at.run.first().answers().size() == 1);
}
