// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What rubato-server and the programs of its workers agree on.
#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rubato/partition/range.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/fixed_ada_comm.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/storage/bfloat16.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/int8_blocks.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "src/tools/server/host.hpp"
#include "tools/server_words.hpp"

using namespace rubato;
using test::parsed;

namespace {

/// What a program says that was given this protocol and these tables.
template <class... Tables>
std::string agreed_on(rules p, std::uint32_t servers, Tables... t) {
  return blueprint(std::move(p), servers, {describe(t)...}).agreement();
}
template <class Table>
std::string agreed(rules p, Table t, std::uint32_t servers) {
  return agreed_on(std::move(p), servers, t);
}

/// What `rubato-server` says for these words.
std::string hosted_says(std::vector<std::string> given) {
  return server_tool::blueprint_of(parsed(std::move(given))).agreement();
}

std::unique_ptr<conductor> conductor_for(std::vector<std::string> given) {
  return server_tool::protocol_of(parsed(std::move(given))).pace.make_conductor();
}

time_point at(double s) { return time_point(seconds(s)); }

/// The one order that has been given.
template <class Order>
Order only(conductor::orders const& all) {
  REQUIRE(all.size() == 1);
  auto const& bytes = all.front().order;
  REQUIRE(bytes.size() == sizeof(Order));
  Order order;
  std::memcpy(&order, bytes.data(), sizeof order);
  return order;
}

}  // namespace

TEST_CASE("rubato-server and a program that links the worker side agree") {
  dense<float> const t{.rows = 100, .width = 3};
  std::vector<std::string> const table{"--rows", "100", "--width", "3", "--servers", "2"};
  auto const words = [&](std::vector<std::string> more) {
    more.insert(more.end(), table.begin(), table.end());
    return more;
  };
  CHECK(hosted_says(words({"--protocol", "bsp"})) == agreed(bsp{}, t, 2));
  CHECK(hosted_says(words({"--protocol", "fixed_ada_comm"})) ==
        agreed(fixed_ada_comm{.steps = 4}, t, 2));
  CHECK(hosted_says(words({"--protocol", "ssp", "--staleness", "5"})) ==
        agreed(ssp{.staleness = 5}, t, 2));
  CHECK(hosted_says(words({"--protocol", "asp"})) == agreed(asp{}, t, 2));
  CHECK(hosted_says(words({"--protocol", "con_sgd", "--lambda", "0.25"})) ==
        agreed(con_sgd{.staleness = 3, .fold = {.lambda = 0.25}}, t, 2));
  CHECK(hosted_says(words({"--protocol", "dyn_sgd", "--storage", "multi_version"})) ==
        agreed(dyn_sgd{}, multi_version{t}, 2));
  CHECK(hosted_says(words({"--protocol", "adsp"})) == agreed(adsp{}, t, 2));
  CHECK(hosted_says(words({"--protocol", "adsp", "--lambda", "0.25"})) ==
        agreed(adsp{.global_rate = 0.25}, t, 2));
  CHECK(hosted_says(words({"--protocol", "ada_comm"})) == agreed(ada_comm{}, t, 2));
  // The partition may be said in the table's type.
  CHECK(hosted_says(words({"--protocol", "asp", "--partition", "range"})) ==
        agreed(asp{}, dense<float, merge_of_protocol, range>{.rows = 100, .width = 3}, 2));
  dense<float> coded = t;
  coded.codec = {.updates = int8_blocks{}, .answers = bfloat16{}};
  CHECK(hosted_says(words({"--protocol", "bsp", "--update-codec", "int8", "--answer-codec", "bfloat16"})) ==
        agreed(bsp{}, coded, 2));
  CHECK(hosted_says(words({"--protocol", "bsp", "--update-codec", "int8"})) != agreed(bsp{}, coded, 2));
  // So may the merge, and it may be the protocol's own.
  CHECK(hosted_says(words({"--protocol", "bsp", "--merge", "sum"})) ==
        agreed(bsp{}, dense<float, sum>{.rows = 100, .width = 3}, 2));
  CHECK(hosted_says(words({"--protocol", "asp", "--merge", "average"})) ==
        agreed(with(asp{}, average{}), t, 2));
}

TEST_CASE("rubato-server and a program agree on tables of integers") {
  for (std::string const protocol : {"bsp", "ssp", "dyn_sgd"}) {
    CAPTURE(protocol);
    rules const p = protocol == "bsp" ? rules(bsp{}) : protocol == "ssp" ? rules(ssp{}) : rules(dyn_sgd{});
    std::vector<std::string> const common{"--protocol", protocol, "--merge", "sum", "--rows", "9"};
    auto const words = [&](std::vector<std::string> more) {
      more.insert(more.end(), common.begin(), common.end());
      return more;
    };
    CHECK(hosted_says(words({"--type", "int32"})) ==
          agreed(p, dense<std::int32_t, sum>{.rows = 9}, 1));
    CHECK(hosted_says(words({"--type", "int64", "--storage", "sparse", "--width", "2"})) ==
          agreed(p, sparse<std::int64_t, sum>{.rows = 9, .width = 2}, 1));
  }
  // Where the protocol adds updates up, that is a table's merge unless something else is said.
  CHECK(hosted_says({"--type", "int32", "--rows", "9"}) == agreed(ssp{}, dense<std::int32_t>{.rows = 9}, 1));
}

