// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What a coordinator makes of those that do not do their part.
#include <rubato/transport/processes/coordinator_process.hpp>

#include <catch2/catch.hpp>

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
#include <rubato/core/rare.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/link.hpp>
#include <rubato/net/log.hpp>
#include <rubato/net/network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/conductor.hpp>
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/processes/coordinator_link.hpp>
#include <rubato/transport/processes/past_sessions.hpp>
#include <rubato/wire/control.hpp>
#include <rubato/wire/messages.hpp>

#include "net/certificates.hpp"
#include "net/ends.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

constexpr char const* agreed = "played";

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
  test::temporary_folder folder_;
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
      : link_(where, *this, limits(silence, as), "the coordinator") {
    net::hello h;
    h.as = as;
    h.session = session;
    link_.dial(to, {}, h, 10s);
  }
  void register_itself(net::role as = net::role::worker) {
    register_itself({.as = as, .rank = std::nullopt, .listens = {}, .agreed = agreed, .pid = 0});
  }
  void register_itself(wire::registration const& self) { say(self); }
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

/// Holds up who tells it that a worker starts.
class halting_conductor final : public idle_conductor {
 public:
  halting_conductor(std::atomic<bool>& stands_still, std::atomic<bool> const& goes_on)
      : stands_still_(stands_still), goes_on_(goes_on) {}
  void join(worker_id, clock_index, time_point, orders&) {
    stands_still_ = true;
    while (!goes_on_) std::this_thread::sleep_for(1ms);
  }

 private:
  std::atomic<bool>& stands_still_;
  std::atomic<bool> const& goes_on_;
};

}  // namespace

namespace {

/// Hears what is logged, in the thread that says it.
struct log_listener {
  explicit log_listener(std::function<void(std::string_view)> hear) {
    net::set_log([hear = std::move(hear)](net::log_level, std::string_view line) { hear(line); });
  }
  log_listener(log_listener const&) = delete;
  log_listener& operator=(log_listener const&) = delete;
  ~log_listener() { net::set_log({}); }
};

}  // namespace

namespace {
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
}  // namespace

TEST_CASE("coordinator: two servers whose merges differ in a number do not run together", "[tcp]") {
  auto const said = [](double lambda) {
    return blueprint(con_sgd{.fold = {.lambda = lambda}}, 2, {describe(dense<float>{.rows = 4})}).agreement();
  };
  std::atomic<bool> is_first_in = false;
  log_listener const log([&](std::string_view line) { is_first_in = is_first_in || line.ends_with(" is here"); });
  coordinated const run(5s);
  net::asio_network network;
  member const first(network, run.place(), net::role::server, said(0.25));
  REQUIRE(test::run_until(network, [&] { return is_first_in.load(); }));
  member const second(network, run.place(), net::role::server, said(0.2500001));
  CHECK(test::run_until(network, [&] { return !second.lost_for().empty(); }));
  CHECK_THAT(second.lost_for(), Contains("a server (process ") && Contains(" than server 0 (process ") &&
                                       Contains(": it says \"merge of table 0: scale") && !Contains("admission"));
}

TEST_CASE("coordinator: a flood of processes that are refused does not fill the log", "[tcp]") {
  shared_log const log;
  coordinated const run(5s, asp{}, std::make_unique<net::asio_network>(), 1);
  net::asio_network network;
  member const first(network, run.place(), net::role::worker, "something else");
  REQUIRE(test::run_until(network, [&] { return first.has_arrived(); }));
  std::vector<std::unique_ptr<stranger>> flood;
  for (std::uint64_t n = 0; n < 400; ++n) {
    flood.push_back(std::make_unique<stranger>(network, run.place().coordinator, n));
    flood.back()->register_itself();
    if (n % 20 == 0) CHECK(test::run_until(network, [&] { return !flood.back()->lost_for().empty(); }));
  }
  for (auto const& one : flood) {
    CHECK(test::run_until(network, [&] { return !one->lost_for().empty(); }));
    CHECK_THAT(one->lost_for(), Contains("expected \"something else\""));  // each is told
  }
  CHECK_THAT(log.lines(), Contains("process 0 was refused: a worker (process 0) runs another protocol"));
  CHECK_THAT(log.lines(), Contains("refuses more than 32 a second; the rest are not told of singly"));
  CHECK(std::ranges::count(log.lines(), '\n') < 200);
}

