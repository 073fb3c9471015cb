// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What is logged of those who wait for long.
#include <rubato/transport/processes/long_wait.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/log.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/heeding_admission.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/server/who_waits.hpp>

#include "transport/processes/peers_apart.hpp"
#include "transport/processes/server_process_bench.hpp"
#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace rubato::test::serving_alone;
using namespace std::chrono_literals;
using Catch::Contains;
using detail::long_wait;

namespace {

/// Collects what is logged by any thread while it lives.
class shared_log {
 public:
  shared_log() {
    net::set_log([this](net::log_level, std::string_view line) {
      std::lock_guard const guard(lock_);
      all_ += std::string(line) + "\n";
    });
  }
  shared_log(shared_log const&) = delete;
  shared_log& operator=(shared_log const&) = delete;
  ~shared_log() { net::set_log({}); }
  [[nodiscard]] bool has(std::string_view text) const {
    std::lock_guard const guard(lock_);
    return all_.find(text) != std::string::npos;
  }

 private:
  mutable std::mutex lock_;
  std::string all_;
};

/// Its time goes by when a test says so. Nobody is connected.
class manual_network final : public net::network {
 public:
  std::shared_ptr<void> dial(net::address const&, net::security const&, net::connection_options const&,
                             dialed) override {
    throw std::logic_error("nobody is to be dialed");
  }
  std::unique_ptr<net::listener> listen(net::address const&, net::security const&, net::listener_options const&,
                                        accepted) override {
    throw std::logic_error("nobody is to listen");
  }
  std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override {
    auto handle = std::make_shared<std::function<void()>>(std::move(f));
    timers_.emplace(when, handle);
    return handle;
  }
  [[nodiscard]] clock::time_point now() const override { return now_; }
  void run_one(clock::time_point) override {}
  void poll() override {}
  void interrupt() noexcept override {}
  [[nodiscard]] std::optional<net::address> reached(net::address const&, net::address const&) const override {
    return std::nullopt;
  }

  void go_on_until(clock::time_point end) {
    while (!timers_.empty() && timers_.begin()->first <= end) {
      now_ = timers_.begin()->first;
      auto const f = timers_.begin()->second.lock();
      timers_.erase(timers_.begin());
      if (f) (*f)();
    }
    now_ = end;
  }

 private:
  clock::time_point now_{};
  std::multimap<clock::time_point, std::weak_ptr<std::function<void()>>> timers_;
};

auto lines_in(std::string const& text) { return std::ranges::count(text, '\n'); }

blueprint counted_by(rules const& p) { return {p, 1, {describe(serving_alone::counting{.rows = 4})}}; }

/// Worker 0 is a clock ahead of worker 1, and asks for more.
void get_ahead(played_run& run) {
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  run.commit(run.first(), first_worker, clock_index{0});
  run.first().ask(run.to().identity(first_worker), clock_index{1});
  REQUIRE(run.until([&] { return run.stats().reads_waiting == 1; }));
}

/// The first of two waits for nobody but the second, and the second for nobody.
struct first_heeds_second {
  staleness bound() const noexcept { return 0; }
  clock_index need(clock_index c, staleness) const noexcept { return c; }
  clock_index cache_need(clock_index c, staleness) const noexcept { return c; }
  bool heeds(worker_id reader, worker_id other, clock_index) const noexcept {
    return reader == first_worker && other == second_worker;
  }
};
static_assert(heeding_admission<first_heeds_second>);

/// What is said of worker 0, which asks at a clock after having committed all before.
std::string said_of_first(rules const& p) {
  blueprint const plan = counted_by(p);
  shard s(plan, server_id{0}, threading::single);
  s.begin_stage(stage_id{1}, 0, false, recovery::none);
  std::vector<worker_id> released;
  for (std::uint32_t w = 0; w < 2; ++w) {
    membership_order o;
    o.what = membership_order::kind::enlist;
    o.stage = stage_id{1};
    o.epoch = epoch_id{w + 1};
    o.worker = worker_id{w};
    (void)s.order(o, released);
  }
  sender const first{first_worker, {}, stage_id{1}};
  read_slot slot;
  staleness const bound = plan.protocol(0).admission.bound();
  (void)s.admit(0, {.from = {second_worker, {}, stage_id{1}}, .clock = clock_index{0}, .bound = bound}, slot, released);
  for (std::int64_t c = 0; c < 3; ++c) {
    (void)s.admit(0, {.from = first, .clock = clock_index{c}, .bound = bound}, slot, released);
    auto const waits = s.inspect([](shard_control const& at) { return !at.waiting().empty(); });
    if (waits) break;
    commit_message m{.from = first, .stamp = clock_index{c}, .version = version_index{c}, .parts = {}};
    auto part = plan.tables().front().pool().take();
    part->whole = true;
    part->values.resize_bytes(4 * sizeof(std::int64_t));
    std::ranges::fill(part->values.as<std::int64_t>(), 1);
    m.parts.push_back(std::move(part));
    REQUIRE(s.commit(std::move(m), released) == refusal::none);
  }
  return s.inspect([](shard_control const& at) {
    REQUIRE(at.waiting().tickets().size() == 1);
    return describe_wait(at.waiting().tickets().front(), at, server_id{0});
  });
}

}  // namespace

