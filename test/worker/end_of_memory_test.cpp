// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Reads in whose middle memory ends. Who reads again gets what it would have got.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/server/server_group.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/threads/thread_process.hpp>

#include "failing_memory.hpp"

namespace rb = rubato;

namespace {

using integers = std::vector<std::int64_t>;
constexpr std::size_t many_rows = 40;
constexpr int clocks = 4;

/// All rows of a table, and some of two others.
struct reads {
  integers whole = integers(many_rows);
  std::vector<std::uint64_t> some{3, 17, 30, 31};
  integers of_dense = integers(some.size()), of_sparse = integers(some.size());

  template <class Worker>
  void together(Worker& w) {
    w.pull_together({w[rb::table<0>].into(whole), w[rb::table<1>].into(some, of_sparse),
                     w[rb::table<2>].into(some, of_dense)});
  }
  template <class Worker>
  void one_by_one(Worker& w) {
    w[rb::table<2>].prefetch(some);
    w[rb::table<1>].prefetch(some);
    w[rb::table<0>].pull(whole);
    w[rb::table<1>].pull(some, of_sparse);
    w[rb::table<2>].pull(some, of_dense);
  }
  void check(std::int64_t expected) const {
    REQUIRE(whole == integers(many_rows, expected));
    REQUIRE(of_sparse == integers(some.size(), expected));
    REQUIRE(of_dense == integers(some.size(), expected));
  }
};

template <class Transport>
void read_without_memory(Transport const& where, rb::rules const& p, bool together, bool in_order, int fails_at) {
  using all_rows = rb::dense<std::int64_t, rb::sum>;
  std::size_t const times = rb::test::for_each_end_of_memory([&](auto attempt) {
    rb::cluster c{where, p, all_rows{.rows = many_rows}, rb::sparse<std::int64_t, rb::sum>{},
                  all_rows{.rows = many_rows}};
    c.run([&](auto& w) {
      reads r;
      if (!in_order) std::swap(r.some.front(), r.some.back());
      for (int clock = 1; clock <= clocks; ++clock) {
        w[rb::table<0>].push(integers(many_rows, 1));
        w[rb::table<1>].push(r.some, integers(r.some.size(), 1));
        w[rb::table<2>].push(integers(many_rows, 1));
        w.step();
        auto const read = [&] { together ? r.together(w) : r.one_by_one(w); };
        if (clock != fails_at || !attempt(read)) {
          try {
            read();
          } catch (std::bad_alloc const&) {
            REQUIRE_FALSE(together);  // what had been asked for ahead, by the failed one
            read();
          }
        }
        r.check(clock);
      }
    });
  });
  CHECK((fails_at != 1 || times > 5 || !rb::test::memory_can_end()));  // later reads take none
}

}  // namespace

TEST_CASE("reads in whose middle memory ends may be done again", "[threads]") {
  bool const together = GENERATE(false, true);
  bool const in_order = GENERATE(false, true);  // of keys
  int const fails_at = GENERATE(1, 2);
  rb::rules const p = GENERATE(rb::rules(rb::asp{}), rb::rules(rb::ssp{.staleness = 2}));
  read_without_memory(rb::in_process{.workers = 1, .servers = 2}, p, together, in_order, fails_at);
  read_without_memory(rb::in_process{.workers = 1, .servers = 2, .process_cache = true}, p, together, in_order,
                      fails_at);
}

namespace {

/// Two workers that share what they fetch of three tables on two servers. The first one is a clock ahead, and has to
/// wait for the other one.
struct two_threads {
  static rb::table_description table() { return rb::describe(rb::dense<std::int64_t, rb::sum>{.rows = 8}); }

  struct worker {
    rb::sender self{};
    rb::clock_index clock{};
    std::size_t number = 0;
    rb::detail::inquiry asked{};
    std::array<std::array<rb::read_slot, 2>, 3> slots{};  // by table and server
  };

  two_threads() {
    servers.begin_stage(rb::stage_id{1});
    for (std::uint32_t i = 0; i < 2; ++i) {
      worker& w = workers[i];
      w.self = {rb::worker_id{i}, {}, rb::stage_id{1}};
      for (auto& of_table : w.slots)
        for (rb::read_slot& slot : of_table) slot.rows.reserve(2);  // so that memory ends in what is asked
      std::vector<rb::worker_id> released;
      for (rb::server_id const s : both)
        (void)servers.server(s).order(order(rb::membership_order::kind::enlist, w), released);
      for (rb::server_id const s : both)
        (void)servers.server(s).order(order(rb::membership_order::kind::start, w), released);
      w.number = process.cache().enlist(w.asked, w.self.worker, {});
    }
    commit(workers[0]);
  }
  rb::membership_order order(rb::membership_order::kind what, worker const& w) {
    return {what, w.self.worker, {}, {}, rb::epoch_id{++orders}, w.self.stage};
  }