// ---- those who do not say who they are

TEST_CASE("coordinator: who has left without saying who it is is forgotten", "[tcp]") {
  coordinated const run(5s);
  net::asio_network network;
  // A session that the coordinator remembered as over would be refused.
  for (int i = 0; i < 5; ++i) {
    stranger guest(network, run.place().coordinator, 77);
    CHECK(test::run_until(network, [&] { return guest.is_up() || !guest.lost_for().empty(); }));
    CHECK(guest.lost_for() == "");
  }
}

TEST_CASE("coordinator: who registers as something else than it said hello as is refused, and others are let in",
          "[tcp]") {
  auto const [shown, claimed] = GENERATE(Catch::Generators::table<net::role, net::role>(
      {{net::role::worker, net::role::server},
       {net::role::worker, net::role::coordinator},
       {net::role::server, net::role::worker}}));
  test::log_capture log;
  {
    coordinated const run(5s);
    net::asio_network network;
    stranger guest(network, run.place().coordinator, 77, 5s, shown);
    guest.register_itself(claimed);
    CHECK(test::run_until(network, [&] { return !guest.lost_for().empty(); }));
    CHECK_FALSE(guest.is_in());
    CHECK_THAT(guest.lost_for(), Contains(std::string("a process that said hello as a ") + to_string(shown) +
                                          " registers as a " + to_string(claimed)));
    member const server(network, run.place(), net::role::server);
    member const worker(network, run.place(), net::role::worker);
    CHECK(test::run_until(network, [&] { return worker.is_in(); }));
  }
  CHECK_THAT(log.warnings(), Contains("registers as a "));
}

namespace {

/// A run whose processes show certificates of one authority.
class certified_run {
 public:
  certified_run()
      : run_(5s, asp{}, std::make_unique<net::asio_network>(), 2, keys("coordinator", "rubato:coordinator")) {}

  /// For a process with a certificate for this.
  [[nodiscard]] net::deployment place(std::string const& uri, std::optional<std::uint32_t> rank) const {
    net::deployment own = run_.place();
    own.rank = rank;
    own.keys = keys("member", uri);
    return own;
  }

 private:
  [[nodiscard]] net::security keys(std::string const& name, std::string const& uri) const {
    auto const who = test::make_identity(authority_, name + ".test", 30, ",URI:" + uri);
    auto const file = [&](char const* what) { return folder_.file(name + what); };
    test::write_certificate(authority_, file("-authority"));
    test::write_certificate(who, file("-certificate"));
    test::write_key(who, file("-key"));
    return {.token = {}, .tls = net::tls_files{file("-certificate"), file("-key"), file("-authority")}};
  }

  test::temporary_folder folder_;
  test::identity authority_ = test::make_authority("Authority of the tests");
  coordinated run_;
};

}  // namespace

TEST_CASE("coordinator: a certificate is for its number, and the others' run goes on", "[tcp]") {
  using rank_of = std::optional<std::uint32_t>;
  auto const [uri, rank, why] = GENERATE(Catch::Generators::table<std::string, rank_of, std::string>(
      {{"rubato:worker/1", 0, "the certificate of this worker is for worker 1 only, and not for worker 0"},
       {"rubato:worker/1", std::nullopt,
        "the certificate of this worker is for worker 1 only, so it must ask for its number (RANK)"},
       {"rubato:server", 1, "the certificate of this worker is for a server only"}}));
  test::log_capture log;
  {
    certified_run const run;
    net::asio_network network;
    member const wrong(network, run.place(uri, rank), net::role::worker);
    CHECK(test::run_until(network, [&] { return !wrong.lost_for().empty(); }));
    CHECK_THAT(wrong.lost_for(), Contains(why));
    member const server(network, run.place("rubato:server/0", 0), net::role::server);
    member const first(network, run.place("rubato:worker", std::nullopt), net::role::worker);
    member const second(network, run.place("rubato:worker/1", 1), net::role::worker);
    CHECK(test::run_until(network, [&] { return first.is_in() && second.is_in(); }));
    CHECK(first.number() == 0);
    CHECK(second.number() == 1);
  }
  CHECK_THAT(log.warnings(), Contains(why));
}

