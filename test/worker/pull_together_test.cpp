// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Several tables in one read.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/element.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/essp.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>

namespace rb = rubato;
using namespace std::chrono_literals;

namespace {

constexpr rb::duration one_way = 10ms;

using integers = rb::dense<int, rb::sum>;
using rare_integers = rb::sparse<int, rb::sum>;

/// What workers ask for, and how often they wait.
struct tally_of_waits {
  std::atomic<int> requests = 0, waits = 0, cuts = 0, commits = 0;
};

class counted_waits final : public rb::endpoint_decorator {
 public:
  counted_waits(rb::endpoint& inner, tally_of_waits& t) noexcept : endpoint_decorator(inner), tally_(t) {}
  void post(rb::server_id to, rb::commit_message&& commit) override {
    ++tally_.commits;
    inner().post(to, std::move(commit));
  }
  void request(rb::server_id to, std::size_t table, rb::read_header const& read, rb::read_slot& slot) override {
    ++tally_.requests;
    inner().request(to, table, read, slot);
  }
  void wait() override {
    ++tally_.waits;
    inner().wait();
  }
  void request_cut(rb::read_header const& read, rb::cut_slot& slot) override {
    ++tally_.cuts;
    inner().request_cut(read, slot);
  }

 private:
  tally_of_waits& tally_;
};

template <class Transport>
auto watched(Transport const& where, tally_of_waits& t) {
  return rb::decorated{
      where, [&t](rb::endpoint& inner, rb::worker_id) { return std::make_unique<counted_waits>(inner, t); }};
}

rb::simulated far_servers(std::uint32_t servers = 1) {
  rb::simulated s{.workers = 1, .servers = servers};
  s.scenario.network.worker_link.latency = one_way;
  return s;
}

rb::table_list many(std::size_t tables, std::uint64_t rows) {
  rb::table_list all;
  for (std::size_t i = 0; i < tables; ++i) all.add(rb::dense<float>{.rows = rows});
  return all;
}

enum class reading { one_by_one, together, ahead };

rb::run_report train(reading what, std::size_t tables, int clocks) {
  rb::cluster c{far_servers(), rb::bsp{}, many(tables, 4)};
  return c.run([&](auto& worker) {
    std::vector<std::vector<float>> w(tables, std::vector<float>(4));
    std::vector<rb::pull_wish> all;
    for (std::size_t i = 0; i < tables; ++i) all.push_back(worker.template dense<float>(i).into(w[i]));
    for (int clock = 0; clock < clocks; ++clock) {
      if (what == reading::ahead)
        for (std::size_t i = 0; i < tables; ++i) worker.template dense<float>(i).prefetch();
      if (what == reading::together) worker.pull_together(all);
      else
        for (std::size_t i = 0; i < tables; ++i) worker.template dense<float>(i).pull(w[i]);
      for (std::size_t i = 0; i < tables; ++i) {
        CHECK(w[i] == std::vector<float>(4, static_cast<float>(clock)));
        worker.template dense<float>(i).push(std::vector<float>(4, 1.0F));
      }
      worker.step();
    }
  });
}

}  // namespace

TEST_CASE("pull_together: sixteen tables take one round trip a clock, as one does") {
  constexpr int clocks = 3;
  auto const one = train(reading::together, 1, clocks);
  auto const sixteen = train(reading::together, 16, clocks);
  auto const asked_ahead = train(reading::ahead, 16, clocks);
  auto const singly = train(reading::one_by_one, 16, clocks);
  CHECK(one.elapsed >= clocks * 2 * one_way);
  CHECK(sixteen.elapsed == one.elapsed);
  CHECK(asked_ahead.elapsed == one.elapsed);
  CHECK(singly.elapsed >= clocks * 16 * 2 * one_way);
  CHECK(sixteen.workers[0].fetches == clocks * 16);
  CHECK(sixteen.workers[0].requests == singly.workers[0].requests);
  CHECK(sixteen.workers[0].pulls == singly.workers[0].pulls);
  CHECK(sixteen.workers[0].bytes_received == singly.workers[0].bytes_received);
}

