// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/blueprint.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/machine_memory.hpp>
#include <rubato/partition/by_function.hpp>
#include <rubato/partition/key_ranges.hpp>
#include <rubato/partition/on_servers.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/discount.hpp>
#include <rubato/protocol/easgd.hpp>
#include <rubato/protocol/fed_adam.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/staleness_aware.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_host.hpp>
#include <rubato/storage/table_state.hpp>

namespace rb = rubato;
using Catch::Contains;

namespace {

using doubles = std::vector<double>;
using dense_doubles = rb::dense<double>;
using sparse_doubles = rb::sparse<double>;

template <class... Tables>
rb::blueprint blueprint_of(rb::rules protocol, std::uint32_t servers, Tables... tables) {
  return {std::move(protocol), servers, {rb::describe(tables)...}};
}
template <class... Tables>
void make(Tables... tables) {
  (void)blueprint_of(rb::asp{}, 1, tables...);
}

/// A key's server is that of the key after it, round robin.
rb::server_id swapped(rb::key k, rb::table_shape shape) {
  return rb::server_id{static_cast<std::uint32_t>((k.value() + 1) % shape.servers)};
}

}  // namespace

// ---- what cannot be meant

TEST_CASE("blueprint: a table that cannot be meant is named by its number") {
  dense_doubles const good{.rows = 4};
  doubles const three(3);
  rb::key const keys[] = {rb::key{1}, rb::key{50}};
  CHECK_NOTHROW(make(good));
  CHECK_THROWS_AS(make(dense_doubles{}), rb::option_error);
  CHECK_THROWS_WITH(make(dense_doubles{}), Contains("table 0") && Contains("rows"));
  CHECK_THROWS_WITH(make(good, good, dense_doubles{.rows = 0}),
                    Contains("table 2") && Contains("rows must be at least 1"));
  CHECK_THROWS_WITH(make(good, dense_doubles{.rows = 4, .width = 0}),
                    Contains("table 1") && Contains("width must be at least 1"));
  CHECK_THROWS_WITH(make(good, sparse_doubles{.width = 0}),
                    Contains("table 1") && Contains("width must be at least 1"));
  CHECK_THROWS_WITH(make(good, dense_doubles{.rows = 4, .init = three}),
                    Contains("table 1") && Contains("3 values") && Contains("expected 4"));
  CHECK_THROWS_WITH(make(dense_doubles{.rows = 2, .width = 2, .init = three}),
                    Contains("table 0") && Contains("expected 4"));
  CHECK_THROWS_WITH(make(sparse_doubles{.init_keys = keys, .init = three}),
                    Contains("table 0") && Contains("3 values") && Contains("expected 2"));
  CHECK_THROWS_WITH(make(sparse_doubles{.rows = 50, .init_keys = keys, .init = {three.data(), 2}}),
                    Contains("table 0") && Contains("50") && Contains("below 50"));
}

TEST_CASE("blueprint: there is at least one table and one server, and no table is beyond all memory") {
  dense_doubles const good{.rows = 4};
  CHECK_THROWS_WITH(blueprint_of(rb::asp{}, 1), Contains("tables") && Contains("at least one"));
  CHECK_THROWS_WITH(blueprint_of(rb::asp{}, 0, good), Contains("servers") && Contains("at least 1"));
  CHECK_THROWS_WITH(make(dense_doubles{.rows = std::uint64_t{1} << 60}), Contains("more than memory can hold"));
}

TEST_CASE("blueprint: what a server's part of the tables takes is checked against memory, and so is all of it") {
  std::uint64_t const rows = rb::machine_memory() / sizeof(double) + 1;
  dense_doubles const too_large{.rows = rows};
  rb::server_id const first{0};
  CHECK_THROWS_AS(blueprint_of(rb::asp{}, 1, too_large).check_memory(), rb::option_error);
  CHECK_THROWS_WITH(blueprint_of(rb::asp{}, 1, dense_doubles{.rows = 4}, too_large).check_memory(first),
                    Contains("table 1: " + std::to_string(rows) + " rows of width 1 of double on server 0 take ") &&
                        Contains("and there are " + rb::text_of_bytes(rb::machine_memory())));
  CHECK_NOTHROW(blueprint_of(rb::asp{}, 2, too_large).check_memory(first));  // half of it
  CHECK_THROWS_WITH(blueprint_of(rb::asp{}, 2, too_large).check_memory(), Contains("table 0"));
  dense_doubles const half{.rows = rows / 2}, more_than_half{.rows = rows / 2 + 9};
  CHECK_THROWS_WITH(blueprint_of(rb::asp{}, 2, half, more_than_half).check_memory(),
                    Contains("tables: together they take "));
  CHECK_NOTHROW(blueprint_of(rb::asp{}, 1, sparse_doubles{.rows = rows}).check_memory());
  CHECK_THROWS_WITH(make(sparse_doubles{.width = rows}), Contains("table 0: a row of width"));
}