TEST_CASE("coordinator: a session is one role's", "[tcp]") {
  test::log_capture const log;
  coordinated const run(5s);
  net::asio_network network;
  stranger worker(network, run.place().coordinator, 77);
  worker.register_itself();
  REQUIRE(test::run_until(network, [&] { return worker.is_up() && worker.has_arrived(); }));
  stranger const intruder(network, run.place().coordinator, 77, 5s, net::role::server);
  CHECK(test::run_until(network, [&] { return !intruder.lost_for().empty(); }));
  CHECK_THAT(intruder.lost_for(), Contains("this session is a worker process's, and not a server's"));
  CHECK(worker.is_up());
  CHECK(worker.lost_for() == "");
}

TEST_CASE("coordinator: who is here and does not say who it is is sent away in time", "[tcp]") {
  coordinated const run(400ms);  // and as long for a handshake; a link says more often that it is here
  net::asio_network network;
  stranger guest(network, run.place().coordinator, 77, run.place().silence);
  CHECK(test::run_until(network, [&] { return !guest.lost_for().empty(); }));
  CHECK_THAT(guest.lost_for(), Contains("did not say in time who it is"));
}

TEST_CASE("coordinator: whose links break before it has said who it is has as long again", "[tcp]") {
  coordinated const run(400ms);
  net::asio_network network;
  stranger guest(network, run.place().coordinator, 77, run.place().silence);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(test::run_until(network, [&] { return guest.is_up(); }));
    CHECK_FALSE(test::run_until(network, [&] { return !guest.lost_for().empty(); }, 150ms));
    guest.cut();
  }
  guest.register_itself();
  CHECK(test::run_until(network, [&] { return guest.is_up() && guest.has_arrived(); }));
  CHECK_FALSE(test::run_until(network, [&] { return !guest.lost_for().empty(); }, 600ms));  // it is somebody now
  CHECK(guest.lost_for() == "");
}

TEST_CASE("coordinator: who never says who it is is sent away, however often its links break", "[tcp]") {
  coordinated const run(300ms);
  net::asio_network network;
  stranger guest(network, run.place().coordinator, 77, run.place().silence);
  auto const end = net::network::clock::now() + 40s;  // a coordinator that a busy machine lets stand still counts anew
  while (guest.lost_for().empty() && net::network::clock::now() < end) {
    if (guest.is_up()) guest.cut();
    (void)test::run_until(network, [&] { return !guest.lost_for().empty(); }, 50ms);
  }
  CHECK_THAT(guest.lost_for(), Contains("did not say in time who it is") || Contains("was given up as lost"));
}

TEST_CASE("coordinator: who said in time who it is is let in, however long the coordinator stood still",
          "[tcp]") {
  constexpr std::chrono::milliseconds in_time = 1s;
  std::atomic<bool> stands_still = false;
  std::atomic<bool> goes_on = false;
  conducted_by<halting_conductor> const pace([&] { return halting_conductor(stands_still, goes_on); });
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(in_time, with(asp{}, pace), std::make_unique<hurried_network>(ahead));
  net::asio_network network;
  member const server(network, run.place(), net::role::server);
  member worker(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return worker.is_in(); }));
  stranger late(network, run.place().coordinator, 77, in_time);
  REQUIRE(test::run_until(network, [&] { return late.is_up(); }));
  worker.say(wire::ready{1, false, 0, false});
  bool const stood_still = test::run_until(network, [&] { return stands_still.load(); });
  late.register_itself();
  ahead = in_time + 100ms;
  goes_on = true;
  REQUIRE(stood_still);
  REQUIRE(test::run_until(network, [&] { return late.is_in() || !late.lost_for().empty(); }));
  CHECK(late.lost_for() == "");
}