namespace {

/// Three kinds of tables, read in one way or the other; returns all that was read, bit for bit.
template <class Transport, class Protocol>
std::vector<std::uint64_t> all_reads(Transport const& where, Protocol const& p, bool together) {
  rb::cluster c{where, p, rb::dense<float>{.rows = 7, .width = 3}, rb::sparse<double>{.width = 2},
                rb::dense<std::int64_t, rb::sum>{.rows = 5}};
  std::vector<std::vector<std::uint64_t>> seen(3);
  c.run([&](auto& worker) {
    std::vector<float> w(21);
    std::vector<double> rows(6);
    std::vector<std::int64_t> sums(2);
    std::vector<std::uint32_t> const some{9, 4, 1'000'000'000};
    std::array const two{rb::key{3}, rb::key{0}};
    auto& mine = seen[worker.rank()];
    for (int clock = 0; clock < 6; ++clock) {
      if (together) {
        worker.pull_together({worker[rb::table<1>].into(some, rows), worker[rb::table<0>].into(w),
                              worker[rb::table<2>].into(two, sums)});
      } else {
        worker[rb::table<1>].pull(some, rows);
        worker.pull(w);
        worker[rb::table<2>].pull(two, sums);
      }
      for (float const x : w) mine.push_back(std::bit_cast<std::uint32_t>(x));
      for (double const x : rows) mine.push_back(std::bit_cast<std::uint64_t>(x));
      for (auto const x : sums) mine.push_back(static_cast<std::uint64_t>(x));
      for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.3F * (w[i] + static_cast<float>(worker.rank() + i)) / 7;
      for (double& x : rows) x = 0.1 * (x + worker.rank() + 1);
      worker.push(w);
      worker[rb::table<1>].push(some, rows);
      worker[rb::table<2>].push(two, std::vector<std::int64_t>{1, worker.rank()});
      worker.step(1 + worker.rank());
    }
  });
  for (std::size_t i = 1; i < seen.size(); ++i) seen[0].insert(seen[0].end(), seen[i].begin(), seen[i].end());
  return seen[0];
}

}  // namespace

TEST_CASE("pull_together: under a barrier all is read bit for bit as table by table, in every place") {
  auto const expected = all_reads(rb::simulated{.workers = 3, .servers = 2}, rb::bsp{}, false);
  CHECK(all_reads(rb::simulated{.workers = 3, .servers = 2}, rb::bsp{}, true) == expected);
  for (bool const shared : {false, true}) {
    rb::in_process const here{.workers = 3, .servers = 2, .process_cache = shared};
    CHECK(all_reads(here, rb::bsp{}, true) == expected);
    CHECK(all_reads(here, rb::bsp{}, false) == expected);
  }
  rb::simulated machines{.workers = 3, .servers = 2};
  machines.scenario.machine_of = {0, 0, 1};
  machines.scenario.one_process_per_machine = true;
  CHECK(all_reads(machines, rb::bsp{}, true) == expected);
}

TEST_CASE("pull_together: a read that is held back waits once, and what is here is not asked for") {
  tally_of_waits t;
  rb::cluster c{watched(rb::simulated{.workers = 2, .servers = 2}, t), rb::bsp{}, rb::dense<float>{.rows = 4},
                rb::dense<float>{.rows = 4}, rb::dense<float>{.rows = 4}};
  constexpr int clocks = 4;
  auto const report = c.run([&](auto& worker) {
    std::vector<float> a(4), b(4), d(4);
    for (int clock = 0; clock < clocks; ++clock) {
      worker.pull_all(a, b, d);
      CHECK(a == std::vector<float>(4, static_cast<float>(clock)));
      CHECK(d == a);
      worker.pull_together({worker[rb::table<2>].into(b), worker[rb::table<0>].into(a)});
      worker.pull(a);
      worker.push(std::vector<float>(4, 1.0F));
      worker[rb::table<2>].push(std::vector<float>(4, 1.0F));
      worker.step(worker.rank() == 0 ? 1 : 50);  // which the first one waits for
    }
  });
  CHECK(t.waits == 2 * clocks);
  CHECK(t.requests == 2 * clocks * 3 * 2);
  CHECK(t.commits == 2 * clocks * 2);  // all tables of a commit go to a server in one message
  CHECK(report.workers[0].wait > rb::duration::zero());
}

TEST_CASE("pull_together: only what is missing is asked for") {
  tally_of_waits t;
  rb::cluster c{watched(rb::in_process{}, t), rb::ssp{.staleness = 3}, integers{.rows = 8}, integers{.rows = 8},
                rare_integers{}};
  c.run([&](auto& worker) {
    std::vector<int> a(8), some(3);
    std::vector<std::uint64_t> const first{1, 2, 3}, others{3, 4, 5};
    worker.pull(a);
    worker.pull(a);  // a copy pays
    worker[rb::table<1>].pull(first, some);
    worker[rb::table<2>].push(std::vector<std::uint64_t>{5}, std::vector<int>{7});
    int const before = t.requests;
    worker.pull_together({worker[rb::table<0>].into(a), worker[rb::table<1>].into(first, some)});
    CHECK(t.requests == before);
    std::vector<int> rare(3), no_rows;
    worker.pull_together({worker[rb::table<1>].into(others, some), worker[rb::table<2>].into(others, rare),
                          worker[rb::table<0>].into(std::vector<std::uint64_t>{}, no_rows)});
    CHECK(t.requests == before + 2);
    CHECK(rare == std::vector<int>{0, 0, 7});  // own pushes are in it
    worker.pull_together({});
    CHECK(t.requests == before + 2);
  });
}

TEST_CASE("pull_together: under partition synchronization all tables are of one cut (PS-1)") {
  tally_of_waits t;
  rb::simulated place{.workers = 3,
                      .servers = 2,
                      .scenario = {.speed = {.work_cost = 1ms, .slowness = {1.0, 1.7, 1.3}}}};
  place.scenario.server_delay = {rb::duration::zero(), 3ms};
  rb::cluster c{watched(place, t), with(rb::ssp{.staleness = 2}, rb::stable_cut{}, rb::every{3}),
                rb::dense<std::int64_t, rb::sum>{.rows = 4}, rb::dense<std::int64_t, rb::sum>{.rows = 4}};
  constexpr int clocks = 40;
  int older = 0;
  c.run([&](auto& worker) {
    std::vector<std::int64_t> a(4), b(4), before(4), one(4);
    std::vector<unsigned> const all{0, 1, 2, 3};
    one[worker.rank()] = 1;
    for (int clock = 0; clock < clocks; ++clock) {
      worker.pull(before);  // of a cut of its own
      worker.step();
      if (clock % 2 == 1) worker[rb::table<1>].pull(b);  // and so is this
      worker.step();
      worker.pull_together({worker[rb::table<0>].into(a), worker[rb::table<1>].into(all, b)});
      CHECK(a == b);  // every commit adds to both
      CHECK(a[worker.rank()] == clock);
      older += before != a ? 1 : 0;
      worker.push(one);
      worker[rb::table<1>].push(one);
      CHECK(worker.step());
    }
  });
  CHECK(older > clocks);  // so that a copy of the first table beside a new one of the second would differ
}

TEST_CASE("pull_together: under partition synchronization no read is of an older cut than one before it") {
  bool const with_another = GENERATE(true, false);
  rb::cluster c{rb::simulated{.workers = 2}, with(rb::ssp{.staleness = 3}, rb::stable_cut{}),
                rb::dense<int, rb::sum>{.rows = 2}, rb::dense<int, rb::sum>{.rows = 2}};
  c.run([&](auto& worker) {
    if (worker.rank() == 1) {  // commits at 1, 2 and 3 ms
      for (int i = 0; i < 3; ++i) {
        worker.push(std::vector<int>{1, 1});
        worker.step(1000);
      }
      return;
    }
    std::vector<int> whole(2), row(1), beside(1);
    std::vector<unsigned> const first{0};
    worker.pull(whole);
    CHECK(whole[0] == 0);
    worker.step(5000);
    worker.pull(whole);
    CHECK(whole[0] == 0);  // the copy does
    if (with_another)
      worker.pull_together({worker[rb::table<0>].into(first, row), worker[rb::table<1>].into(first, beside)});
    else
      worker.pull(first, row, rb::staleness{0});  // for which it does not
    CHECK(row[0] == 3);
    worker.pull(whole);
    CHECK(whole == std::vector<int>{3, 3});
    worker.pull(first, row);
    CHECK(row[0] == 3);
  });
}

TEST_CASE("pull_together: own updates, and others' in time, under every kind of rule") {
  auto const run = [](auto const& where, auto const& protocol, std::int64_t bound) {
    rb::cluster c{where, protocol, rb::dense<double, rb::sum>{.rows = 6}, rb::sparse<double, rb::sum>{}};
    std::atomic<int> wrong = 0;
    c.run([&](auto& worker) {
      std::vector<double> a(6), b(3);
      std::vector<std::uint64_t> const keys{0, 1, 2};
      for (std::int64_t clock = 0; clock < 30; ++clock) {
        worker.pull_together({worker[rb::table<0>].into(a), worker[rb::table<1>].into(keys, b)});
        for (std::size_t m = 0; m < 3; ++m)
          for (double const seen : {a[m], b[m]}) {
            bool const own = m == worker.rank();
            if (own ? seen != static_cast<double>(clock) : seen < static_cast<double>(clock - bound)) ++wrong;
          }
        std::vector<double> one(6);
        one[worker.rank()] = 1;
        worker.push(one);
        worker[rb::table<1>].push(std::vector<std::uint64_t>{worker.rank()}, std::vector<double>{1});
        worker.step(1 + worker.rank());
      }
    });
    CHECK(wrong == 0);
  };
  auto const everywhere = [&](auto const& protocol, std::int64_t bound) {
    run(rb::simulated{.workers = 3, .servers = 2}, protocol, bound);
    run(rb::in_process{.workers = 3, .servers = 2}, protocol, bound);
    run(rb::in_process{.workers = 3, .servers = 2, .process_cache = true}, protocol, bound);
  };
  everywhere(rb::bsp{}, 0);
  everywhere(rb::ssp{.staleness = 2}, 2);
  everywhere(rb::essp{.staleness = 3}, 3);
  everywhere(rb::asp{}, 1000);
}

TEST_CASE("pull_together: what cannot be meant is refused, before anything is read") {
  tally_of_waits t;
  rb::cluster c{watched(rb::in_process{}, t), rb::ssp{.staleness = 1}, integers{.rows = 2}, integers{.rows = 2}};
  c.run([&](auto& worker) {
    std::vector<int> a(2, 9), b(2, 9), short_one(1);
    auto const first = worker[rb::table<0>].into(a);
    auto const refused = [&](rb::errc code, std::vector<rb::pull_wish> const& wishes,
                             std::optional<rb::staleness> s = std::nullopt) {
      try {
        worker.pull_together(wishes, s);
        FAIL("it was not refused");
      } catch (rb::usage_error const& e) {
        CHECK(e.code() == code);
      }
    };
    refused(rb::errc::bad_option, {first, worker[rb::table<0>].into(b)});
    refused(rb::errc::bad_option, {first, rb::pull_wish(2, rb::element_type::int32, nullptr, 0)});
    refused(rb::errc::wrong_size, {first, worker[rb::table<1>].into(short_one)});
    refused(rb::errc::unknown_key, {first, worker[rb::table<1>].into(std::array{rb::key{2}}, short_one)});
    refused(rb::errc::bad_staleness, {first}, rb::staleness{2});
    CHECK(t.requests == 0);
    CHECK(a == std::vector<int>(2, 9));
    worker.pull_together({first}, rb::staleness{0});
    CHECK(a == std::vector<int>(2));
  });
}

namespace {

/// Goes wrong for one key.
struct treacherous {
  rb::server_id server_of(rb::key k, rb::table_shape shape) const {
    return rb::server_id{k.value() == 13 ? 99 : static_cast<std::uint32_t>(k.value() % shape.servers)};
  }
};

/// A worker that reads at a clock that has just begun is let in as the protocol says, also if a read that was to wait
/// has failed before in its partition.
template <class Transport>
void read_after_a_failure(Transport const& where) {
  std::array<tally_of_waits, 2> of;  // the other worker may have to wait at its fourth step, and asks then
  rb::decorated const watched_each{where, [&](rb::endpoint& inner, rb::worker_id id) {
                                     return std::make_unique<counted_waits>(inner, of.at(id.value()));
                                   }};
  rb::cluster c{watched_each, rb::ssp{.staleness = 3}, rb::dense<int, rb::sum>{.rows = 4},
                rb::sparse<int, rb::sum, treacherous>{}};
  c.run([&](auto& worker) {
    std::vector<int> w(4), of_13(1);
    auto const clock = [&] { worker.push(std::vector<int>(4, 1)), worker.step(worker.rank() == 0 ? 1 : 200); };
    if (worker.rank() == 0) {
      clock();
      int const requests = of[0].requests;
      std::vector<std::uint64_t> const rows{13};
      CHECK_THROWS_AS(worker.pull_together({worker[rb::table<0>].into(w), worker[rb::table<1>].into(rows, of_13)},
                                           rb::staleness{0}),
                      rb::option_error);
      CHECK(of[0].requests == requests);
      clock();
      worker.pull(w, rb::staleness{0});
      CHECK(w[0] >= 4);  // SSP-1: two own updates, and two of the other worker
    }
    while (worker.clock().value() < 4) clock();
  });
}

}  // namespace

TEST_CASE("pull_together: one that fails in a user's partition has asked for nothing") {
  rb::simulated s = far_servers(2);
  s.workers = 2;
  s.scenario.speed.work_cost = 1ms;
  read_after_a_failure(s);
  read_after_a_failure(rb::in_process{.workers = 2, .servers = 2});
}

TEST_CASE("pull_together: no keys are no read, and elements are the table's") {
  tally_of_waits t;
  rb::cluster c{watched(far_servers(), t), rb::bsp{}, integers{.rows = 2}, rare_integers{}};
  c.run([&](auto& worker) {
    worker.push(std::vector<int>{1, 1});
    worker.step();
    int const requests = t.requests;
    std::vector<std::uint64_t> const none;
    std::vector<int> rows;
    worker.pull_together({worker[rb::table<1>].into(none, rows)});
    worker.pull_together({});
    CHECK(t.requests == requests);  // under the barrier a read would have asked
    std::vector<float> floats(2);
    auto* const bytes = reinterpret_cast<std::byte*>(floats.data());
    CHECK_THROWS_WITH(worker.pull_together({rb::pull_wish(0, rb::element_type::float32, bytes, 2)}),
                      Catch::EndsWith("table 0: elements are to be float, expected int32"));
    CHECK_THROWS_WITH(worker.pull_together({rb::pull_wish(1, rb::element_type::int32, nullptr, 0)}),
                      Catch::EndsWith("table 1: it has no end to be read as a whole, expected keys"));
    CHECK_THROWS_AS(worker.pull_together({}, rb::staleness{9}), rb::usage_error);
  });
}

TEST_CASE("prefetches of several tables are under way together, and each pull takes its own") {
  rb::cluster c{far_servers(2), rb::bsp{}, integers{.rows = 4}, integers{.rows = 4}, rare_integers{}};
  auto const report = c.run([&](auto& worker) {
    std::vector<int> a(4), b(2), d(1);
    std::vector<std::uint64_t> const two{1, 3}, one{5};
    for (int clock = 0; clock < 3; ++clock) {
      auto const before = worker.now();
      worker.prefetch();
      worker[rb::table<1>].prefetch(two);
      worker[rb::table<2>].prefetch(one);
      CHECK(worker.now() == before);
      worker[rb::table<2>].pull(one, d);
      CHECK(worker.now() - before < 3 * one_way);
      worker.pull(a);
      worker[rb::table<1>].pull(two, b);
      CHECK(worker.now() - before < 3 * one_way);
      CHECK(a == std::vector<int>(4, clock));
      CHECK(b == std::vector<int>(2, clock));
      CHECK(d == std::vector<int>(1, clock));
      worker.push(std::vector<int>(4, 1));
      worker[rb::table<1>].push(std::vector<int>(4, 1));
      worker[rb::table<2>].push(one, std::vector<int>{1});
      worker.step();
    }
    worker.prefetch();
    worker[rb::table<1>].prefetch();  // nothing comes after them
  });
  CHECK(report.workers[0].fetches == 3 * 3 + 2);
}
