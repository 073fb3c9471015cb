// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/local_model.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <map>
#include <numeric>
#include <stdexcept>
#include <vector>

#include <rubato/core/run_stopped.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/server/server_group.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/worker/worker.hpp>

#include "idle_endpoint.hpp"

using namespace rubato;
using namespace rubato::detail;

namespace {

using dense_table = dense<std::int64_t, sum, hash>;
using sparse_table = sparse<std::int64_t, sum, hash>;
using worker_type = worker<table_handle<std::int64_t, true>, table_handle<std::int64_t, false>>;
using numbers = std::vector<std::int64_t>;

constexpr std::uint64_t model_rows = 12;

/// Two servers, in memory: what a worker process has beyond its links.
class servers_elsewhere final : public test::idle_endpoint {
 public:
  explicit servers_elsewhere(run_setup const& setup)
      : plan_(setup.protocols, 2, setup.tables), servers_(plan_, threading::multiple),
        rows_(*this, plan_, sender{}, [this](server_id s, std::size_t table, update values) {
          given += values.rows.size();
          most_at_once = std::max(most_at_once, values.rows.size());
          servers_.server(s).host(table).assign(values);
        }) {}

  local_model::home home() {
    return {rows_,
            [this](std::size_t table, std::byte* out) { ++wholes; servers_.read_whole(table, out); },
            [this](std::size_t table, auto& keys, raw_array& values) {
              ++wholes;
              servers_.read_touched(table, keys, values);
            },
            [this] { if (failed) throw run_stopped{}; }, [this] { return stopped; }};
  }
  numbers values() const {
    numbers out(model_rows);
    servers_.read_whole(0, reinterpret_cast<std::byte*>(out.data()));
    return out;
  }
  std::map<std::uint64_t, std::int64_t> touched() const {
    std::vector<std::uint64_t> keys;
    raw_array values;
    servers_.read_touched(1, keys, values);
    std::map<std::uint64_t, std::int64_t> all;
    for (std::size_t i = 0; i < keys.size(); ++i) all[keys[i]] = values.as<std::int64_t>()[i];
    return all;
  }

  // endpoint
  void request(server_id to, std::size_t table, read_header const&, read_slot& slot) override {
    if (lost) throw std::runtime_error("lost");
    brought += slot.rows.size();
    slot.values.resize_bytes(slot.rows.size() * sizeof(std::int64_t));
    servers_.server(to).host(table).read(slot.rows, slot.values.data(), {});
  }

  std::size_t brought = 0, given = 0, wholes = 0;  ///< rows; and tables in one go
  std::size_t most_at_once = 0;  ///< rows that were given
  bool lost = false, failed = false, stopped = false;

 private:
  blueprint plan_;
  server_group servers_;
  server_tables rows_;
};

run_setup setup() {
  static numbers const init = [] {
    numbers v(model_rows);
    std::iota(v.begin(), v.end(), std::int64_t{100});
    return v;
  }();
  run_setup s;
  s.protocols = {bsp{}, asp{}};
  s.tables = {describe(dense_table{.rows = model_rows, .init = init}), describe(sparse_table{.rows = 1000})};
  s.make_worker = [](worker_setup const& w) { return std::make_unique<worker_type>(w); };
  return s;
}

/// Adds 1 to these rows, and to key 500 of the other table.
run_request adding(std::vector<std::uint64_t> const& to, preparation how = preparation::on_demand,
                   std::uint32_t workers = 1) {
  run_request r{.body = {},
                .placement = {workers},
                .local = single_machine{.prepare = how, .chunk_bytes = 4 * sizeof(std::int64_t)}};
  r.body = [to](worker_core& core) {
    auto& w = static_cast<worker_type&>(core);
    std::vector<key> keys;
    for (auto const k : to) keys.emplace_back(k);
    numbers seen(to.size());
    w[table<0>].pull(keys, seen);
    w[table<0>].push(keys, numbers(to.size(), 1));
    w[table<1>].push(std::vector{key{500}}, numbers{1});
    w.step();
  };
  return r;
}

numbers plus(std::map<std::size_t, std::int64_t> const& more) {
  numbers v(model_rows);
  std::iota(v.begin(), v.end(), std::int64_t{100});
  for (auto const& [row, x] : more) v[row] += x;
  return v;
}

}  // namespace

TEST_CASE("local_model: the chunks that are touched come, and those that are changed go back", "[threads]") {
  servers_elsewhere home(setup());
  local_model local(setup(), 2, 1, 1 << 20);
  auto const r = local.run(adding({5}, preparation::on_demand, 2), home.home(), false);
  CHECK(r.workers.size() == 2);
  CHECK(home.values() == plus({{5, 2}}));
  CHECK(home.touched() == std::map<std::uint64_t, std::int64_t>{{500, 2}});
  CHECK(home.brought == 4);
  CHECK(home.given == 4 + 1);
  CHECK(home.wholes == 1);  // of the table that is not bounded
}

TEST_CASE("local_model: rows of a table without bounds go back in as many pieces as servers want", "[threads]") {
  servers_elsewhere home(setup());
  constexpr std::uint64_t three_rows = 3 * (sizeof(std::uint64_t) + sizeof(std::int64_t));
  local_model local(setup(), 2, 1, three_rows + 1);
  run_request r = adding({});
  r.body = [](worker_core& core) {
    auto& w = static_cast<worker_type&>(core);
    std::vector<key> keys;
    for (std::uint64_t k = 0; k < 10; ++k) keys.emplace_back(k * 99);
    w[table<1>].push(keys, numbers(keys.size(), 1));
    w.step();
  };
  (void)local.run(r, home.home(), false);
  CHECK(home.touched().size() == 10);
  CHECK(home.most_at_once <= 3);
  CHECK(home.given == 10);
}