TEST_CASE("coordinator: of those who have been here nothing is kept but the last sessions", "[tcp]") {
  test::log_capture const log;
  coordinated run(5s);
  net::asio_network network;
  constexpr std::uint64_t lives = 1000;
  for (std::uint64_t life = 1; life <= lives; ++life) {
    stranger guest(network, run.place().coordinator, life);
    guest.register_itself();
    REQUIRE(test::run_until(network, [&] { return guest.is_up() && guest.has_arrived(); }));
  }
  {
    stranger again(network, run.place().coordinator, 7);
    CHECK(test::run_until(network, [&] { return !again.lost_for().empty(); }));
    CHECK_THAT(again.lost_for(), Contains("it can only start anew"));
  }
  CHECK(run.links() <= 2);  // of the last one it may not have heard
}

TEST_CASE("past_sessions: they are known until many others have come") {
  detail::past_sessions past;
  for (std::uint64_t n = 0; n < 3 * detail::past_sessions::most; ++n) past.remember(n);
  CHECK(past.size() == detail::past_sessions::most);
  CHECK(past.contains(3 * detail::past_sessions::most - 1));
  CHECK(past.contains(2 * detail::past_sessions::most));
  CHECK_FALSE(past.contains(2 * detail::past_sessions::most - 1));
}

// ---- those who do not take what they are told

namespace {

/// Orders a megabyte as often as it is asked, as soon as there is a worker and until it has left; but
/// not without end.
class talkative_conductor final : public idle_conductor {
 public:
  static constexpr int most = 100;

  explicit talkative_conductor(std::atomic<int>& ordered) : ordered_(ordered) {}
  void join(worker_id w, clock_index, time_point, orders&) { to_ = w; }
  void leave(worker_id) { to_.reset(); }
  void tick(time_point, orders& out) {
    ++ordered_;
    out.push_back({*to_, {}});
  }
  [[nodiscard]] time_point next_tick() const noexcept {
    return to_ && ordered_ < most ? time_point{} : time_point::max();
  }

 private:
  std::atomic<int>& ordered_;
  std::optional<worker_id> to_;
};

}  // namespace

TEST_CASE("coordinator: who does not take what it is told is given up as lost, and the servers hear of it",
          "[tcp]") {
  test::log_capture const log;
  constexpr int allowed = 64;
  std::atomic<int> ordered = 0;
  {
    conducted_by<talkative_conductor> const pace([&] { return talkative_conductor(ordered); });
    coordinated const run(60s, with(asp{}, pace));
    net::asio_network network;
    member const server(network, run.place(), net::role::server);
    net::asio_network its_own;
    member worker(its_own, run.place(), net::role::worker);
    REQUIRE(test::run_until(network, [&] {
      its_own.poll();
      return worker.is_in();
    }));
    worker.say(wire::ready{1, false, 0, false});  // and reads no more
    // Without optimising, under sanitizers, it takes a while to write 64 MB.
    CHECK(test::run_until(network, [&] { return server.has_heard<wire::expel>(); }, 2min));
  }
  CHECK(ordered == allowed);
  CHECK_THAT(log.warnings(), Contains("worker 0 was lost: it does not take what it is told"));
}

// ---- those who wait before the first run

TEST_CASE("coordinator: who is not there any more does not keep out who has other tables", "[tcp]") {
  coordinated const run(60s);
  net::asio_network network, its_own;
  std::optional<stranger> first(std::in_place, its_own, run.place().coordinator, 77);
  first->register_itself();
  REQUIRE(test::run_until(its_own, [&] { return first->is_up() && first->has_arrived(); }));
  std::string const now = GENERATE("is there", "has left", "has a broken connection");
  INFO(now);
  if (now == "has left") first.reset();
  if (now == "has a broken connection") first->cut();  // and is not heard of
  member right(network, run.place(), net::role::server, "something else");
  CHECK(test::run_until(network, [&] {
    if (now == "is there") its_own.poll();
    return right.is_in() || !right.lost_for().empty();
  }));
  CHECK(right.is_in() == (now != "is there"));
  if (now == "is there")
    CHECK_THAT(right.lost_for(),
               Contains("than worker 0 (process 0): it says \"something else\"; expected \"played\""));
}

