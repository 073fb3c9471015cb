// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/paged_store.hpp>

#include <catch2/catch.hpp>

#include <sys/resource.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/paged.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/testing/check_store.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::weighted;
using test::whole;
using Catch::Contains;

namespace {

constexpr replacement policies[] = {replacement::least_recently_used, replacement::least_frequently_used};

/// Room for `chunks` chunks of `rows` rows of one float.
paging room_for(std::size_t chunks, std::size_t rows, replacement r = replacement::least_recently_used) {
  return {.memory_limit = chunks * rows * sizeof(float), .chunk_bytes = rows * sizeof(float), .replace = r};
}

std::vector<float> all_of(auto const& store, std::size_t rows) {
  std::vector<float> out(rows);
  store.copy(0, rows, out.data());
  return out;
}

float row_of(paged_store<float> const& s, std::uint64_t row) {
  float x = -1;
  s.read({&row, 1}, &x);
  return x;
}

void add(paged_store<float>& s, std::uint64_t row, float x) {
  update const u = keyed<float>({row}, {x});
  weighted_update<float> const w = weighted<float>(u, 1.0);
  s.fold({&w, 1});
}

}  // namespace

TEST_CASE("a paged store does what every store does, whatever has room") {
  for (replacement const r : policies)
    for (std::size_t const chunks : std::array<std::size_t, 4>{1, 2, 7, 1000}) {
      INFO("chunks in memory: " << chunks);
      std::size_t const row = 7 * sizeof(double);
      paging const limit{.memory_limit = chunks * 30 * row, .chunk_bytes = 30 * row, .replace = r};
      CHECK(testing::check_store<paged_store<double>>({.rows = 2000}, limit).empty());
    }
  CHECK(testing::check_store<paged_store<std::int32_t>>({.rows = 500}, paging{}).empty());
}

TEST_CASE("a paged store holds what a dense store holds, bit for bit") {
  constexpr std::size_t rows = 1000;
  for (replacement const r : policies) {
    store_shape const shape{.rows = rows, .width = 1, .threads = threading::single};
    paged_store<float> paged(shape, room_for(3, 16, r));
    dense_store<float> dense(shape);
    random_stream random(5, 0, 0);
    for (int i = 0; i < 300; ++i) {
      update u;
      if (i % 20 == 0) {
        std::vector<float> values(rows);
        for (float& x : values) x = static_cast<float>(random.uniform());
        u = whole(values);
      } else {
        std::vector<std::uint64_t> keys;
        std::vector<float> values;
        for (std::uint64_t k = random.below(300); k < rows; k += 1 + random.below(200)) {
          keys.push_back(k);
          values.push_back(static_cast<float>(random.uniform()));
        }
        u = keyed(std::move(keys), values);
      }
      weighted_update<float> const w = weighted<float>(u, random.uniform());
      paged.fold({&w, 1});
      dense.fold({&w, 1});
      REQUIRE(paged.bytes() <= 3 * 16 * sizeof(float));
    }
    CHECK(all_of(paged, rows) == all_of(dense, rows));
    CHECK(paged.chunks().reloads() > 0);
  }
}