TEST_CASE("blueprint: a partition that names a server which there is not is an option_error") {
  auto wrong = rb::by_function([](rb::key k, rb::table_shape) {
    return rb::server_id{k.value() == 3 ? 2U : 0U};
  });
  using table = rb::dense<float, rb::merge_of_protocol, decltype(wrong)>;
  CHECK_THROWS_AS(blueprint_of(rb::asp{}, 2, table{.rows = 5, .partition = wrong}), rb::option_error);
  CHECK_THROWS_WITH(blueprint_of(rb::asp{}, 2, table{.rows = 5, .partition = wrong}),
                    Contains("key 3") && Contains("server 2"));
  CHECK_NOTHROW(blueprint_of(rb::asp{}, 3, table{.rows = 5, .partition = wrong}));
}

TEST_CASE("blueprint: what does not go together is an option_error that names the table and the way out") {
  dense_doubles const good{.rows = 4};
  rb::dense<std::int32_t> const integers{.rows = 4};
  SECTION("integers, and a merge that is not exact") {
    CHECK_THROWS_WITH(blueprint_of(rb::bsp{}, 1, good, integers),
                      Contains("table 1") && Contains("exact merge") && Contains("sum"));
    CHECK_NOTHROW(blueprint_of(rb::ssp{}, 1, integers));  // sums
    CHECK_NOTHROW(blueprint_of(rb::bsp{}, 1, good, rb::dense<std::int32_t, rb::sum>{.rows = 4}));
  }
  SECTION("versions, and a table that does not keep them") {
    CHECK_THROWS_WITH(blueprint_of(rb::dyn_sgd{}, 1, rb::multi_version{good}, good),
                      Contains("table 1") && Contains("multi_version"));
    CHECK_NOTHROW(blueprint_of(rb::dyn_sgd{}, 1, rb::multi_version{good}));
    CHECK_NOTHROW(blueprint_of(rb::asp{}, 1, rb::multi_version{good}));
  }
  SECTION("commits in any order, and velocity") {
    rb::rules const cuts = rb::basic_ssp<rb::stable_cut, rb::momentum>{.fold = {.mu = 0.5}};
    CHECK_THROWS_WITH(blueprint_of(cuts, 1, good), Contains("table 0") && Contains("velocity"));
    CHECK_NOTHROW(blueprint_of(cuts, 1, rb::dense<double, rb::sum>{.rows = 4}));
    CHECK_NOTHROW(blueprint_of(with(cuts, rb::strict{}), 1, good));
    CHECK_THROWS_WITH(blueprint_of(with(cuts, rb::adam{}), 1, good), Contains("table 0") && Contains("velocity"));
  }
  SECTION("elements that move by themselves, and versions, integers and tables without bounds") {
    CHECK_THROWS_WITH(blueprint_of(rb::fed_adam{}, 1, good, rb::multi_version{good}),
                      Contains("table 1") && Contains("without versions"));
    CHECK_THROWS_WITH(blueprint_of(rb::fed_adam{}, 1, integers), Contains("exact merge"));
    CHECK_THROWS_WITH(blueprint_of(rb::easgd{}, 1, rb::sparse<double>{}),
                      Contains("table 0") && Contains("use a dense"));
    CHECK_NOTHROW(blueprint_of(rb::fed_adam{}, 1, good, rb::sparse<double>{}));
    CHECK(blueprint_of(rb::easgd{}, 1, good).keeps_copies());
    CHECK_FALSE(blueprint_of(rb::fed_adam{}, 1, good).keeps_copies());
  }
}

// ---- what follows from the protocol and the tables

TEST_CASE("blueprint: a table's merge is its own, or else the protocol's") {
  rb::blueprint const plan = blueprint_of(rb::dyn_sgd{}, 2, rb::multi_version{dense_doubles{.rows = 4}},
                                          rb::dense<float, rb::sum>{.rows = 4});
  CHECK(plan.table(0).versioned());
  CHECK_FALSE(plan.table(1).versioned());
  CHECK(plan.table(1).merge().exact());
  CHECK(plan.versioned());
  CHECK_FALSE(blueprint_of(rb::asp{}, 2, rb::multi_version{dense_doubles{.rows = 4}}).versioned());
}