TEST_CASE("coordinator: who comes in the place of one whose connection is broken waits until that is given up",
          "[tcp]") {
  shared_log const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead));
  net::asio_network network, its_own, elsewhere;
  stranger known(its_own, run.place().coordinator, 77);
  known.register_itself();
  REQUIRE(test::run_until(its_own, [&] { return known.is_up() && known.has_arrived(); }));
  known.cut();  // and it may come back, for as long as a handshake takes
  std::optional<member> newcomer(std::in_place, network, run.place(), net::role::worker, agreed, 0U);
  auto const waits = [&] { return log.lines().find("worker 0 has come anew (process ") != std::string::npos; };
  REQUIRE(test::run_until(network, waits));
  SECTION("and is let in then") {
    member const server(network, run.place(), net::role::server);  // whose address workers are told
    REQUIRE(test::run_until(network, [&] { return server.has_heard<wire::admission>() || server.is_in(); }));
    CHECK_FALSE(newcomer->is_in());
    ahead = 10s;
    stranger const another(network, run.place().coordinator, 78);  // it looks at the time when it hears something
    CHECK(test::run_until(network, [&] { return newcomer->is_in(); }));
  }
  SECTION("or it is back") {
    CHECK(test::run_until(its_own, [&] { return known.is_up(); }));
    CHECK(test::run_until(network, [&] { return !newcomer->lost_for().empty(); }));
    CHECK_THAT(newcomer->lost_for(), Contains("worker 0 is here already"));
    CHECK(known.lost_for() == "");
  }
  SECTION("one for each place") {
    member const second(elsewhere, run.place(), net::role::worker, agreed, 0U);
    CHECK(test::run_until(elsewhere, [&] { return !second.lost_for().empty(); }));
    CHECK_THAT(second.lost_for(), Contains(", waits to become worker 0, whose connection is broken"));
    CHECK(newcomer->lost_for() == "");
    newcomer.reset();
    std::optional<member> third;
    auto const is_waiting = [&] { return log.lines().find("come anew") != log.lines().rfind("come anew"); };
    CHECK(test::run_until(elsewhere, [&] {  // the coordinator may not have heard yet that the first has left
      if (!third || !third->lost_for().empty())
        third.emplace(elsewhere, run.place(), net::role::worker, agreed, 0U);
      return is_waiting();
    }));
  }
}

TEST_CASE("coordinator: who was told to come again and did not hear it is told once more, also after the end",
          "[tcp]") {
  auto const told = [] {
    auto const all = rare_paths();
    return std::ranges::find(all, "a process was told to come again", &rare_count::what)->times;
  };
  coordinated const run(5s, asp{}, std::make_unique<net::asio_network>(), 1, {}, 20s);
  net::asio_network network, of_server, its_own;
  member server(of_server, run.place(), net::role::server);
  member worker(network, run.place(), net::role::worker);
  auto const serve = [&] { of_server.run_one(net::network::clock::now() + 1ms); };
  REQUIRE(test::run_until(network, [&] { return serve(), worker.is_in(); }));
  worker.say(wire::ready{});
  stage_id const stage{1};
  REQUIRE(test::run_until(network, [&] { return serve(), worker.has_heard<wire::worker_starts>(); }));
  worker.say(wire::worker_ended{stage, worker_id{0}, clock_index{0}, {}});
  REQUIRE(test::run_until(network, [&] { return serve(), server.has_heard<wire::end_stage>(); }));
  server.say(wire::stage_over{stage, {}, 0});
  REQUIRE(test::run_until(network, [&] { return worker.has_heard<wire::run_over>(); }));
  worker.say(wire::farewell{});
  REQUIRE(test::run_until(network, [&] { return worker.has_arrived(); }));
  std::uint64_t const before = told();  // it is over, but the server does not read that
  auto const [number, life] = network.process();
  wire::registration next{.as = net::role::worker, .rank = 0U, .listens = {}, .agreed = agreed, .pid = number};
  next.life = life;
  stranger early(its_own, run.place().coordinator, 77);
  REQUIRE(test::run_until(its_own, [&] { return early.is_up(); }));
  early.register_itself(next);
  while (told() == before) std::this_thread::yield();
  early.cut();
  CHECK(test::run_until(its_own, [&] { return early.is_in() || !early.lost_for().empty(); }));
  CHECK(early.is_in());
  CHECK_THAT(early.lost_for(), !Contains("given up"));
}