TEST_CASE("local_model: all comes in one go where that is asked for, and what is changed goes back", "[threads]") {
  servers_elsewhere home(setup());
  local_model local(setup(), 2, 1, 1 << 20);
  (void)local.run(adding({0, 11}, preparation::integral), home.home(), false);
  CHECK(home.values() == plus({{0, 1}, {11, 1}}));
  CHECK(home.brought == 0);
  CHECK(home.wholes == 2);
  CHECK(home.given == 8 + 1);
}

TEST_CASE("local_model: a stage goes on with what is there, if it is told so", "[threads]") {
  servers_elsewhere home(setup());
  local_model local(setup(), 2, 1, 1 << 20);
  (void)local.run(adding({5}), home.home(), false);
  home.brought = 0;
  (void)local.run(adding({6}), home.home(), true);
  CHECK(home.brought == 0);
  (void)local.run(adding({6, 9}, preparation::integral), home.home(), true);
  CHECK(home.brought == 8);  // the rest
  (void)local.run(adding({6}, preparation::integral), home.home(), true);
  CHECK(home.brought == 8);
  CHECK(home.values() == plus({{5, 1}, {6, 3}, {9, 1}}));
  CHECK(home.touched() == std::map<std::uint64_t, std::int64_t>{{500, 4}});
  (void)local.run(adding({6}), home.home(), false);
  CHECK(home.brought == 12);
  CHECK(home.values() == plus({{5, 1}, {6, 4}, {9, 1}}));
  CHECK(home.touched() == std::map<std::uint64_t, std::int64_t>{{500, 5}});
}

TEST_CASE("local_model: what cannot come ends the stage, and what is there is not used again", "[threads]") {
  servers_elsewhere home(setup());
  local_model local(setup(), 2, 1, 1 << 20);
  home.lost = true;
  CHECK_THROWS_WITH(local.run(adding({5}), home.home(), false), "lost");
  CHECK(home.given == 0);
  home.lost = false;
  (void)local.run(adding({5}), home.home(), true);
  CHECK(home.brought == 4);
  CHECK(home.values() == plus({{5, 1}}));
}

TEST_CASE("local_model: what a stage has done that is stopped goes back, with what it had from others", "[threads]") {
  servers_elsewhere home(setup());
  local_model local(setup(), 2, 1, 1 << 20);
  bool const fails = GENERATE(false, true);  // for others
  CAPTURE(fails);
  auto const run = [&](run_request r, bool keep) {
    if (fails) CHECK_THROWS_AS(local.run(std::move(r), home.home(), keep), run_stopped);
    else CHECK_NOTHROW((void)local.run(std::move(r), home.home(), keep));
  };
  (fails ? home.failed : home.stopped) = true;
  run(adding({5}), false);
  CHECK(home.given == 0);  // no body has run
  home.failed = home.stopped = false;
  auto kept = adding({9});
  kept.keeps_tables = true;
  (void)local.run(kept, home.home(), false);
  CHECK(home.given == 0);
  auto last = adding({5});
  last.keeps_tables = true;  // not any more
  last.body = [&home, fails, body = last.body](worker_core& w) {
    body(w);
    (fails ? home.failed : home.stopped) = true;
  };
  run(std::move(last), true);
  CHECK(home.values() == plus({{5, 1}, {9, 1}}));
  CHECK(home.touched() == std::map<std::uint64_t, std::int64_t>{{500, 2}});
}

TEST_CASE("local_model: what is here goes to another process, changed or not, and the rest comes from the servers",
          "[threads]") {
  servers_elsewhere home(setup());
  local_model first(setup(), 2, 1, 1 << 20), second(setup(), 2, 1, 1 << 20);
  auto stage = adding({5});
  stage.keeps_tables = true;
  (void)first.run(stage, home.home(), false);
  CHECK(home.given == 0);
  std::size_t brought = home.brought;
  second.expect(*stage.local);
  std::size_t pieces = 0;
  first.hand_over(home.home(), [&](moved_rows&& r) {
    ++pieces;
    second.take(r);
  });
  CHECK(pieces == 2);
  CHECK(home.brought == brought);
  (void)second.run(adding({9, 11}), home.home(), true);
  CHECK(home.brought == brought + 4);
  CHECK(home.values() == plus({{5, 1}, {9, 1}, {11, 1}}));
  CHECK(home.touched() == std::map<std::uint64_t, std::int64_t>{{500, 2}});
  (void)first.run(adding({0}), home.home(), true);  // nothing is there any more
  CHECK(home.values() == plus({{0, 1}, {5, 1}, {9, 1}, {11, 1}}));
}

TEST_CASE("local_model: rows that are no chunk are refused") {
  local_model local(setup(), 1, 1, 1 << 20);
  local.expect(*adding({5}).local);
  moved_rows some{.table = 0, .run = {4, 4}};
  some.values.resize_bytes(4 * sizeof(std::int64_t));
  local.take(some);
  some.run = {3, 4};
  CHECK_THROWS_AS(local.take(some), wire::frame_error);
  some.run = {8, 3};
  CHECK_THROWS_AS(local.take(some), wire::frame_error);
  some.run = {12, 0};
  CHECK_THROWS_AS(local.take(some), wire::frame_error);
}

TEST_CASE("local_model: servers are told of runs that commit nothing") {
  run_setup s = setup();
  s.changes.resize(2);
  CHECK_FALSE(moves_tables(s));
  s.changes[1].moved = s.protocols[1];
  CHECK(moves_tables(s));
  run_setup const beside = beside_local_models(s);
  CHECK(beside.protocols[1].name == rules(bsp{}).name);
  CHECK(beside.protocols[1].admission.bound() == staleness{0});
}
