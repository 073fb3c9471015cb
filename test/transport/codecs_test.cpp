// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Updates and answers that a codec writes, whichever way they are carried.
#include <rubato/storage/codec.hpp>

#include <catch2/catch.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/ordered.hpp>
#include <rubato/storage/paged.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/transport/tcp.hpp>

#include "seeds.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

/// What each worker has read, by rank, and the parameters in the end where they can be looked at.
struct codec_outcome {
  std::vector<std::vector<double>> read{3};
  std::vector<double> end{};
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

constexpr std::uint32_t servers = 2;

/// Reads all or some, and pushes all or some, with numbers that no codec keeps.
template <class T, bool bounded, class Read>
void wander(auto& worker, Read read_all, std::size_t rows, std::size_t width, int clocks, std::vector<double>& seen) {
  std::vector<T> values;
  std::vector<key> some;
  // Some rows are others', too, in other company.
  for (std::uint64_t k = worker.rank(); k < 500; k += 5 + 2 * worker.rank()) some.push_back(key{k * 11 % 500});
  for (int clock = 0; clock < clocks; ++clock) {
    if (clock % 2 == 0) {
      values = read_all(worker);
    } else {
      values.assign(some.size() * width, T{});
      worker.pull(some, values);
    }
    for (std::size_t i = 0; i < values.size(); i += 1 + values.size() / 100'000) seen.push_back(values[i]);
    bool const pushes_all = bounded && clock % 3 == 2;
    values.resize((pushes_all ? rows : some.size()) * width);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<T>(0.37 / static_cast<double>(i % 29 + 1)) - values[i] / 9;
    if constexpr (bounded)
      if (pushes_all) worker.push(values);
    if (!pushes_all) worker.push(some, values);
    worker.step();
  }
}

template <class Transport, class Table>
void run_one(Transport transport, rules const& p, Table const& table, codec_outcome& out) {
  cluster c{std::move(transport), p, table};
  using T = typename Table::value_type;
  auto const read_all = [&](auto& worker) {
    if constexpr (Table::bounded) {
      std::vector<T> all(table.rows * table.width);
      worker.pull(all);
      return all;
    } else {
      sparse_snapshot<T> all;
      worker[rubato::table<0>].pull(all);
      return all.values;
    }
  };
  int const clocks = table.rows * table.width > 1'000'000 ? 3 : 6;  // the third is the first to push all
  auto const report = c.run([&](auto& worker) {
    wander<T, Table::bounded>(worker, read_all, table.rows, table.width, clocks, out.read[worker.rank()]);
  });
  out.sent = report.total().bytes_sent;
  out.received = report.total().bytes_received;
  if constexpr (Table::bounded) {
    auto const end = c.parameters();
    out.end.assign(end.begin(), end.end());
  } else {
    auto const end = c.parameters();
    out.end.assign(end.values.begin(), end.values.end());
  }
}

/// In processes that this program plays.
template <class Table>
codec_outcome run_over_tcp(rules const& p, Table const& table, std::uint32_t how_many, int number) {
  net::deployment place;
  place.coordinator.path = "/tmp/rubato-codecs-" + std::to_string(::getpid()) + "-" + std::to_string(number);
  place.silence = 10s;
  place.patience = 20s;
  place.servers = servers;
  codec_outcome out, others_see;
  auto const serve = [&](net::role as, std::uint32_t rank) {
    return std::thread([place, as, rank, &p, &table]() mutable {
      place.as = as;
      place.rank = rank;
      cluster c{tcp{.place = place}, p, table};
      c.run([](auto&) {});
    });
  };
  std::vector<std::thread> others;
  others.push_back(serve(net::role::coordinator, 0));
  for (std::uint32_t s = 0; s < servers; ++s) others.push_back(serve(net::role::server, s));
  run_one(tcp{.place = place, .threads = how_many}, p, table, out);
  for (auto& t : others) t.join();
  return out;
}

template <class Table>
codec_outcome same_everywhere(rules const& p, Table const& table, int number, std::uint32_t how_many = 3) {
  codec_outcome here, simulated_one;
  run_one(in_process{.workers = how_many, .servers = servers}, p, table, here);
  run_one(simulated{.workers = how_many, .servers = servers}, p, table, simulated_one);
  codec_outcome const there = run_over_tcp(p, table, how_many, number);
  CHECK(here.read == simulated_one.read);
  CHECK(here.read == there.read);
  CHECK(here.end == simulated_one.end);
  CHECK(here.end == there.end);
  // There the threads of a process do not ask for what one of them has asked for.
  if (how_many == 1) CHECK(here.sent == there.sent);
  CHECK(here.sent == simulated_one.sent);
  CHECK(here.sent >= there.sent);
  CHECK((here.sent - there.sent) % sizeof(std::uint64_t) == 0);
  return here;
}

template <class T>
dense<T> dense_with(table_codec const& c) {
  return {.rows = 15'000, .width = 3, .codec = c};  // some chunks on each server, which rows do not fill
}
template <class T>
sparse<T> sparse_with(table_codec const& c) {
  return {.rows = 15'000, .width = 3, .codec = c};
}

}  // namespace

TEST_CASE("codecs: threads, virtual time and processes come to the same, bit for bit", "[threads]") {
  table_codec const half{.updates = bfloat16{}, .answers = bfloat16{}};
  table_codec const byte{.updates = int8_blocks{}, .answers = int8_blocks{}};
  int number = 0;
  auto const plain = same_everywhere(bsp{}, dense_with<float>({}), number++);
  auto const halves = same_everywhere(bsp{}, dense_with<float>(half), number++);
  CHECK(halves.end != plain.end);
  CHECK(100 * halves.received < 51 * plain.received);
  CHECK(100 * halves.sent < 75 * plain.sent);  // with the numbers of rows
  auto const bytes = same_everywhere(bsp{}, dense_with<double>(byte), number++);
  CHECK(100 * bytes.received < 27 * plain.received);
  same_everywhere(bsp{}, sparse_with<float>(byte), number++);
  same_everywhere(bsp{}, sparse_with<double>(half), number++);
  same_everywhere(bsp{}, dense_with<float>({.updates = int8_blocks{}}), number++);
  same_everywhere(bsp{}, dense_with<float>({.answers = int8_blocks{}}), number++);
  same_everywhere(with(bsp{}, significance{.threshold = 0.01}), dense_with<float>(byte), number++);
}

TEST_CASE("codecs: what a store keeps its rows in makes no difference") {
  table_codec const mixed{.updates = int8_blocks{}, .answers = bfloat16{}};
  auto const simulated_reads = [](auto const& table) {
    codec_outcome out;
    run_one(simulated{.workers = 2, .servers = servers}, bsp{}, table, out);
    return out.read;
  };
  dense<float> const plain = dense_with<float>(mixed);
  CHECK(simulated_reads(paged<float>{plain, {.memory_limit = 1 << 18}}) == simulated_reads(plain));
  CHECK(simulated_reads(ordered<float>{sparse_with<float>(mixed)}) == simulated_reads(sparse_with<float>(mixed)));
}

TEST_CASE("codecs: a row that is read by key is coded by itself, whatever lies beside it") {
  std::vector<float> const first{1000, -1000, 1, -1};
  dense<float> const table{.rows = 2, .width = 2, .init = first, .codec = {.answers = int8_blocks{}}};
  std::vector<float> together(4), alone(2), whole(4);
  cluster c{simulated{.workers = 1, .servers = 1}, ssp{}, table};
  c.run([&](auto& worker) {
    worker.pull(std::vector{key{0}, key{1}}, together);
    worker.push(std::vector<float>(4));
    worker.step();
    worker.pull(std::vector{key{1}}, alone);
    worker.push(std::vector<float>(4));
    worker.step();
    worker.pull(whole);
  });
  CHECK(alone == std::vector<float>{1, -1});
  CHECK(std::vector<float>{together[2], together[3]} == alone);
  CHECK(std::vector<float>{whole[2], whole[3]} == std::vector<float>(2));  // beside a thousand they are nothing
}

// Then nothing is held back: servers fold updates of over 1 MB while they arrive, and send tables from where they lie.
TEST_CASE("codecs: of one worker all transports make the same, bit for bit, where updates and answers are large",
          "[threads]") {
  int number = 100;
  for (table_codec const& c : {table_codec{.updates = bfloat16{}, .answers = int8_blocks{}},
                               table_codec{.updates = int8_blocks{}, .answers = bfloat16{}}}) {
    dense<float> table = dense_with<float>(c);
    table.rows = test::sanitized() ? 12'001 : 24'001;
    table.width = 100;
    same_everywhere(ssp{.staleness = 1}, table, number++, 1);
  }
  table_codec const mixed{.updates = int8_blocks{}, .answers = bfloat16{}};
  same_everywhere(ssp{.staleness = 1}, sparse_with<float>(mixed), number++, 1);
  same_everywhere(dyn_sgd{}, multi_version(dense_with<float>(mixed)), number++, 1);
}