TEST_CASE("coordinator: who shows the key of its place is let in at once, started again", "[tcp]") {
  std::atomic<int> let_in = 0, kept_waiting = 0;
  log_listener const log([&](std::string_view line) {
    let_in += line == "worker 0 is here" ? 1 : 0;
    kept_waiting += line.starts_with("worker 0 has come anew") ? 1 : 0;
  });
  coordinated const run(60s);
  net::asio_network network, its_own;
  stranger first(its_own, run.place().coordinator, 77), again(network, run.place().coordinator, 78);
  wire::secret const none{}, key{1, 2, 3}, other_key{1, 2, 4};
  auto const [had, shown, is_same] = GENERATE_COPY(Catch::Generators::table<wire::secret, wire::secret, bool>(
      {{key, key, true}, {key, other_key, false}, {key, none, false}, {none, none, false}}));
  wire::registration self{.as = net::role::worker, .rank = 0U, .listens = {}, .agreed = agreed, .pid = 0};
  self.place_key = had;
  first.register_itself(self);
  REQUIRE(test::run_until(its_own, [&] { return let_in == 1; }));
  first.cut();
  self.place_key = shown;
  again.register_itself(self);
  CHECK(test::run_until(network, [&] { return let_in + kept_waiting == 2; }));
  CHECK(let_in == (is_same ? 2 : 1));
}

TEST_CASE("coordinator: it says for whom it waits, and then that patience is over", "[tcp]") {
  shared_log const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead), 2);
  net::asio_network network;
  member const server(network, run.place(), net::role::server);
  member worker(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return worker.is_in(); }));
  member const unready(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return unready.is_in(); }));
  worker.say(wire::ready{1, false, 0, false});
  REQUIRE(test::run_until(network, [&] { return worker.has_arrived(); }));
  ahead = 10s;
  worker.say(wire::end_run{});  // of no run; it looks at the time when it hears something
  CHECK(test::run_until(network, [&] { return log.lines().find("waiting for") != std::string::npos; }));
  CHECK(log.lines() == "waiting for worker 1 (here, but not ready)\n");
  ahead = 90s;
  worker.say(wire::end_run{});
  CHECK(test::run_until(network, [&] { return worker.has_heard<wire::stop_run>(); }));
  CHECK(worker.told_last() == "after 60 s the run waits for worker 1 (here, but not ready)");
}

TEST_CASE("coordinator: the first run waits for those whose connection is broken", "[tcp]") {
  shared_log const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead), 2, {}, 60s);
  net::asio_network network, its_own;
  member const server(network, run.place(), net::role::server);
  stranger cut_off(its_own, run.place().coordinator, 77);
  cut_off.register_itself({.as = net::role::worker, .rank = 0U, .listens = {}, .agreed = agreed, .pid = 0});
  cut_off.say(wire::ready{1, false, 0, false});
  REQUIRE(test::run_until(its_own, [&] { return cut_off.is_up() && cut_off.has_arrived(); }));
  cut_off.cut();
  auto const logged = [&](char const* text) { return log.lines().find(text) != std::string::npos; };
  REQUIRE(test::run_until(network, [&] { return logged("may come back"); }));
  member other(network, run.place(), net::role::worker);
  other.say(wire::ready{1, false, 0, false});
  REQUIRE(test::run_until(network, [&] { return other.is_in() && other.has_arrived(); }));
  ahead = 4s;
  other.say(wire::end_run{});  // of no run; it looks at the time when it hears something
  CHECK(test::run_until(network, [&] { return logged("waiting for"); }));
  CHECK(logged("waiting for worker 0 (here, but its connection is broken)\n"));
  CHECK_FALSE(other.has_heard<wire::worker_starts>());
  CHECK(test::run_until(its_own, [&] { return cut_off.is_up(); }));
  CHECK(test::run_until(network, [&] { return other.has_heard<wire::worker_starts>(); }));
}