TEST_CASE("rows that nobody has touched take no memory and are zero") {
  paged_store<float> s({.rows = 1'000'000'000, .width = 1}, room_for(4, 1024));
  CHECK(s.bytes() == 0);
  CHECK(row_of(s, 999'999'999) == 0);
  CHECK(s.bytes() == 0);
  add(s, 999'999'999, 2);
  CHECK(row_of(s, 999'999'999) == 2);
  CHECK(row_of(s, 999'999'998) == 0);
  CHECK(s.bytes() == 1024 * sizeof(float));
}

TEST_CASE("the chunk that goes is the one that the policy names") {
  SECTION("least recently used") {
    paged_store<float> s({.rows = 40, .width = 1}, room_for(2, 10));
    add(s, 0, 1);
    add(s, 10, 2);
    for (int i = 0; i < 5; ++i) (void)row_of(s, 10);
    (void)row_of(s, 0);
    add(s, 20, 3);  // 10 … 19 go
    CHECK(row_of(s, 0) == 1);
    CHECK(s.chunks().reloads() == 0);
    CHECK(row_of(s, 10) == 2);
    CHECK(s.chunks().reloads() == 1);
  }
  SECTION("least frequently used") {
    paged_store<float> s({.rows = 40, .width = 1}, room_for(2, 10, replacement::least_frequently_used));
    add(s, 0, 1);
    add(s, 10, 2);
    for (int i = 0; i < 5; ++i) (void)row_of(s, 10);
    (void)row_of(s, 0);
    add(s, 20, 3);  // 0 … 9 go
    CHECK(row_of(s, 10) == 2);
    CHECK(s.chunks().reloads() == 0);
    CHECK(row_of(s, 0) == 1);  // and now 20 … 29, which have been used once
    CHECK(s.chunks().reloads() == 1);
    CHECK(row_of(s, 10) == 2);
    CHECK(s.chunks().reloads() == 1);
    CHECK(row_of(s, 20) == 3);
    CHECK(s.chunks().reloads() == 2);
  }
}

TEST_CASE("how often a chunk was used before it went does not count when it is back") {
  paged_store<float> s({.rows = 40, .width = 1}, room_for(2, 10, replacement::least_frequently_used));
  for (int i = 0; i < 2; ++i) add(s, 0, 1);
  for (int i = 0; i < 3; ++i) add(s, 10, 1);
  add(s, 20, 1);  // 0 … 9 go,
  for (int i = 0; i < 2; ++i) (void)row_of(s, 0);  // come back,
  add(s, 30, 1);  // and go again: used twice, not four times
  CHECK(s.chunks().reloads() == 1);
  CHECK(row_of(s, 10) == 3);
  CHECK(s.chunks().reloads() == 1);
}

TEST_CASE("a chunk that has not been changed since it came is not lost when it goes again") {
  paged_store<float> s({.rows = 20, .width = 1}, room_for(1, 10));
  add(s, 3, 1);
  add(s, 13, 2);
  for (int i = 0; i < 3; ++i) {
    CHECK(row_of(s, 3) == 1);
    CHECK(row_of(s, 13) == 2);
  }
  add(s, 3, 4);
  CHECK(row_of(s, 13) == 2);
  CHECK(row_of(s, 3) == 5);
}

TEST_CASE("threads that use more chunks than there is room for lose nothing") {
  constexpr std::uint64_t rows = 400;
  paged_store<float> s({.rows = rows, .width = 1}, room_for(2, 10));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&s, t] {
      for (std::uint64_t i = 0; i < 2000; ++i) add(s, (i * 37 + static_cast<std::uint64_t>(t) * 11) % rows, 1);
    });
  for (auto& t : threads) t.join();
  std::vector<float> const all = all_of(s, rows);
  CHECK(std::accumulate(all.begin(), all.end(), 0.0F) == 8000);
  add(s, 0, 1);
  add(s, 399, 1);
  CHECK(s.bytes() <= 2 * 10 * sizeof(float));  // what came on top has gone again
}

TEST_CASE("paging that cannot be meant is named") {
  auto const opened = [](paging p) { paged_store<float> const s({.rows = 100, .width = 4}, p); };
  CHECK_THROWS_WITH(opened({.chunk_bytes = 15}), Contains("chunk_bytes is 15") && Contains("16 bytes"));
  CHECK_THROWS_WITH(opened({.memory_limit = 63, .chunk_bytes = 64}), Contains("memory_limit is 63") && Contains("64"));
  CHECK_THROWS_AS(opened({.directory = "/nowhere/at/all"}), option_error);
  CHECK_THROWS_WITH(opened({.directory = "/nowhere/at/all"}), Contains("'/nowhere/at/all'"));
  CHECK_THROWS_AS(opened({.replace = static_cast<replacement>(9)}), option_error);
  CHECK_NOTHROW(opened({.memory_limit = 64, .chunk_bytes = 64}));
  char const* const set = std::getenv("TMPDIR");
  std::optional<std::string> const usual = set == nullptr ? std::nullopt : std::optional<std::string>(set);
  ::setenv("TMPDIR", "/nowhere/at/all", 1);
  CHECK_THROWS_AS(opened({}), option_error);
  CHECK_THROWS_WITH(opened({}), Contains("TMPDIR") && Contains("'/nowhere/at/all'"));
  if (usual) ::setenv("TMPDIR", usual->c_str(), 1);
  else ::unsetenv("TMPDIR");
}