TEST_CASE("blueprint: it says whether reads are synchronized, and whether the pace is conducted") {
  dense_doubles const good{.rows = 4};
  CHECK_FALSE(blueprint_of(rb::asp{}, 1, good).synchronized());
  CHECK(blueprint_of(with(rb::asp{}, rb::stable_cut{}), 1, good).synchronized());
  CHECK_FALSE(blueprint_of(rb::asp{}, 1, good).conducted());
  CHECK(blueprint_of(rb::adsp{}, 1, good).conducted());
}

TEST_CASE("blueprint: threads of a process do not share reads where it matters who has read, or when") {
  dense_doubles const good{.rows = 4};
  CHECK(blueprint_of(rb::ssp{}, 1, good).shares_reads());
  CHECK_FALSE(blueprint_of(rb::easgd{}, 1, good).shares_reads());  // each worker has a copy of its own
  CHECK_FALSE(blueprint_of(rb::staleness_aware{}, 1, good).shares_reads());
  CHECK_FALSE(blueprint_of(rb::ssp{}, 1, good, rb::dense<double, rb::discount>{.rows = 4}).shares_reads());
}

TEST_CASE("blueprint: its tables' sizes are those of their rows and elements") {
  rb::blueprint const plan =
      blueprint_of(rb::asp{}, 2, rb::dense<float>{.rows = 5, .width = 3}, rb::sparse<std::int64_t>{.width = 2});
  CHECK(plan.tables().size() == 2);
  CHECK(plan.servers() == 2);
  CHECK(plan.table(0).bounded());
  CHECK(plan.table(0).elements() == 15);
  CHECK(plan.table(0).row_bytes() == 12);
  CHECK_FALSE(plan.table(1).bounded());
  CHECK(plan.table(1).width() == 2);
  CHECK(plan.table(1).row_bytes() == 16);
  CHECK(plan.table(1).element() == rb::element_type::int64);
}

// ---- initial values

TEST_CASE("blueprint: each server is given its part of the initial values, whatever the partition") {
  constexpr std::uint64_t rows = 20'003;
  auto partition = rb::by_function(swapped);
  doubles start(rows * 2);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<double>(i);
  rb::blueprint const plan =
      blueprint_of(rb::asp{}, 3,
                   rb::dense<double, rb::merge_of_protocol, decltype(partition)>{
                       .rows = rows, .width = 2, .init = start, .partition = partition});
  rb::table_blueprint const& table = plan.table(0);
  std::vector<std::unique_ptr<rb::table_host>> hosts;
  std::vector<rb::table_state> states(3);
  for (std::uint32_t s = 0; s < 3; ++s) {
    rb::server_id const self{s};
    rb::update const part = table.initial_values(self);
    CHECK(part.whole);
    auto const values = part.values.as<double>();
    REQUIRE(values.size() == table.where().rows_of(self) * 2);
    // The first key of server s is the one before s, but of server 0 the last of the first three.
    CHECK(values[0] == (s == 0 ? 4.0 : 2.0 * (s - 1)));
    hosts.push_back(table.make_host(self, rb::threading::single));
    hosts.back()->snapshot(states[s], {});
  }
  doubles whole(start.size());
  table.assemble(states, reinterpret_cast<std::byte*>(whole.data()));
  CHECK(whole == start);
}

TEST_CASE("blueprint: initial values name each row once") {
  rb::key const keys[] = {rb::key{7}, rb::key{9}, rb::key{7}};
  doubles const values = {1, 2, 3};
  CHECK_THROWS_WITH(blueprint_of(rb::asp{}, 2, sparse_doubles{.init_keys = keys, .init = values}),
                    Contains("table 0") && Contains("init_keys holds 7 twice"));
}

