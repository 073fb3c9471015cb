// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Who is asked what about a table that lives on servers 1 and 3 of four.
#include <rubato/worker/reader.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/partition/on_servers.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>

#include "idle_endpoint.hpp"

using namespace rubato;

namespace {

constexpr std::uint32_t all_servers = 4;
constexpr std::uint64_t all_rows = 20;
constexpr std::uint64_t all_clocks = 10;
constexpr std::uint64_t workers = 3;

/// Messages by server, of all workers.
struct tally_by_server {
  std::array<std::uint64_t, all_servers> commits{}, for_all{}, for_rows{}, for_nothing{};
  std::mutex lock{};
};

class counted_by_server : public endpoint_decorator {
 public:
  counted_by_server(endpoint& inner, tally_by_server& t) noexcept : endpoint_decorator(inner), tally_(t) {}

  void post(server_id to, commit_message&& commit) override {
    count(tally_.commits, to);
    inner().post(to, std::move(commit));
  }
  void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) override {
    count(slot.asked == selection::all    ? tally_.for_all
          : slot.asked == selection::rows ? tally_.for_rows
                                          : tally_.for_nothing,
          to);
    inner().request(to, table, read, slot);
  }

 private:
  void count(std::array<std::uint64_t, all_servers>& of, server_id to) {
    std::lock_guard const guard(tally_.lock);
    ++of[to.index()];
  }
  tally_by_server& tally_;
};

template <class T>
using on_two = dense<T, merge_of_protocol, on_servers<>>;
template <class T>
on_two<T> table_on_two() {
  return {.rows = all_rows, .partition = on_servers{{1, 3}}};
}

/// Shows a commit once everybody has reached its clock: a worker's own may be held back when it reads.
struct hesitant {
  static constexpr bool holds_back = true;
  [[nodiscard]] clock_index horizon(fold_window const& w) const noexcept { return w.c_min; }
};
static_assert(visibility_policy<hesitant>);

enum class use : std::uint8_t { pulls, prefetches, pushes_only };

/// Runs workers that pull and push all of the first table.
template <class Transport, class... Tables>
void run(tally_by_server& t, use what, Transport const& where, rules const& protocol, Tables const&... tables) {
  decorated const inside{
      where, [&t](endpoint& inner, worker_id) { return std::make_unique<counted_by_server>(inner, t); }};
  cluster c{inside, protocol, tables...};
  c.run([&](auto& worker) {
    std::vector<double> w(all_rows);
    for (std::uint64_t clock = 0; clock < all_clocks; ++clock) {
      if (what == use::prefetches) worker.prefetch();
      if (what != use::pushes_only) worker.pull(w);
      worker.push(std::vector<double>(all_rows, 1.0));
      worker.step();
    }
  });
}

template <class F>
void in_both(F f) {
  f(simulated{.workers = workers, .servers = all_servers});
  f(in_process{.workers = workers, .servers = all_servers});
}

using by_server = std::array<std::uint64_t, all_servers>;
constexpr by_server none{};
constexpr by_server all_commits{workers * all_clocks, workers * all_clocks, workers * all_clocks, workers * all_clocks};

}  // namespace

TEST_CASE("servers without rows: no pull of a whole table reaches them, every commit does") {
  for (use const what : {use::pulls, use::prefetches})
    for (rules const& protocol : {rules(bsp{}), rules(asp{}), rules(with(asp{}, stable_cut{}))})
      in_both([&](auto const& where) {
        tally_by_server t;
        run(t, what, where, protocol, table_on_two<double>());
        CHECK(t.for_all == by_server{0, workers * all_clocks, 0, workers * all_clocks});
        CHECK(t.for_nothing == none);
        CHECK(t.for_rows == none);
        CHECK(t.commits == all_commits);
      });
}

TEST_CASE("servers without rows: with more servers than rows it is the same, whatever the partition") {
  tally_by_server t;
  decorated const inside{
      simulated{.workers = 1, .servers = all_servers},
      [&t](endpoint& inner, worker_id) { return std::make_unique<counted_by_server>(inner, t); }};
  cluster c{inside, asp{}, dense<double>{.rows = 1}};
  c.run([](auto& worker) {
    std::vector<double> w(1);
    worker.pull(w);
  });
  CHECK(t.for_all[0] + t.for_all[1] + t.for_all[2] + t.for_all[3] == 1);
}

TEST_CASE("servers without rows: under SSP they may be asked for the clock, by whom they are nearest") {
  in_both([](auto const& where) {
    tally_by_server t;
    run(t, use::pulls, where, ssp{.staleness = 2}, table_on_two<double>());
    CHECK(t.for_all[0] + t.for_all[2] == 0);
    CHECK(t.for_all[1] == t.for_all[3]);
    CHECK(t.for_nothing[3] == 0);  // there are three workers
    CHECK(t.commits == all_commits);
  });
}

