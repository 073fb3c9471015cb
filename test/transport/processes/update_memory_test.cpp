// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Memory of a worker process's updates, and what a server has borrowed of it.
#include <rubato/transport/processes/borrowed_frame.hpp>
#include <rubato/transport/processes/update_memory.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/processes/arena_view.hpp>
#include <rubato/transport/processes/outbound_frames.hpp>

using namespace rubato;
using detail::update_memory;

namespace {

using big_dense = dense<float, sum>;

std::shared_ptr<update_memory> memory_of(std::vector<table_description> const& tables, std::uint32_t servers = 1) {
  net::asio_network network;
  return update_memory::make(blueprint(asp{}, servers, tables), 1, network);
}

/// Whether an array of so many bytes lies there.
bool has_room(update_memory& memory, std::size_t bytes) {
  void* const at = memory.take(bytes);
  if (at != nullptr) memory.give(at, bytes);
  return at != nullptr;
}

}  // namespace

TEST_CASE("update_memory: only whole updates have room, of tables that no codec writes, and large ones") {
  auto const memory = memory_of({describe(big_dense{.rows = 20'000}), describe(big_dense{.rows = 100}),
                                 describe(big_dense{.rows = 30'000, .codec = {.updates = int8_blocks{}}}),
                                 describe(sparse<float, sum>{})});
  REQUIRE(memory);
  CHECK(has_room(*memory, 80'000));
  CHECK_FALSE(has_room(*memory, 79'996));
  CHECK_FALSE(has_room(*memory, 400));
  CHECK_FALSE(has_room(*memory, 120'000));
  CHECK(memory->used() == 0);
}

TEST_CASE("update_memory: each server has updates of its own size") {
  std::vector<table_description> const tables{describe(big_dense{.rows = 50'001})};
  auto const memory = memory_of(tables, 2);
  REQUIRE(memory);
  blueprint const plan(asp{}, 2, tables);
  for (std::uint32_t s = 0; s < 2; ++s)
    CHECK(has_room(*memory, static_cast<std::size_t>(plan.table(0).where().rows_of(server_id{s})) * sizeof(float)));
  CHECK_FALSE(has_room(*memory, 50'001 * sizeof(float)));
}

TEST_CASE("update_memory: sizes that differ little share slots, and others do not") {
  net::asio_network network;
  blueprint const plan(asp{}, 3, {describe(big_dense{.rows = 100'001}), describe(big_dense{.rows = 200'000})});
  auto const memory = update_memory::make(plan, 1, network);
  REQUIRE(memory);
  auto const bytes_of = [&](std::size_t table, std::uint32_t s) {
    return static_cast<std::size_t>(plan.table(table).where().rows_of(server_id{s})) * sizeof(float);
  };
  std::vector<std::size_t> sizes{bytes_of(0, 0), bytes_of(0, 1), bytes_of(0, 2)};
  std::ranges::sort(sizes);
  REQUIRE(sizes.front() != sizes.back());
  void* const at = memory->take(sizes.front());
  REQUIRE(at != nullptr);
  std::uint64_t const of_one = memory->used();
  CHECK(of_one >= sizes.back());
  CHECK(of_one < sizes.back() + sizes.back() / 8);
  memory->give(at, sizes.front());
  for (std::size_t const bytes : sizes) {
    void* const again = memory->take(bytes);
    CHECK(again == at);
    memory->give(again, bytes);
  }
  void* const other = memory->take(bytes_of(1, 0));
  CHECK(memory->used() >= bytes_of(1, 0));
  memory->give(other, bytes_of(1, 0));
  CHECK(memory->used() == 0);
}

TEST_CASE("update_memory: tables lend whose whole updates are large and come as they are") {
  auto const lends = [](auto const& table) {
    blueprint const plan(asp{}, 1, {describe(table)});
    return update_memory::lends(plan.table(0), 1);
  };
  CHECK(lends(big_dense{.rows = 20'000}));
  CHECK(lends(big_dense{.rows = 20'000, .codec = {.answers = bfloat16{}}}));
  CHECK_FALSE(lends(big_dense{.rows = 20'000, .codec = {.updates = bfloat16{}}}));
  CHECK_FALSE(lends(big_dense{.rows = 100}));
  CHECK_FALSE(lends(sparse<float, sum>{}));
}

TEST_CASE("update_memory: there is none where no update is large") {
  CHECK(memory_of({describe(big_dense{.rows = 16'383})}) == nullptr);
  CHECK(memory_of({describe(big_dense{.rows = 16'384})}) != nullptr);
  CHECK(memory_of({describe(sparse<float, sum>{})}) == nullptr);
}

TEST_CASE("update_memory: it ends, and what is given back has room again") {
  auto const memory = memory_of({describe(big_dense{.rows = 20'000})});
  REQUIRE(memory);
  std::vector<void*> all;
  while (void* const at = memory->take(80'000)) all.push_back(at);
  CHECK(all.size() >= 4);
  CHECK(all.size() < 100);
  memory->give(all.back(), 80'000);
  CHECK(has_room(*memory, 80'000));
}

TEST_CASE("update_memory: once it is retired nothing is taken or written") {
  auto const memory = memory_of({describe(big_dense{.rows = 20'000})});
  REQUIRE(memory);
  auto* const at = static_cast<std::byte*>(memory->take(80'000));
  REQUIRE(at != nullptr);
  std::fill_n(at, 80'000, std::byte{7});
  memory->retire();
  memory->give(at, 80'000);
  CHECK(std::count(at, at + 80'000, std::byte{7}) == 80'000);
  CHECK_FALSE(has_room(*memory, 80'000));
}

TEST_CASE("update_memory: values are lent where they lie there, and are not too few") {
  auto const memory = memory_of({describe(big_dense{.rows = 20'000})});
  REQUIRE(memory);
  raw_array there(memory), elsewhere;
  there.resize_bytes(80'000);
  elsewhere.resize_bytes(80'000);
  std::uint64_t const place = memory->place_of(there.bytes());
  REQUIRE(place != 0);
  CHECK(memory->place_of(elsewhere.bytes()) == 0);
  CHECK(memory->place_of({}) == 0);
  there.resize_bytes(update_memory::bytes_min);
  CHECK(memory->place_of(there.bytes()) == place);
  there.resize_bytes(update_memory::bytes_min - 4);
  CHECK(memory->place_of(there.bytes()) == 0);
}

TEST_CASE("commit_frame: what the server sees is not in the body, but under way") {
  auto const memory = memory_of({describe(big_dense{.rows = 20'000})});
  REQUIRE(memory);
  bool const sees = GENERATE(true, false);
  update lent{.whole = true, .rows = {}, .values = raw_array(memory)}, few{.whole = false, .rows = {3}, .values = {}};
  lent.values.assign_zeros(80'000);
  few.values.assign_zeros(4);
  std::byte const* const values = lent.values.data();
  commit_message m;
  m.parts.push_back(shared_update(std::move(lent)));
  m.parts.push_back(shared_update(std::move(few)));
  detail::commit_frame const frame(std::move(m), {}, sees ? memory.get() : nullptr);
  auto const meta = wire::from_bytes<wire::commit_meta>(frame.meta());
  REQUIRE(meta.parts.size() == 2);
  CHECK(meta.parts[0].bytes == 80'000);
  CHECK((meta.parts[0].place != 0) == sees);
  CHECK(meta.parts[0].place == (sees ? memory->place_of({values, 80'000}) : 0));
  CHECK(meta.parts[1].place == 0);
  std::vector<std::span<std::byte const>> body;
  frame.gather(body);
  std::size_t size = 0;
  for (auto const piece : body) size += piece.size();
  CHECK(size == (sees ? 0 : 80'000) + 8 + 4);
  CHECK(frame.lent() == (sees ? 80'000 : 0));
}

TEST_CASE("commit_frame: no more is lent at once than may be, and of the rest a piece of each turn is in the body") {
  table_description const table = describe(big_dense{.rows = 20'000});
  blueprint const plan(asp{}, 1, {table, table});
  auto const memory = memory_of({table});
  REQUIRE(memory);
  std::size_t const most = GENERATE(79'999U, 80'000U, 159'999U, 160'000U);
  commit_message m;
  for (int i = 0; i < 2; ++i) {
    update u{.whole = true, .rows = {}, .values = raw_array(memory)};
    u.values.assign_zeros(80'000);
    m.parts.push_back(shared_update(std::move(u)));
  }
  detail::commit_frame const frame(std::move(m), plan.tables(), memory.get(), most);
  std::vector<std::span<std::byte const>> body;
  frame.gather(body);
  std::size_t size = 0;
  for (auto const piece : body) size += piece.size();
  std::size_t const in_turns = 2 - most / 80'000;
  constexpr std::size_t piece = std::size_t{64} * 1024;
  CHECK(size == in_turns * piece);
  CHECK(frame.lent() == 160'000 - size);
  auto const meta = wire::from_bytes<wire::commit_meta>(frame.meta());
  for (std::size_t i : {0U, 1U}) {
    CHECK(meta.parts.at(i).place != 0);
    CHECK(meta.parts.at(i).in_turns == (i >= 2 - in_turns));
  }
}

TEST_CASE("borrowed_frame: it is over with the last of what refers to it, and keeps the memory until then") {
  auto const memory = memory_of({describe(big_dense{.rows = 20'000})});
  REQUIRE(memory);
  std::string why;
  std::shared_ptr<detail::arena_view const> view = detail::arena_view::open(memory->where(), why);
  REQUIRE(view);
  std::weak_ptr<detail::arena_view const> const alive = view;
  auto const over = std::make_shared<detail::frames_over>();
  auto borrowed = std::make_shared<detail::borrowed_frame>(over, detail::frames_over::frame{5, 6}, view);
  std::byte const* const at = view->at(4096);
  view.reset();
  raw_array a = raw_array::borrowed(borrowed, at, 64), b = raw_array::borrowed(borrowed, at + 64, 64);
  borrowed.reset();
  a = {};
  CHECK(over->take().empty());
  CHECK_FALSE(alive.expired());
  b = {};
  CHECK(alive.expired());
  auto const all = over->take();
  REQUIRE(all.size() == 1);
  CHECK(all[0].session == 5);
  CHECK(all[0].number == 6);
  CHECK(over->take().empty());
}