  /// Whom servers let go on by that. Adds nothing.
  std::vector<rb::worker_id> commit(worker& w) {
    std::vector<rb::worker_id> released;
    for (rb::server_id const s : both) {
      rb::commit_message m{.from = w.self, .stamp = w.clock, .version = {}, .parts = {}};
      m.parts.resize(3);
      process.cache().posting(w.number, s, w.clock.next());
      REQUIRE(servers.server(s).commit(std::move(m), released) == rb::refusal::none);
      process.cache().posted(w.number, s, w.clock.next());
    }
    w.clock = w.clock.next();
    return released;
  }
  void ask(worker& w, std::size_t table, rb::server_id s) {
    rb::read_slot& slot = w.slots[table][s.index()];
    slot.asked = rb::selection::rows;
    slot.rows.assign({0, 2});
    process.cache().request(w.number, s, table, {w.self, w.clock, rb::staleness{0}}, slot);
  }

  static constexpr std::array both{rb::server_id{0}, rb::server_id{1}};
  rb::blueprint plan{rb::ssp{.staleness = 0}, 2, {table(), table(), table()}};
  rb::server_group servers{plan, rb::threading::multiple};
  std::function<void()> meanwhile;  ///< once, while a server is about to be asked
  struct : rb::life {
    using life::life;
    [[nodiscard]] rb::time_point time() const override { return {}; }
    void wake_all() noexcept override {}
  } run{"test"};
  rb::detail::thread_process process{plan, 0, servers, run, [this] {
                                       if (auto const other = std::exchange(meanwhile, nullptr)) other();
                                       return rb::time_point{};
                                     }};
  std::array<worker, 2> workers{};
  std::uint64_t orders = 0;
};

}  // namespace

TEST_CASE("threads that share what they fetch: who could not ask waits for the rest") {
  std::size_t const times = rb::test::for_each_end_of_memory([](auto attempt) {
    two_threads p;
    auto& a = p.workers[0];
    p.ask(a, 0, rb::server_id{0});
    p.ask(a, 0, rb::server_id{1});
    REQUIRE(a.asked.missing == 2);
    auto const more = [&] {
      p.ask(a, 1, rb::server_id{0});  // beside the first one
      p.ask(a, 2, rb::server_id{1});
    };
    if (!attempt(more)) {
      REQUIRE(a.asked.missing == 0);  // the whole read
      p.ask(a, 0, rb::server_id{0});
      p.ask(a, 0, rb::server_id{1});
      more();
    }
    for (rb::worker_id const w : p.commit(p.workers[1])) p.process.released(w);
    REQUIRE(a.asked.missing == 0);
    REQUIRE(a.asked.failure == nullptr);
    for (auto const& [table, server] : {std::pair{0U, 0U}, {0U, 1U}, {1U, 0U}, {2U, 1U}})
      REQUIRE(a.slots[table][server].row_stamps.front().server_clock == rb::clock_index{1});
  });
  CHECK((times > 4 || !rb::test::memory_can_end()));
}

TEST_CASE("threads that share what they fetch: nobody writes where a read was to go that could not be asked for") {
  std::size_t const times = rb::test::for_each_end_of_memory([](auto attempt) {
    two_threads p;
    auto& a = p.workers[0];
    p.ask(a, 0, rb::server_id{0});
    if (attempt([&] { p.ask(a, 1, rb::server_id{1}); })) return;
    REQUIRE(a.asked.missing == 0);
    rb::read_slot& slot = a.slots[0][0];
    slot.rows = {1};  // for another read
    slot.row_stamps.assign(1, {});
    for (rb::worker_id const w : p.commit(p.workers[1])) p.process.released(w);
    REQUIRE(a.asked.missing == 0);
    REQUIRE(slot.row_stamps.front().server_clock == rb::clock_index{});
  });
  CHECK((times > 2 || !rb::test::memory_can_end()));
}

TEST_CASE("threads that share what they fetch: what may go on is read, also where the next one cannot be asked for") {
  std::size_t const times = rb::test::for_each_end_of_memory([](auto attempt) {
    two_threads p;
    auto& a = p.workers[0];
    auto& b = p.workers[1];
    p.ask(a, 0, rb::server_id{0});
    auto const released = p.commit(b);
    p.ask(b, 0, rb::server_id{0});  // waits for the same answer
    REQUIRE(b.asked.missing == 1);
    p.meanwhile = [&] {
      for (rb::worker_id const w : released) p.process.released(w);
    };
    attempt([&] { p.ask(a, 1, rb::server_id{1}); });
    if (p.meanwhile) p.meanwhile();
    REQUIRE(b.asked.missing == 0);
  });
  CHECK((times > 2 || !rb::test::memory_can_end()));
}

TEST_CASE("threads that share what they fetch: where memory ends for whom another one lets go on, that one hears") {
  std::size_t heard = 0;
  rb::test::for_each_end_of_memory([&](auto attempt) {
    two_threads p;
    auto& a = p.workers[0];
    p.ask(a, 0, rb::server_id{0});
    p.ask(a, 1, rb::server_id{0});
    auto const released = p.commit(p.workers[1]);
    bool const is_enough = attempt([&] {
      for (rb::worker_id const w : released) p.process.released(w);
      if (a.asked.failure) throw std::bad_alloc();  // once more, with more memory
    });
    REQUIRE(is_enough == (a.asked.failure == nullptr));
    REQUIRE(a.asked.missing == 0);
    if (a.asked.failure == nullptr) return;
    REQUIRE_THROWS_AS(std::rethrow_exception(a.asked.failure), std::bad_alloc);
    ++heard;
  });
  CHECK((heard > 2 || !rb::test::memory_can_end()));
}