TEST_CASE("rubato-server and a program agree on several tables") {
  dense<double> const weights{.rows = 100, .width = 3};
  dense<double, merge_of_protocol, range> const biases{.rows = 3};
  sparse<double> const embedding{.width = 16};
  auto const says =
      hosted_says({"--protocol", "bsp", "--type", "double", "--rows", "100,3", "--width", "3,1",
                   "--partition", "range_hash,range"});
  CHECK(says == agreed_on(bsp{}, 1, weights, biases));
  CHECK(says != agreed_on(bsp{}, 1, biases, weights));
  CHECK(hosted_says({"--protocol", "asp", "--type", "double", "--storage", "sparse,dense", "--rows", "0,100",
                     "--width", "16,3", "--servers", "2"}) == agreed_on(asp{}, 2, embedding, weights));
  CHECK(hosted_says({"--protocol", "dyn_sgd", "--type", "double", "--storage",
                     "multi_version,multi_version_sparse", "--rows", "100,0", "--width", "3,16"}) ==
        agreed_on(dyn_sgd{}, 1, multi_version{weights}, multi_version{embedding}));
  CHECK(hosted_says({"--protocol", "asp", "--type", "double", "--rows", "100,100,100", "--width", "3"}) ==
        agreed_on(asp{}, 1, weights, weights, weights));
}

TEST_CASE("rubato-server and a program agree on tables that differ in every way") {
  // One sparse among three, each of other elements and another merge.
  CHECK(hosted_says({"--protocol", "bsp", "--storage", "dense,sparse,dense", "--type", "float,int64,double",
                     "--rows", "100,0,7", "--width", "3,1,2", "--merge", "protocol,sum,average"}) ==
        agreed_on(bsp{}, 1, dense<float>{.rows = 100, .width = 3}, sparse<std::int64_t, sum>{},
                  dense<double, average>{.rows = 7, .width = 2}));
  // Versions for the table whose updates are revised, none for the one that counts.
  CHECK(hosted_says({"--protocol", "dyn_sgd", "--storage", "multi_version_sparse,dense", "--type",
                     "float,int32", "--rows", "0,4", "--merge", "protocol,sum", "--servers", "2"}) ==
        agreed_on(dyn_sgd{}, 2, multi_version{sparse<float>{}}, dense<std::int32_t, sum>{.rows = 4}));
  CHECK(hosted_says({"--storage", "dense,multi_version", "--rows", "7"}) ==
        agreed_on(ssp{}, 1, dense<float>{.rows = 7}, multi_version{dense<float>{.rows = 7}}));
}

TEST_CASE("what differs between processes is told apart") {
  dense<float> const t{.rows = 100, .width = 3};
  std::string const one = agreed(ssp{.staleness = 3}, t, 2);
  CHECK(one != agreed(ssp{.staleness = 4}, t, 2));
  CHECK(one != agreed(con_sgd{.staleness = 3}, t, 2));
  CHECK(one != agreed(with(ssp{.staleness = 3}, strict{}), t, 2));
  CHECK(one != agreed(asp{}, t, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, t, 3));
  CHECK(one != agreed(ssp{.staleness = 3}, dense<float>{.rows = 101, .width = 3}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, dense<float>{.rows = 100, .width = 4}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, dense<double>{.rows = 100, .width = 3}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, sparse<float>{.rows = 100, .width = 3}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, multi_version{t}, 2));
  CHECK(one != agreed(ssp{.staleness = 3},
                      dense<float, merge_of_protocol, range>{.rows = 100, .width = 3}, 2));
  // A pace with a conductor gives orders that others do not understand.
  CHECK(agreed(adsp{}, t, 2) != agreed(with(adsp{}, every_step{}), t, 2));
  CHECK(agreed(adsp{}, t, 2) != agreed(adsp{.global_rate = 0.25}, t, 2));
}

TEST_CASE("what rubato-server is told about a pace reaches its conductor") {
  worker_id const w{0};
  conductor::orders orders;
  CHECK_FALSE(conductor_for({"--protocol", "ssp", "--rows", "7"}));

  auto const adsp = conductor_for({"--protocol", "adsp", "--rows", "7", "--check-period", "0.5",
                                   "--first-rate", "3", "--probe-period", "1.5", "--epoch", "4.5"});
  REQUIRE(adsp);
  adsp->join(w, clock_index{0}, at(0), orders);
  adsp->tick(at(0), orders);
  auto const quota = only<commit_quota>(orders);
  CHECK(quota.period == seconds(0.5));
  CHECK(quota.commits == 3);
  // Two probes without a loss; then nothing is tried until the next epoch.
  std::vector<double> began;
  for (int half = 1; half <= 10; ++half) adsp->tick(at(0.5 * half), orders);
  for (auto const& c : adsp->changes()) began.push_back(to_seconds(c.at.since_start()));
  CHECK(began == std::vector<double>{0, 1.5, 4.5});

  auto const steady = conductor_for({"--protocol", "adsp", "--rows", "7", "--no-search"});
  steady->tick(at(0), orders);
  CHECK(steady->next_sample() == time_point::max());
  CHECK(steady->next_tick() == at(60));

  orders.clear();
  auto const ada_comm = conductor_for({"--protocol", "ada_comm", "--rows", "7", "--first-steps",
                                       "8", "--interval", "2", "--gamma", "0.25"});
  REQUIRE(ada_comm);
  CHECK(ada_comm->next_tick() == at(2));
  CHECK(ada_comm->changes().front().value == 8);
  ada_comm->join(w, clock_index{0}, at(0), orders);
  for (double const t : {0.0, 1.0}) ada_comm->observe(at(t), 10);
  ada_comm->tick(at(2), orders);
  CHECK(only<period_order>(orders).steps == 2);
}