TEST_CASE("coordinator: patience is not begun anew by who comes and goes again", "[tcp]") {
  test::log_capture const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead), 2);
  net::asio_network network;
  member const server(network, run.place(), net::role::server);
  member const waiting(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return waiting.is_in(); }));
  auto const look_at_the_time = [&](std::uint64_t session) {  // as it does when it hears something
    stranger const another(network, run.place().coordinator, session);
    REQUIRE(test::run_until(network, [&] { return another.is_up(); }));
  };
  // All are there, and nobody waits, but while it is away: 40 s each time, of 60 s.
  for (int times = 1; times <= 2; ++times) {
    std::optional<member> fickle(std::in_place, network, run.place(), net::role::worker);
    REQUIRE(test::run_until(network, [&] { return fickle->is_in(); }));
    CHECK_FALSE(waiting.has_heard<wire::stop_run>());
    fickle.reset();
    REQUIRE(test::run_until(network, [&] { return server.count<wire::expel>() == times; }));
    look_at_the_time(77);
    ahead = ahead.load() + 40s;
  }
  stranger const another(network, run.place().coordinator, 78);
  REQUIRE(test::run_until(network, [&] { return waiting.has_heard<wire::stop_run>(); }));
  CHECK_THAT(waiting.told_last(), Contains("after 60 s only 1 of 1 servers and 1 of 2 workers are here"));
}

TEST_CASE("coordinator_link: who finds no coordinator says where it looks, and how to start one", "[tcp]") {
  test::log_capture const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  hurried_network network(ahead);
  net::deployment place;
  place.coordinator.path = "/nowhere/coordinator";
  member const alone(network, place, net::role::worker);
  for (int times = 0; times < 3; ++times) {
    network.poll();
    ahead = ahead.load() + 4s;
  }
  network.poll();
  std::string const line = "waiting for the coordinator at unix:/nowhere/coordinator; start this program with "
                           "rubato-launch, or set RUBATO_COORDINATOR";
  CHECK_THAT(log.warnings(), Contains(line));
  CHECK(log.warnings().find(line) != log.warnings().rfind(line));  // again, but not as often as it was asked
  CHECK(std::ranges::count(log.warnings(), '\n') == 2);
}

TEST_CASE("coordinator_link: who has found no coordinator says how long it waited, where, and what to do", "[tcp]") {
  test::log_capture const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  hurried_network network(ahead);
  net::deployment place;
  place.coordinator.path = "/nowhere/coordinator";
  member const alone(network, place, net::role::worker);
  ahead = place.patience;
  REQUIRE(test::run_until(network, [&] { return !alone.lost_for().empty(); }));
  CHECK_THAT(alone.lost_for(), Catch::StartsWith("waited 60 s for the coordinator at unix:/nowhere/coordinator, which "
                                                 "could not be reached: "));
  CHECK_THAT(alone.lost_for(),
             Catch::EndsWith("; start this program with rubato-launch, or set RUBATO_COORDINATOR (or MASTER_ADDR and "
                             "MASTER_PORT) to where it listens, or RUBATO_PATIENCE to how many seconds it may take to "
                             "start"));
}

TEST_CASE("coordinator_link: a coordinator that has answered and goes is lost, and was not absent", "[tcp]") {
  test::log_capture const log;
  net::asio_network network;
  std::optional<coordinated> run(std::in_place, 5s);
  member const left(network, run->place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return left.has_arrived(); }));
  run.reset();
  REQUIRE(test::run_until(network, [&] { return !left.lost_for().empty(); }));
  CHECK_THAT(left.lost_for(), !Contains("waited"));
}