TEST_CASE("servers without rows: a copy of the whole table serves as long as if all servers had some") {
  simulated const alone{.workers = 1, .servers = all_servers};
  tally_by_server all, two;
  run(all, use::pulls, alone, ssp{.staleness = 2}, dense<double>{.rows = all_rows});
  run(two, use::pulls, alone, ssp{.staleness = 2}, table_on_two<double>());
  CHECK(all.for_all[1] < all_clocks);
  CHECK(two.for_all == by_server{0, all.for_all[1], 0, all.for_all[3]});
}

TEST_CASE("servers without rows: pushes alone reach them with the clock only") {
  in_both([](auto const& where) {
    tally_by_server t;
    run(t, use::pushes_only, where, bsp{}, table_on_two<double>());
    CHECK(t.for_all == none);
    // Each worker is let into a clock by one server, of which it does not matter whether it has rows.
    CHECK(t.for_nothing == by_server{all_clocks, all_clocks, all_clocks, 0});
    CHECK(t.commits == all_commits);
  });
}

TEST_CASE("servers without rows: where own commits may not be in yet, they say how far they are") {
  in_both([](auto const& where) {
    tally_by_server t;
    run(t, use::pulls, where, with(ssp{.staleness = 2}, hesitant{}), table_on_two<double>());
    CHECK(t.for_all[0] + t.for_all[2] == 0);
    // All servers are asked each time, but not at the first clock, before there are any commits.
    CHECK(t.for_all[1] > workers);
    CHECK(t.for_nothing[0] + workers == t.for_all[1] + t.for_nothing[1]);
    CHECK(t.for_nothing[2] + workers == t.for_all[3] + t.for_nothing[3]);
  });
}

TEST_CASE("servers without rows: of a table that keeps versions they hear who has read it") {
  in_both([](auto const& where) {
    tally_by_server t;
    run(t, use::pulls, where, dyn_sgd{.staleness = 2}, multi_version{table_on_two<double>()});
    CHECK(t.for_all[0] == t.for_all[1]);
    CHECK(t.for_all[0] == t.for_all[2]);
    CHECK(t.for_all[0] == t.for_all[3]);
    CHECK(t.for_all[0] != 0);
    tally_by_server plain;  // the store alone does not matter
    run(plain, use::pulls, where, asp{}, multi_version{table_on_two<double>()});
    CHECK(plain.for_all == by_server{0, workers * all_clocks, 0, workers * all_clocks});
  });
}

namespace {

/// Answers at once that everything is in.
class agreeable final : public test::idle_endpoint {
 public:
  void request(server_id, std::size_t, read_header const& read, read_slot& slot) override {
    slot.stamp = {.server_clock = read.clock, .included = read.clock};
  }
};

}  // namespace

TEST_CASE("servers without rows: nobody keeps commits for a table that is only pushed to, beside it") {
  agreeable link;
  blueprint const plan(ssp{.staleness = 3}, all_servers,
                       {describe(table_on_two<double>()), describe(dense<double>{.rows = all_rows})});
  sender const self{};
  detail::argument_check const check(plan, 0, 0);
  pacer pace(plan.protocol().pace, self.worker);
  worker_metrics metrics;
  detail::reader reads(link, plan, 0, self, server_id{0}, check, pace, metrics);
  reads.start({});
  std::vector<double> const delta(all_rows, 1.0);
  std::size_t kept = 0;
  for (int clock = 0; clock < 100; ++clock) {
    reads.prefetch_whole(0);
    reads.end_prefetch();
    for (std::size_t table : {0U, 1U})
      reads.replica_of(table).push_whole(reinterpret_cast<std::byte const*>(delta.data()));
    reads.prepare_commit(false);
    for (std::size_t table : {0U, 1U})
      for (std::uint32_t s = 0; s < all_servers; ++s)
        (void)reads.replica_of(table).commit(server_id{s}, reads.clock(), reads.keeps_commit(table), false);
    reads.next_clock();
    kept = std::max(kept, reads.replica_of(0).kept_commits());
    REQUIRE(reads.replica_of(1).kept_commits() == 0);
  }
  CHECK(kept != 0);  // of the table that is pulled, since a copy of it is used that lacks them
}

TEST_CASE("servers without rows: a server that was asked for rows ages a copy, as with versions") {
  blueprint const plan(asp{}, all_servers, {describe(table_on_two<double>())});
  auto const r = make_replica(plan.table(0), all_servers, 0);
  auto const usable_after = [&](selection of_others) {
    for (std::uint32_t s = 0; s < all_servers; ++s) {
      read_slot& slot = r->slot(server_id{s});
      slot.asked = s % 2 == 1 ? selection::all : of_others;
      slot.stamp = {.server_clock = clock_index{s % 2 == 1 ? 7 : 3}, .included = {}};
    }
    r->accept_base({});
    return r->base_usable({.clock = clock_index{9}, .need = {}, .cache_need = clock_index{5}});
  };
  CHECK(usable_after(selection::nothing));
  CHECK(r->base_clock() == clock_index{7});
  CHECK_FALSE(usable_after(selection::all));
  CHECK(r->base_clock() == clock_index{3});
}