TEST_CASE("long wait: it is said after a while, and again each time that it has become twice as long") {
  long_wait w(60s);
  long_wait::clock::time_point const t{};
  CHECK(w.next_look(t) == t + 60s);
  CHECK_FALSE(w.due(t, t + 59s));
  CHECK(w.due(t, t + 61s) == 61s);
  CHECK(w.next_look(t) == t + 122s);
  CHECK_FALSE(w.due(t, t + 121s));
  CHECK(w.due(t, t + 122s) == 122s);
  CHECK(w.next_look(t) == t + 244s);
  // Another one, which had been there.
  CHECK(w.next_look(t + 70s) == t + 130s);
  CHECK(w.due(t + 70s, t + 130s) == 60s);
  CHECK(w.next_look(t + 70s) == t + 190s);
  CHECK(long_wait(0s).is_off());
  CHECK_FALSE(w.is_off());
}

TEST_CASE("long wait: each one that is long is said, whatever there was before it") {
  log_capture const log;
  manual_network network;
  auto const t = network.now();
  std::optional<detail::wait_watch::time> since;
  detail::wait_watch const watch(network, 60s, [&] { return since; }, [] { return "somebody waits"; });
  network.go_on_until(t + 1000s);
  CHECK(log.warnings().empty());
  since = t + 1000s;
  network.go_on_until(t + 1000s + 1000s);  // at 60, 120, 240, 480 and 960 s
  CHECK(lines_in(log.warnings()) == 5);
  since = t + 2000s;
  network.go_on_until(t + 2000s + 130s);  // long before the first would have become twice as long
  CHECK(lines_in(log.warnings()) == 7);
  CHECK_THAT(log.warnings(), Contains("for 120.0 s now somebody waits\n"));
  since.reset();
  network.go_on_until(t + 9000s);
  CHECK(lines_in(log.warnings()) == 7);
}

TEST_CASE("long wait: what is said of a worker is what it waits for", "[server]") {
  CHECK(said_of_first(rules(bsp{})) ==
        "worker 0 at clock 1 waits at server 0 for c_min 1, which is 0 because of worker 1");
  CHECK(said_of_first(rules(with(asp{}, first_heeds_second{}))) ==
        "worker 0 at clock 1 waits at server 0 for c_min 1, which is 0 because of worker 1");
  CHECK(said_of_first(rules(k_sync{.k = 2})) ==
        "worker 0 at clock 1 waits at server 0 for 1 rounds to be over, of which 0 are");
  CHECK(said_of_first(rules(vap{.first = 1.5})) ==
        "worker 0 at clock 2 waits at server 0 for others to read what it has changed");
}

TEST_CASE("long wait: a server says who waits, and for whom, until they need not any more", "[tcp]") {
  log_capture const log;
  played_run run(counted_by(rules(bsp{})), 20ms);
  get_ahead(run);
  REQUIRE(run.until([&] { return lines_in(log.warnings()) == 2; }));
  CHECK_THAT(log.warnings(), Contains(" s now a read of worker 0 at clock 1 waits at server 0 for c_min 1, which is 0 "
                                      "because of worker 1\n"));
  auto const second = run.connected(run.network(), second_worker);
  run.commit(*second, second_worker, clock_index{0});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
  auto const said = lines_in(log.warnings());
  (void)run.until([] { return false; }, 200ms);
  CHECK(lines_in(log.warnings()) == said);
}

TEST_CASE("long wait: who has left waits for nothing", "[tcp]") {
  log_capture const log;
  played_run run(counted_by(rules(bsp{})), 20ms);
  get_ahead(run);
  REQUIRE(run.until([&] { return lines_in(log.warnings()) == 1; }));
  run.to().drop(first_worker);
  auto const is_alone = [](shard_control const& at) { return at.workers().live() == 1; };
  REQUIRE(run.until([&] { return run.server().tables().inspect(is_alone); }));
  auto const said = lines_in(log.warnings());
  (void)run.until([] { return false; }, 200ms);
  CHECK(lines_in(log.warnings()) == said);
}

TEST_CASE("long wait: a server that is not to say so does not", "[tcp]") {
  log_capture const log;
  played_run run(counted_by(rules(bsp{})), 0ms);
  get_ahead(run);
  run.settle();
  CHECK(log.warnings().empty());
}

TEST_CASE("long wait: the coordinator says who waits for a cut", "[tcp]") {
  shared_log const log;
  auto const said = [&log] {
    return log.has(" s now worker 0 at clock 1 waits at the coordinator for c_min 1, which is 0 because of worker 1\n");
  };
  rules const p = with(bsp{}, stable_cut{});
  serving const run({.workers = 2, .servers = 1, .long_wait = 20ms}, p, {describe(test::counting{.rows = 8})});
  in_processes(2, [&](std::uint32_t rank) {
    cluster c{run.process(rank, 1), p, test::counting{.rows = 8}};
    c.run([&](auto& w) {
      std::vector<std::int64_t> seen(8);
      auto const end = std::chrono::steady_clock::now() + 20s;
      while (rank == 1 && !said() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
      w.step();
      w.pull(seen);
    });
  });
  CHECK(said());
}

TEST_CASE("long wait: a peer says for whom it waits", "[tcp][peers]") {
  shared_log const log;
  peers_apart run(3);
  run.shape.long_wait = 20ms;
  auto const said_by = [&log](std::string const& peer) {
    return log.has("s now peer " + peer + " waits in iteration 0 for peer 1\n");
  };
  in_groups(
      run, [](tcp const& t) { return make_group(t, ring(3), standard()); },
      [&](auto& group, std::uint32_t rank) {
        group.run([&](auto& peer) {
          auto const end = std::chrono::steady_clock::now() + 20s;
          while (rank == 1 && !(said_by("0") && said_by("2")) && std::chrono::steady_clock::now() < end)
            std::this_thread::sleep_for(1ms);
          training(3)(peer);
        });
      });
  CHECK(said_by("0"));
  CHECK(said_by("2"));
}