TEST_CASE("blueprint: initial values of touched rows go to the servers of their keys") {
  rb::key const keys[] = {rb::key{7}, rb::key{1'000'000'007}, rb::key{8}};
  doubles const values = {1, 2, 3, 4, 5, 6};
  rb::blueprint const plan = blueprint_of(rb::asp{}, 2, sparse_doubles{.width = 2, .init_keys = keys, .init = values});
  rb::table_blueprint const& table = plan.table(0);
  std::size_t rows = 0;
  for (std::uint32_t s = 0; s < 2; ++s) {
    rb::update const part = table.initial_values(rb::server_id{s});
    CHECK_FALSE(part.whole);
    auto const given = part.values.as<double>();
    REQUIRE(given.size() == part.rows.size() * 2);
    for (std::size_t i = 0; i < part.rows.size(); ++i)
      for (std::size_t k = 0; k < 3; ++k)
        if (auto const at = table.where().locate(keys[k]);
            at.server.value() == s && at.local == part.rows[i]) {
          ++rows;
          CHECK(given[2 * i] == values[2 * k]);
          CHECK(given[2 * i + 1] == values[2 * k + 1]);
        }
  }
  CHECK(rows == 3);
}

TEST_CASE("blueprint: initial values that are forgotten are not given to servers any more") {
  doubles const start = {1, 2};
  rb::blueprint plan = blueprint_of(rb::asp{}, 1, dense_doubles{.rows = 2, .init = start});
  CHECK_FALSE(plan.table(0).initial_values(rb::server_id{0}).empty());
  plan.forget_initial_values();
  CHECK(plan.table(0).initial_values(rb::server_id{0}).empty());
}

// ---- several protocols

TEST_CASE("blueprint: each protocol has its own merges, and all must go with the tables") {
  using counts = rb::dense<std::int64_t>;
  rb::blueprint const plan({rb::dyn_sgd{}, rb::bsp{}, with(rb::ssp{}, rb::stable_cut{})}, 1,
                           {rb::describe(rb::multi_version{dense_doubles{.rows = 3}})});
  CHECK(plan.versioned(0));
  CHECK_FALSE(plan.versioned(1));
  CHECK(plan.table(0).merge(1).type() == typeid(rb::average));
  CHECK(plan.synchronized(2));
  CHECK_FALSE(plan.synchronized(1));
  CHECK_THROWS_WITH(rb::blueprint({with(rb::bsp{}, rb::sum{}), rb::bsp{}}, 1, {rb::describe(counts{.rows = 3})}),
                    Contains("exact merge"));
  CHECK_THROWS_WITH(rb::blueprint(std::vector<rb::rules>{}, 1, {rb::describe(dense_doubles{.rows = 3})}),
                    Contains("protocols: "));
  auto const words = [](std::vector<rb::rules> protocols) {
    return rb::blueprint(std::move(protocols), 1, {rb::describe(dense_doubles{.rows = 3})}).agreement();
  };
  CHECK(words({rb::bsp{}, rb::asp{}}) != words({rb::asp{}, rb::bsp{}}));
  CHECK(words({rb::bsp{}, rb::asp{}}) != words({rb::bsp{}}));
}

TEST_CASE(
    "blueprint: runs whose tables are with the workers have rules that must go with the tables, and are agreed on") {
  auto const plan = [](rb::rules const& there, auto table) {
    rb::table_changes changes;
    changes.moved = there;
    return rb::blueprint({rb::bsp{}}, 1, {rb::describe(table)}, {changes});
  };
  dense_doubles const good{.rows = 3};
  CHECK_THROWS_WITH(plan(rb::dyn_sgd{}, good), Contains("table 0") && Contains("multi_version"));
  CHECK_NOTHROW(plan(rb::dyn_sgd{}, rb::multi_version{good}));
  CHECK_THROWS_WITH(plan(rb::bsp{}, rb::dense<std::int64_t>{.rows = 3}), Contains("exact merge"));
  CHECK(plan(rb::ssp{.staleness = 1}, good).agreement() == plan(rb::ssp{.staleness = 1}, good).agreement());
  CHECK(plan(rb::ssp{.staleness = 1}, good).agreement() != plan(rb::ssp{.staleness = 2}, good).agreement());
  CHECK(plan(rb::bsp{}, good).agreement() != plan(with(rb::bsp{}, rb::sum{}), good).agreement());
}

// ---- what processes must agree on

namespace {

/// SSP for workers from a number on; the others do not wait.
struct waits_from {
  std::uint32_t first;
  rb::staleness bound() const noexcept { return rb::staleness::infinite(); }
  rb::clock_index need(rb::clock_index c, rb::staleness s, rb::worker_id who) const noexcept {
    return who.value() < first ? c - s : c - std::min(s, rb::staleness{1});
  }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness s, rb::worker_id who) const noexcept {
    return need(c, s, who);
  }
};

/// `revise` in all but what is left of a version in the end.
struct revise_and_leave : rb::revise {
  double left;
  std::optional<double> expire(rb::version_state const& v, rb::version_window const& w) const noexcept {
    if (revise::expire(v, w)) return left;
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("blueprint: who agrees on what matters says the same, however the protocol is put together") {
  dense_doubles const good{.rows = 4};
  auto const words = [](rb::rules const& protocol, std::uint32_t servers, auto... tables) {
    return blueprint_of(protocol, servers, tables...).agreement();
  };
  std::string const agreed = words(rb::ssp{.staleness = 2}, 2, good);
  CHECK(words(with(rb::ssp{.staleness = 2}, rb::every{5}), 2, good) == agreed);  // each worker's own business
  CHECK(words(rb::basic_con_sgd<rb::eager, rb::sum>{.staleness = 2}, 2, good) == agreed);
  CHECK(words(with(rb::rules(rb::ssp{.staleness = 2}), rb::eager{}), 2, good) == agreed);

  CHECK(words(rb::ssp{.staleness = 3}, 2, good) != agreed);
  CHECK(words(with(rb::ssp{.staleness = 2}, rb::strict{}), 2, good) != agreed);
  CHECK(words(with(rb::ssp{.staleness = 2}, rb::average{}), 2, good) != agreed);
  CHECK(words(rb::ssp{.staleness = 2}, 3, good) != agreed);
  CHECK(words(with(rb::ssp{.staleness = 2}, waits_from{1}), 2, good) !=
        words(with(rb::ssp{.staleness = 2}, waits_from{700}), 2, good));
  CHECK(words(rb::dyn_sgd{.staleness = 2}, 2, rb::multi_version{good}) !=
        words(with(rb::dyn_sgd{.staleness = 2}, rb::revise{.kept = rb::versions::capped}), 2,
              rb::multi_version{good}));
  CHECK(words(with(rb::ssp{.staleness = 2}, rb::momentum{.mu = 0.5}), 2, good) !=
        words(with(rb::ssp{.staleness = 2}, rb::momentum{.mu = 0.9}), 2, good));
  CHECK(words(with(rb::dyn_sgd{.staleness = 2}, revise_and_leave{{}, 0.0}), 2, rb::multi_version{good}) !=
        words(with(rb::dyn_sgd{.staleness = 2}, revise_and_leave{{}, 1.0}), 2, rb::multi_version{good}));
  CHECK(words(rb::ssp{.staleness = 2}, 2, good, good) != agreed);
  CHECK(words(rb::ssp{.staleness = 2}, 2, dense_doubles{.rows = 5}) != agreed);
  CHECK(words(rb::ssp{.staleness = 2}, 2, dense_doubles{.rows = 4, .width = 2}) != agreed);
  CHECK(words(rb::ssp{.staleness = 2}, 2, rb::dense<float>{.rows = 4}) != agreed);
  CHECK(words(rb::ssp{.staleness = 2}, 2, sparse_doubles{.rows = 4}) != agreed);
  CHECK(words(rb::ssp{.staleness = 2}, 2, rb::multi_version{good}) != agreed);
  CHECK(words(rb::ssp{.staleness = 2}, 2, rb::dense<double, rb::merge_of_protocol, rb::hash>{.rows = 4}) !=
        agreed);
}

namespace {

/// Server 1 from a key on.
struct second_from {
  std::uint64_t first;
  rb::server_id operator()(rb::key k, rb::table_shape) const {
    return rb::server_id{k.value() < first ? 0U : 1U};
  }
};

}  // namespace

TEST_CASE("blueprint: of a bounded table all places are agreed on, of an open one the first and the digest") {
  auto const words = [](auto partition, bool bounded) {
    using policy = decltype(partition);
    if (bounded)
      return blueprint_of(rb::asp{}, 3,
                          rb::dense<double, rb::merge_of_protocol, policy>{.rows = 10'000, .partition = partition})
          .agreement();
    return blueprint_of(rb::asp{}, 3,
                        rb::sparse<double, rb::merge_of_protocol, policy>{.rows = 10'000, .partition = partition})
        .agreement();
  };
  auto const from = [](std::uint64_t first) { return rb::by_function(second_from{first}); };
  for (bool const bounded : {true, false}) {
    INFO(bounded);
    CHECK(words(rb::on_servers{{0, 2}}, bounded) == words(rb::on_servers{{0, 2}}, bounded));
    CHECK(words(rb::on_servers{{0, 2}}, bounded) != words(rb::on_servers{{0, 1}}, bounded));
    CHECK(words(rb::on_servers{{0, 2}}, bounded) != words(rb::on_servers{{2, 0}}, bounded));
    CHECK(words(rb::key_ranges({0, 5, 9999}), bounded) != words(rb::key_ranges({0, 5, 9998}), bounded));
    CHECK(words(from(4000), bounded) != words(from(4001), bounded));
    // Of what a function says nothing is known beyond the keys that it is asked for.
    CHECK((words(from(5000), bounded) != words(from(5001), bounded)) == bounded);
  }
  // By where rows lie, not by what says so.
  CHECK(words(rb::key_ranges({0, 5, 10'000}), true) == words(from(5), true));
}