TEST_CASE("a disk that is full is an error, and loses no chunk") {
  auto const before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &usual) == 0);
  paged_store<float> s({.rows = 40, .width = 1}, room_for(2, 10));
  add(s, 0, 1);
  add(s, 10, 2);
  rlimit const none{0, usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &none) == 0);
  errc code{};
  std::string said;
  try {
    add(s, 20, 3);
  } catch (error const& e) {
    code = e.code();
    said = e.what();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &usual) == 0);
  std::signal(SIGXFSZ, before);
  CHECK(code == errc::io);
  CHECK_THAT(said, Contains("could not be written"));
  CHECK(row_of(s, 0) == 1);
  CHECK(row_of(s, 10) == 2);
  CHECK(row_of(s, 20) == 0);
  add(s, 20, 3);
  CHECK(row_of(s, 20) == 3);
}

TEST_CASE("the file is gone with the store, and has no name while it is there") {
  auto const dir = std::filesystem::temp_directory_path() / "rubato-paged-store-test";
  std::filesystem::create_directory(dir);
  {
    paging limit = room_for(1, 10);
    limit.directory = dir.string();
    paged_store<float> s({.rows = 40, .width = 1}, limit);
    for (std::uint64_t row = 0; row < 40; ++row) add(s, row, static_cast<float>(row));
    CHECK(s.chunks().reloads() == 0);
    CHECK(row_of(s, 3) == 3);
    CHECK(s.chunks().reloads() == 1);
    CHECK(std::filesystem::is_empty(dir));
  }
  std::filesystem::remove(dir);
}

namespace {

/// What BSP makes of a table in which each worker pushes to some rows by key, as a function of what it read.
template <class Table>
std::vector<float> train(auto const& transport, Table const& t) {
  engine e{transport};
  task job{t};
  auto const stage = job.stage({.workers = 3, .protocol = bsp{}, .iterations = 30}, [](auto& w, iteration_range todo) {
    std::vector<std::uint64_t> keys(20);
    std::vector<float> values(20), delta(20);
    for (std::int64_t i : todo) {
      for (std::size_t k = 0; k < keys.size(); ++k)
        keys[k] = (static_cast<std::uint64_t>(i) * 131 + w.rank() * 17 + k * 197) % 4000;
      w.pull(keys, values);
      for (std::size_t k = 0; k < keys.size(); ++k) delta[k] = 0.37F * static_cast<float>(k + 1) - values[k] / 3;
      w.push(keys, delta);
      w.step();
    }
  });
  job.repeat(2, stage);
  e.submit(job).wait();
  return job.parameters();
}

}  // namespace

TEST_CASE("under BSP a task's model that is four times its memory is the same, bit for bit") {
  std::vector<float> init(4000);
  std::iota(init.begin(), init.end(), 0.5F);
  using table = dense<float, sum>;
  auto const whole_in_memory = train(simulated{.workers = 3}, table{.rows = 4000, .init = init});
  for (replacement const r : policies) {
    paged<float, sum> const t{{.rows = 4000, .init = init}, {.memory_limit = 4000, .chunk_bytes = 500, .replace = r}};
    CHECK(train(simulated{.workers = 3}, t) == whole_in_memory);
  }
}

TEST_CASE("a paged table begins at zero where a stage clears it") {
  engine e{in_process{.workers = 2}};
  task job{paged<double, sum>{{.rows = 100}, {.memory_limit = 160, .chunk_bytes = 80}}};
  auto const stage = job.stage({.workers = 2, .cleared = {0}}, [](auto& w) {
    w.push(std::vector<double>(100, 1.0));
    w.step();
  });
  job.repeat(3, stage);
  e.submit(job).wait();
  CHECK(job.parameters() == std::vector<double>(100, 2.0));
}
