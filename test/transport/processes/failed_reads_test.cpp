// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Reads over processes that cannot be asked for, since memory ends, or whose answers are not taken: the next one is not
// touched by that.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stop_token>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/storage/table_description.hpp>
#include <rubato/transport/tcp.hpp>

#include "failing_memory.hpp"
#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace rubato::test;

namespace {

constexpr std::size_t few = 40;
constexpr std::size_t many = 300;
constexpr counting small_table{.rows = few};

/// One worker beside two servers with a table, and one whose rows are too many to be read as a whole.
template <class Body>
void work(Body body) {
  keyed_counting const keyed{.width = 1};
  serving const run({.workers = 1, .servers = 2}, asp{}, {describe(small_table), describe(keyed)});
  tcp options = run.process(0, 1);
  options.sparse_max = many;
  cluster c{options, asp{}, small_table, keyed};
  bool is_over = false;
  std::jthread const watching([&](std::stop_token const& enough) {  // so that nobody hangs
    for (int i = 0; i < 6000 && !enough.stop_requested(); ++i) std::this_thread::sleep_for(10ms);
    if (!enough.stop_requested()) c.stop();
  });
  c.run([&](auto& w) {
    std::vector<std::uint64_t> keys(many);
    std::iota(keys.begin(), keys.end(), 0U);
    w[table<0>].push(std::vector<std::int64_t>(few, 1));
    w[table<1>].push(keys, std::vector<std::int64_t>(many, 1));
    w.step();
    body(w);
    is_over = true;
  });
  REQUIRE(is_over);
}

template <class Worker>
void check_read(Worker& w) {
  std::vector<std::int64_t> all(few);
  w[table<0>].pull(all);
  REQUIRE(all == std::vector<std::int64_t>(few, 1));
}

}  // namespace

TEST_CASE("tcp: of a prefetch that could not be asked for nothing is under way", "[tcp]") {
  std::size_t const times = for_each_end_of_memory([](auto attempt) {
    work([&](auto& w) {
      attempt([&] { w[table<0>].prefetch(); });
      check_read(w);
      check_read(w);
    });
  });
  CHECK((times > 2 || !memory_can_end()));
}

TEST_CASE("tcp: what was refused beside a prefetch that could not be asked for is not for the next read", "[tcp]") {
  int heard = 0, unheard = 0;
  for_each_end_of_memory([&](auto attempt) {
    work([&](auto& w) {
      w[table<1>].prefetch();
      std::this_thread::sleep_for(50ms);  // its answers come, and are too large
      bool const is_asked = attempt([&] { w[table<0>].prefetch(); });
      try {
        check_read(w);
        REQUIRE_FALSE(is_asked);
        ++unheard;
      } catch (error const& e) {  // nothing of the other one had been asked for, or all
        REQUIRE(e.code() == errc::bad_option);
        ++heard;
      }
      check_read(w);
    });
  });
  INFO(heard << " " << unheard);
  CHECK((unheard > 1 || !memory_can_end()));
  CHECK((heard > 0 || !memory_can_end()));
}
