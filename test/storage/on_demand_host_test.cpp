// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/on_demand_host.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/nesterov.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/paged_store.hpp>
#include <rubato/storage/store_host.hpp>
#include <rubato/storage/table_description.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::whole;

namespace {

using numbers = std::vector<std::int64_t>;
using runs = std::vector<row_run>;

constexpr std::uint64_t row_count = 25;

/// Rows 0, 1, 2 … that have the values 100, 101, 102 …, and come in chunks of ten.
struct elsewhere {
  runs asked;  ///< so far
  bool fails = false;

  std::unique_ptr<on_demand_host> host(std::unique_ptr<table_host> inner) {
    return std::make_unique<on_demand_host>(std::move(inner), store_shape{.rows = row_count}, sizeof(std::int64_t), 87,
                                            [this](std::span<row_run const> some, std::byte* out) {
                                              if (fails) throw std::runtime_error("cut off");
                                              auto* to = reinterpret_cast<std::int64_t*>(out);
                                              for (row_run const& r : some)
                                                for (std::uint64_t k = 0; k < r.count; ++k)
                                                  *to++ = static_cast<std::int64_t>(100 + r.first + k);
                                              asked.insert(asked.end(), some.begin(), some.end());
                                            });
  }
};

std::unique_ptr<table_host> dense_rows() {
  return make_host<dense_store<std::int64_t>>(store_shape{.rows = row_count});
}

numbers read(table_host const& h, std::vector<std::uint64_t> const& some) {
  numbers out(some.size());
  h.read(some, reinterpret_cast<std::byte*>(out.data()), {});
  return out;
}

void add(table_host& h, update const& u) {
  weighted_part const one{&u, 1.0};
  h.fold({&one, 1}, std::nullopt);
}

numbers all_of(table_host const& h) {
  std::vector<std::uint64_t> every(row_count);
  std::iota(every.begin(), every.end(), std::uint64_t{0});
  return read(h, every);
}

}  // namespace

TEST_CASE("on_demand_host: rows come in chunks, each once, when one of them is used") {
  elsewhere home;
  auto const h = home.host(dense_rows());
  CHECK(h->rows_here() == 0);
  CHECK(read(*h, {3, 24, 7}) == numbers{103, 124, 107});
  CHECK(home.asked == runs{{0, 10}, {20, 5}});
  CHECK(read(*h, {9, 20}) == numbers{109, 120});
  CHECK(home.asked.size() == 2);
  CHECK(h->rows_here() == 15);
  add(*h, keyed<std::int64_t>({10}, {1}));
  CHECK(home.asked.back() == row_run{10, 10});
  CHECK(read(*h, {10, 11}) == numbers{111, 111});
  CHECK(home.asked.size() == 3);
}

TEST_CASE("on_demand_host: whatever needs all rows brings those that are missing, in one go") {
  auto const after = [](auto use) {
    elsewhere home;
    auto const h = home.host(dense_rows());
    (void)read(*h, {12});
    home.asked.clear();
    use(*h);
    CHECK(h->rows_here() == row_count);
    return home.asked;
  };
  runs const others{{0, 10}, {20, 5}};
  CHECK(after([](on_demand_host& h) {
          table_state s;
          h.snapshot(s, {});
        }) == others);
  CHECK(after([](on_demand_host& h) { (void)h.chunk(0); }) == others);
  CHECK(after([](on_demand_host& h) { h.bring_all(); }) == others);
  CHECK(after([](on_demand_host& h) { add(h, whole<std::int64_t>(numbers(row_count, 1))); }) == others);
  CHECK(after([](on_demand_host& h) { h.fold({}, 0.5); }) == others);
  merge_rule const by_element = nesterov{};
  CHECK(after([&](on_demand_host& h) { h.step({}, {by_element.elements(), worker_id{0}, 1}); }) == others);
  CHECK(after([&](on_demand_host& h) {
          std::int64_t out = 0;
          std::uint64_t const row = 12;
          h.read({&row, 1}, reinterpret_cast<std::byte*>(&out), {.own = own_copy{worker_id{0}, by_element.elements()}});
        }) == others);
}

