// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Memory that a server shares, and how others see it.
#include <rubato/transport/processes/arena_view.hpp>
#include <rubato/transport/processes/chunk_arena.hpp>
#include <rubato/transport/processes/pinned_states.hpp>

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/store_host.hpp>

#include "net/ends.hpp"

using namespace rubato;
using detail::arena_view;
using detail::chunk_arena;
using detail::pinned_states;
using Catch::Contains;

namespace {

wire::secret key_of(std::uint8_t first) {
  wire::secret key{};
  key[0] = first;
  return key;
}

std::unique_ptr<chunk_arena> arena_of(std::uint64_t bytes) {
  auto made = chunk_arena::make(bytes, key_of(9));
  REQUIRE(made != nullptr);
  return made;
}

std::unique_ptr<arena_view> seen(wire::memory_meta const& at) {
  std::string why;
  auto view = arena_view::open(at, why);
  INFO(why);
  REQUIRE(view != nullptr);
  return view;
}

std::string objection_to(wire::memory_meta const& at) {
  std::string why;
  CHECK(arena_view::open(at, why) == nullptr);
  return why;
}

std::size_t open_files() {
  using std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(directory_iterator("/proc/self/fd"), directory_iterator()));
}

/// A file of this process's, which is closed at its end.
struct some_file {
  explicit some_file(int f) : number(f) { REQUIRE(f >= 0); }
  some_file(some_file const&) = delete;
  some_file& operator=(some_file const&) = delete;
  ~some_file() { ::close(number); }
  [[nodiscard]] wire::memory_meta said(std::uint64_t bytes) const {
    return {.number = 0,
            .process = static_cast<std::uint32_t>(::getpid()),
            .file = static_cast<std::uint32_t>(number),
            .bytes = bytes,
            .key = {}};
  }
  int number;
};

constexpr std::size_t arena_rows = 3 * 8192 + 5;  // of int64: three chunks and a little

std::unique_ptr<table_host> table_in(block_memory* memory) {
  return make_host<dense_store<std::int64_t>>(
      store_shape{.rows = arena_rows, .width = 1, .threads = threading::single, .memory = memory});
}

void add_ones(table_host& to) {
  std::vector<std::int64_t> const ones(arena_rows, 1);
  to.fold_run(0, std::as_bytes(std::span(ones)), 1);
}

/// What lies at these places.
std::vector<std::int64_t> values_at(arena_view const& view, std::vector<std::uint64_t> const& places) {
  std::vector<std::int64_t> all(arena_rows);
  std::size_t left = arena_rows * sizeof(std::int64_t);
  std::vector<std::span<std::byte const>> pieces;
  for (std::uint64_t const place : places) {
    std::size_t const n = std::min<std::size_t>(left, 64 * 1024);
    view.check_place(place, n);
    pieces.emplace_back(view.at(place), n);
    left -= n;
  }
  REQUIRE(left == 0);
  std::span<std::byte> const room[] = {std::as_writable_bytes(std::span(all))};
  detail::copy_pieces(pieces, room);
  return all;
}

bool are_all(std::vector<std::int64_t> const& values, std::int64_t x) {
  return std::ranges::all_of(values, [x](auto v) { return v == x; });
}

}  // namespace

TEST_CASE("chunk_arena: what is given back is taken again, and there is an end to it", "[shm]") {
  auto const arena = arena_of(256 * 1024);
  void* const a = arena->take(1000);
  void* const b = arena->take(1000);
  REQUIRE(a != nullptr);
  REQUIRE(b != nullptr);
  CHECK(a != b);
  CHECK(reinterpret_cast<std::uintptr_t>(b) % 64 == 0);
  CHECK(arena->used() == 2048);
  arena->give(a, 1000);
  CHECK(arena->used() == 1024);
  CHECK(arena->take(1000) == a);
  CHECK(arena->take(64) != a);
  std::size_t taken = 0;
  while (arena->take(64 * 1024) != nullptr) ++taken;
  CHECK(taken >= 4 * 4);
  CHECK(taken < 4 * 4 + 66);  // and four MB
  CHECK(arena->take(64 * 1024) == nullptr);
}

