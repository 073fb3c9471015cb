// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Where a table lives changes nothing of what is read and trained.
#include <rubato/partition/on_servers.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/partition/key_ranges.hpp>
#include <rubato/partition/range.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/ordered.hpp>
#include <rubato/storage/paged.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

using namespace rubato;

namespace {

using counts = std::vector<std::int64_t>;

constexpr std::uint64_t row_count = 50;
constexpr std::size_t width = 2;
constexpr std::uint32_t worker_count = 3;
constexpr int clock_count = 6;

/// Each clock is a version; they are folded once no worker is there any more.
struct by_clock {
  version_index map(commit_info const& c) const noexcept { return version_index{c.stamp.value()}; }
  double weight(commit_info const&) const noexcept { return 1; }
  double share(version_state const&) const noexcept { return 1; }
  std::optional<double> expire(version_state const& v, version_window const& w) const noexcept {
    if (v.version.value() >= w.c_min.value()) return std::nullopt;
    return 1.0;
  }
  version_index version_after(version_read const& r) const noexcept { return r.own; }
  static constexpr bool exact = true;
};

struct outcome {
  std::vector<counts> read;  ///< what each worker read, one read after the other
  counts first, second;      ///< the tables in the end
};

std::int64_t amount(std::uint32_t worker, int clock, std::size_t i) {
  return static_cast<std::int64_t>((worker + 1) * 1'000'000 + 1000 * static_cast<std::size_t>(clock) + i);
}

template <class Table>
void use(Table const& table, std::uint32_t worker, int clock, counts& read) {
  std::vector<std::uint64_t> const keys{worker, 7, 49 - worker, 20};
  counts delta(row_count * width), whole(row_count * width), some(keys.size() * width);
  for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = amount(worker, clock, i);
  if constexpr (Table::bounded) {
    if (clock % 2 == 0) table.prefetch();
    table.pull(whole);
    read.insert(read.end(), whole.begin(), whole.end());
    table.push(delta);
  } else {
    sparse_snapshot<std::int64_t> touched;
    table.pull(touched);
    for (std::uint64_t const k : touched.keys) read.push_back(static_cast<std::int64_t>(k));
    read.insert(read.end(), touched.values.begin(), touched.values.end());
  }
  table.push(keys, counts(delta.begin(), delta.begin() + static_cast<std::ptrdiff_t>(some.size())));
  table.pull(keys, some);  // with the own pushes
  read.insert(read.end(), some.begin(), some.end());
}

counts flat_of(counts const& all) { return all; }
counts flat_of(sparse_snapshot<std::int64_t> const& all) {
  counts out(all.keys.begin(), all.keys.end());
  out.insert(out.end(), all.values.begin(), all.values.end());
  return out;
}

template <class Transport, class First, class Second>
outcome train(Transport const& where, rules const& protocol, First const& first, Second const& second) {
  cluster c{where, protocol, first, second};
  outcome o{.read = std::vector<counts>(worker_count), .first = {}, .second = {}};
  c.run([&](auto& worker) {
    counts& read = o.read[worker.rank()];
    for (int clock = 0; clock < clock_count; ++clock) {
      use(worker[table<0>], worker.rank(), clock, read);
      use(worker[table<1>], worker.rank(), clock, read);
      worker.step();
    }
  });
  o.first = flat_of(c.template parameters<0>());
  o.second = flat_of(c.template parameters<1>());
  return o;
}

// Tables of integers with any partition.
template <class P>
auto dense_on(P p) {
  return dense<std::int64_t, sum, P>{.rows = row_count, .width = width, .partition = std::move(p)};
}
template <class P>
auto sparse_on(P p) {
  return sparse<std::int64_t, sum, P>{.width = width, .partition = std::move(p)};
}
template <class P>
auto paged_on(P p) {
  return paged<std::int64_t, sum, P>{{.rows = row_count, .width = width, .partition = std::move(p)},
                                     {.memory_limit = 128, .chunk_bytes = 64}};
}
template <class P>
auto ordered_on(P p) {
  return ordered<std::int64_t, sum, P>{{.width = width, .partition = std::move(p)}};
}
template <class P>
auto versions_on(P p) {
  return multi_version{
      dense<std::int64_t, by_clock, P>{.rows = row_count, .width = width, .partition = std::move(p)}};
}

/// A table that `make` puts on two servers, beside one on all, against both on all.
template <class Make>
void check_same(Make make) {
  auto const compare = [&](auto const& where, rules const& protocol, auto const& on) {
    outcome const all = train(where, protocol, make(range_hash{}), dense_on(range_hash{}));
    outcome const some = train(where, protocol, make(on), dense_on(range_hash{}));
    CHECK(some.first == all.first);
    CHECK(some.second == all.second);
    return some.read == all.read;
  };
  auto const in_both = [&](auto const& on) {
    simulated const fibers{.workers = worker_count, .servers = 4};
    in_process const threads{.workers = worker_count, .servers = 4};
    // What a worker reads beside the others' last commits the barrier alone makes certain.
    CHECK(compare(fibers, with(bsp{}, sum{}), on));
    CHECK(compare(threads, with(bsp{}, sum{}), on));
    for (rules const& protocol :
         {rules(ssp{.staleness = 2}), rules(asp{}), rules(with(ssp{.staleness = 2}, strict{})),
          rules(with(ssp{.staleness = 1}, stable_cut{}))}) {
      compare(fibers, protocol, on);
      compare(threads, protocol, on);
    }
  };
  in_both(on_servers{{1, 3}});
  in_both(on_servers({3, 1}, key_ranges({0, 11})));
  in_both(key_ranges({0, 0, 30, 30}));
}

}  // namespace

TEST_CASE("some servers: a dense table on two of four servers is the same, bit for bit") {
  check_same([](auto p) { return dense_on(p); });
}

TEST_CASE("some servers: a sparse table on two of four servers is the same, bit for bit") {
  check_same([](auto p) { return sparse_on(p); });
}

TEST_CASE("some servers: a paged table on two of four servers is the same, bit for bit") {
  check_same([](auto p) { return paged_on(p); });
}

TEST_CASE("some servers: an ordered table on two of four servers is the same, bit for bit") {
  check_same([](auto p) { return ordered_on(p); });
}

TEST_CASE("some servers: a table that keeps versions on two of four servers is the same, bit for bit") {
  check_same([](auto p) { return versions_on(p); });
}

TEST_CASE("some servers: initial values go to the servers of the list only") {
  counts start(row_count * width);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<std::int64_t>(i);
  auto first = dense_on(on_servers{{1, 3}});
  first.init = start;
  cluster c{simulated{.servers = 4}, asp{}, first};
  CHECK(c.parameters() == start);
}

TEST_CASE("some servers: a list that the cluster cannot serve is an option_error before anything runs") {
  simulated const three{.servers = 3};
  CHECK_THROWS_WITH((cluster{three, asp{}, dense_on(on_servers{{1, 3}})}),
                    Catch::Contains("no server 3, expected servers below 3"));
  CHECK_THROWS_AS((cluster{three, asp{}, sparse_on(on_servers{{1, 3}})}), option_error);
  CHECK_THROWS_AS((cluster{three, asp{}, sparse_on(key_ranges({0, 5}))}), option_error);
}