TEST_CASE("on_demand_host: rows that have been put in, or are to be zero, need not come") {
  elsewhere home;
  auto const h = home.host(dense_rows());
  numbers const values(row_count, 7);
  h->put(std::as_bytes(std::span(values)));
  CHECK(all_of(*h) == values);
  CHECK(h->take_changed().empty());
  auto const zero = home.host(dense_rows());
  zero->clear();
  CHECK(all_of(*zero) == numbers(row_count));
  CHECK(zero->take_changed() == runs{{0, row_count}});
  CHECK(home.asked.empty());
}

TEST_CASE("on_demand_host: it knows which rows have been changed since it was asked") {
  elsewhere home;
  auto const h = home.host(dense_rows());
  (void)all_of(*h);
  CHECK(h->take_changed().empty());
  add(*h, keyed<std::int64_t>({24}, {1}));
  CHECK(h->take_changed() == runs{{20, 5}});
  CHECK(h->take_changed().empty());
  numbers const two{1, 2};
  h->fold_run(9, std::as_bytes(std::span(two)), 1.0);
  CHECK(h->take_changed() == runs{{0, 20}});
  h->assign_run(19, std::as_bytes(std::span(two)));
  CHECK(h->take_changed() == runs{{10, 15}});
  h->assign(keyed<std::int64_t>({0}, {4}));
  CHECK(h->take_changed() == runs{{0, 10}});
  h->add_version({}, keyed<std::int64_t>({11}, {4}), 1.0);
  CHECK(h->take_changed() == runs{{10, 10}});
}

TEST_CASE("on_demand_host: rows that could not come are asked for again") {
  elsewhere home;
  auto const h = home.host(dense_rows());
  home.fails = true;
  CHECK_THROWS_WITH(read(*h, {3}), "cut off");
  CHECK_THROWS_WITH(add(*h, keyed<std::int64_t>({3}, {1})), "cut off");
  CHECK(h->rows_here() == 0);
  CHECK(h->take_changed().empty());
  home.fails = false;
  CHECK(read(*h, {3}) == numbers{103});
}

TEST_CASE("on_demand_host: it holds what a host holds whose rows were there from the beginning") {
  random_stream random(5, 0);
  paging const little{.memory_limit = 64, .chunk_bytes = 32};
  for (int round = 0; round < 100; ++round) {
    elsewhere home;
    auto const lazy = home.host(
        round % 2 == 0 ? dense_rows() : make_host<paged_store<std::int64_t>>(store_shape{.rows = row_count}, little));
    auto const eager = dense_rows();
    numbers start(row_count);
    std::iota(start.begin(), start.end(), std::int64_t{100});
    eager->assign_run(0, std::as_bytes(std::span(start)));
    for (int i = 0; i < 30; ++i) {
      std::uint64_t const row = random.below(row_count);
      if (random.chance(0.5)) {
        CHECK(read(*lazy, {row, row_count - 1 - row}) == read(*eager, {row, row_count - 1 - row}));
      } else {
        update const u =
            random.chance(0.1) ? whole<std::int64_t>(numbers(row_count, i)) : keyed<std::int64_t>({row}, {i});
        add(*lazy, u);
        add(*eager, u);
      }
    }
    CHECK(all_of(*lazy) == all_of(*eager));
  }
}

TEST_CASE("on_demand_host: threads that use it while rows come miss nothing", "[threads]") {
  elsewhere home;
  auto const h = home.host(dense_rows());
  std::atomic<bool> torn = false;
  std::vector<std::thread> all;
  for (std::uint64_t t = 0; t < 4; ++t)
    all.emplace_back([&, t] {
      random_stream random(t, 1);
      for (int i = 0; i < 200; ++i) {
        std::uint64_t const row = random.below(row_count);
        add(*h, keyed<std::int64_t>({row}, {1000}));
        if (read(*h, {row})[0] % 1000 != static_cast<std::int64_t>(100 + row)) torn = true;
      }
    });
  for (auto& t : all) t.join();
  CHECK_FALSE(torn);
  numbers const end = all_of(*h);
  CHECK(std::accumulate(end.begin(), end.end(), std::int64_t{0}) == 4 * 200 * 1000 + 25 * 100 + 24 * 25 / 2);
  std::uint64_t came = 0;
  for (row_run const& r : home.asked) came += r.count;
  CHECK(came == row_count);
}