TEST_CASE("chunk_arena: who looks at it sees what is written, and cannot write", "[shm]") {
  auto const arena = arena_of(1 << 20);
  auto* const at = static_cast<std::byte*>(arena->take(100));
  REQUIRE(at != nullptr);
  auto const place = arena->offset_of(at, 100);
  REQUIRE(place);
  auto const view = seen(arena->where());
  at[99] = std::byte{7};
  CHECK(view->at(*place)[99] == std::byte{7});
  CHECK(static_cast<void const*>(view->at(*place)) != static_cast<void const*>(at));
  auto* const page = const_cast<std::byte*>(view->at(0));
  CHECK(::mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0);
  std::byte outside{};
  CHECK_FALSE(arena->offset_of(&outside, 1));
  CHECK_FALSE(arena->offset_of(at, arena->where().bytes));
}

TEST_CASE("chunk_arena: another process sees it, also after the owner has gone", "[shm]") {
  auto arena = arena_of(1 << 20);
  auto* const at = static_cast<std::byte*>(arena->take(100));
  std::memset(at, 5, 100);
  auto const place = *arena->offset_of(at, 100);
  auto const where = arena->where();
  int lines[2];
  REQUIRE(::pipe(lines) == 0);
  pid_t const child = ::fork();
  if (child == 0) {  // without the library's promises of what a fork may do: it only looks
    std::string why;
    auto const view = arena_view::open(where, why);
    char told = view ? 'y' : 'n';
    (void)!::write(lines[1], &told, 1);
    ::usleep(100'000);
    bool const same = view && view->at(place)[0] == std::byte{5} && view->at(place)[99] == std::byte{5};
    ::_exit(same ? 0 : 1);
  }
  char told = 0;
  REQUIRE(::read(lines[0], &told, 1) == 1);
  arena.reset();
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(told == 'y');
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ::close(lines[0]);
  ::close(lines[1]);
}

TEST_CASE("arena_view: what is not the memory that was told of is not looked at, and no file stays open", "[shm]") {
  auto const arena = arena_of(1 << 20);
  auto const where = arena->where();
  test::temporary_folder const folder;
  some_file const plain(::open(folder.file("plain").c_str(), O_RDWR | O_CREAT, 0600));
  REQUIRE(::ftruncate(plain.number, 8192) == 0);
  some_file const unsealed(::memfd_create("unsealed", 0));
  REQUIRE(::ftruncate(unsealed.number, 8192) == 0);
  some_file const device(::open("/dev/null", O_RDWR));
  some_file const growing(::memfd_create("growing", MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(growing.number, 8192) == 0);
  REQUIRE(::fcntl(growing.number, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  std::size_t const before = open_files();

  auto other = where;
  other.key[3] ^= 1;
  CHECK(objection_to(other) == "it is not what has been told of");
  for (std::uint64_t const bytes : {std::uint64_t{0}, where.bytes - 1, where.bytes + 1, ~std::uint64_t{0}}) {
    other = where;
    other.bytes = bytes;
    CHECK(objection_to(other) == "it is of another size");
  }
  other = where;
  other.file = 1'000'000;
  CHECK(objection_to(other) == "No such file or directory");
  other.process = 0;
  CHECK_FALSE(objection_to(other).empty());
  CHECK(objection_to(plain.said(8192)) == "it is no memory that stays");
  CHECK(objection_to(unsealed.said(8192)) == "it is no memory that stays");
  CHECK(objection_to(growing.said(8192)) == "it is no memory that stays");
  // Of pages that may not be there when they are looked at; where a system has such.
  if (int const huge = ::memfd_create("huge", MFD_ALLOW_SEALING | MFD_HUGETLB); huge >= 0) {
    some_file const pages(huge);
    constexpr off_t one = 1 << 21;
    if (::ftruncate(huge, one) == 0 && ::fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
      CHECK(objection_to(pages.said(one)) == "it is no memory that stays");
  }
  CHECK(objection_to(device.said(8192)) == "it is no memory");
  CHECK(open_files() == before);
  CHECK(seen(where)->where() == where);
  CHECK(open_files() == before);
}

TEST_CASE("chunk_arena: none is made, and none looked at, where a process may not use many addresses", "[shm]") {
  auto const arena = arena_of(1 << 20);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  REQUIRE(before.rlim_cur == RLIM_INFINITY);
  rlimit now = before;
  now.rlim_cur = rlim_t{1} << 46;
  REQUIRE(::setrlimit(RLIMIT_AS, &now) == 0);
  auto const other = chunk_arena::make(1 << 20, key_of(1));
  std::string why;
  auto const view = arena_view::open(arena->where(), why);
  REQUIRE(::setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(other == nullptr);
  CHECK(view == nullptr);
  CHECK_THAT(why, Contains("addresses of this process are limited"));
}

TEST_CASE("arena_view: places beyond the memory are refused", "[shm]") {
  auto const arena = arena_of(1 << 20);
  auto const view = seen(arena->where());
  std::uint64_t const end = arena->where().bytes;
  CHECK_NOTHROW(view->check_place(detail::arena_head_size, end - detail::arena_head_size));
  CHECK_NOTHROW(view->check_place(end, 0));
  CHECK_THROWS_AS(view->check_place(0, 1), wire::frame_error);
  CHECK_THROWS_AS(view->check_place(detail::arena_head_size - 1, 1), wire::frame_error);
  CHECK_THROWS_AS(view->check_place(end, 1), wire::frame_error);
  CHECK_THROWS_AS(view->check_place(end - 1, 2), wire::frame_error);
  CHECK_THROWS_AS(view->check_place(~std::uint64_t{0}, 2), wire::frame_error);
  CHECK_THROWS_AS(view->check_place(detail::arena_head_size, ~std::uint64_t{0}), wire::frame_error);
  CHECK_NOTHROW(view->check_slot(detail::arena_head::pins_max - 1));
  CHECK_THROWS_AS(view->check_slot(detail::arena_head::pins_max), wire::frame_error);
}

TEST_CASE("pinned_states: what is pinned stays as it is while the table changes, and is free afterwards", "[shm]") {
  auto const arena = arena_of(arena_rows * sizeof(std::int64_t));
  auto const view = seen(arena->where());
  auto const table = table_in(arena.get());
  std::uint64_t const of_one = arena->used();
  pinned_states pinned(*arena);
  std::vector<std::uint64_t> places;
  table_state now;
  table->snapshot(now, {});
  auto const first = pinned.add(0, now, places);
  REQUIRE(first);
  CHECK(now.empty());
  CHECK(view->holds(first->number, first->slot));
  add_ones(*table);
  CHECK(are_all(values_at(*view, places), 0));
  CHECK(arena->used() == 2 * of_one);

  std::vector<std::uint64_t> later;
  table->snapshot(now, {});
  auto const second = pinned.add(0, now, later);
  REQUIRE(second);
  CHECK(are_all(values_at(*view, later), 1));
  CHECK(are_all(values_at(*view, places), 0));

  pinned.release(first->number);
  CHECK_FALSE(view->holds(first->number, first->slot));
  CHECK(view->holds(second->number, second->slot));
  CHECK(arena->used() == of_one);
  pinned.release(first->number);  // once more: of no interest
  CHECK(pinned.size() == 1);
  pinned.clear();
  CHECK_FALSE(view->holds(second->number, second->slot));
  CHECK(arena->pinned() == 0);
  CHECK(arena->used() == of_one);
  add_ones(*table);  // in place again
  CHECK(arena->used() == of_one);
}

TEST_CASE("pinned_states: a state that is elsewhere is left alone", "[shm]") {
  auto const arena = arena_of(arena_rows * sizeof(std::int64_t));
  pinned_states pinned(*arena);
  std::vector<std::uint64_t> places;
  auto const table = table_in(nullptr);
  table_state now;
  table->snapshot(now, {});
  CHECK_FALSE(pinned.add(0, now, places));
  CHECK_FALSE(now.empty());
  CHECK(pinned.size() == 0);
  CHECK(arena->pinned() == 0);
}

TEST_CASE("pinned_states: there is room for what changes while it is pinned, or it is not", "[shm]") {
  auto const arena = arena_of(arena_rows * sizeof(std::int64_t));
  auto const view = seen(arena->where());
  auto const table = table_in(arena.get());
  arena->settle();
  pinned_states pinned(*arena);
  std::vector<std::uint64_t> places;
  std::size_t held = 0;
  for (; held < 100; ++held) {
    table_state now;
    table->snapshot(now, {});
    if (!pinned.add(0, now, places)) break;
    add_ones(*table);
    table->snapshot(now, {});
    REQUIRE(arena->offset_of(now.chunk(0).data(), 1));  // not on the heap, from where it could not come back
  }
  CHECK(held == 3);  // and the last one
  pinned.clear();
  table_state now;
  table->snapshot(now, {});
  CHECK(pinned.add(0, now, places));
  CHECK(are_all(values_at(*view, places), static_cast<std::int64_t>(held)));
}

TEST_CASE("pinned_states: however many read one state, it is one", "[shm]") {
  auto const arena = arena_of(arena_rows * sizeof(std::int64_t));
  auto const table = table_in(arena.get());
  arena->settle();
  pinned_states pinned(*arena);
  std::vector<std::uint64_t> places;
  for (std::size_t i = 0; i < 20; ++i) {
    table_state now;
    table->snapshot(now, {});
    CHECK(pinned.add(i % 2, now, places));
  }
  CHECK(pinned.size() == 20);
  CHECK(pinned.of_table(1) == 10);
}

TEST_CASE("chunk_arena: no table takes another's room, and what had none comes back", "[shm]") {
  constexpr std::uint64_t wide_rows = 400;
  constexpr std::size_t width = 100;  // chunks of another size
  std::uint64_t const bytes = (arena_rows + wide_rows * width) * sizeof(std::int64_t);
  auto const arena = arena_of(bytes);
  auto const narrow = table_in(arena.get());
  auto const wide = make_host<dense_store<std::int64_t>>(
      store_shape{.rows = wide_rows, .width = width, .threads = threading::single, .memory = arena.get()});
  arena->settle();
  std::vector<std::int64_t> const ones(wide_rows * width, 1);
  auto const change = [&] { wide->fold_run(0, std::as_bytes(std::span(ones)), 1); };
  pinned_states pinned(*arena);
  std::vector<std::uint64_t> places;
  std::vector<table_state> read_slowly(200);  // by those who are sent the rows
  for (table_state& s : read_slowly) {
    wide->snapshot(s, {});
    change();
  }
  table_state now;
  wide->snapshot(now, {});
  CHECK_FALSE(pinned.add(1, now, places));  // there was no room for all of that
  now.clear();
  for (int i = 0; i < 3; ++i) {  // of the other one's room nothing is gone
    narrow->snapshot(now, {});
    CHECK(pinned.add(0, now, places));
    add_ones(*narrow);
  }
  read_slowly.clear();
  change();
  wide->snapshot(now, {});
  CHECK(pinned.add(1, now, places));
}

TEST_CASE("copy_pieces: any pieces into any room, few bytes and many", "[shm]") {
  for (std::size_t const n : {std::size_t{1000}, std::size_t{5} << 20}) {
    auto const from = test::pattern(n, 3);
    for (std::size_t const shift : {std::size_t{0}, std::size_t{1}, std::size_t{24}}) {
      test::bytes to(n + 64, std::byte{0xEE});
      std::span const all(from);
      std::size_t const cut = n / 3 + 7, other_cut = n / 2 + 1;
      std::span<std::byte const> const pieces[] = {all.first(cut), all.subspan(cut, 0), all.subspan(cut)};
      std::span const room = std::span(to).subspan(shift, n);
      std::span<std::byte> const rooms[] = {room.first(0), room.first(other_cut), room.subspan(other_cut)};
      detail::copy_pieces(pieces, rooms);
      CHECK(std::equal(from.begin(), from.end(), room.begin()));
      for (std::size_t i = 0; i < shift; ++i) CHECK(to[i] == std::byte{0xEE});
      CHECK(to[shift + n] == std::byte{0xEE});
    }
  }
}
