// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/windowed_body.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "seeds.hpp"

using namespace rubato;

namespace {

using body_bytes = std::vector<std::byte>;
using detail::windowed_body;

body_bytes pattern(std::size_t size, std::size_t salt) {
  body_bytes b(size);
  for (std::size_t i = 0; i < size; ++i) b[i] = static_cast<std::byte>((i * 7 + i / 256 + salt) % 251);
  return b;
}

/// A body of stretches, and where they came out.
struct body {
  std::vector<body_bytes> stored, streamed;  ///< as sent; table i is streamed[i]
  std::vector<body_bytes> rooms;
  std::map<std::size_t, body_bytes> used;    ///< by table
  std::size_t uses = 0;

  explicit body(std::vector<std::size_t> const& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      stored.push_back(pattern(i * 100, i));
      streamed.push_back(pattern(sizes[i], 50 + i));
    }
  }
  void lay_out(windowed_body& p, std::uint64_t sequence, double weight = 2) {
    rooms.assign(stored.size(), {});
    p.begin(sequence);
    for (std::size_t i = 0; i < stored.size(); ++i) {
      rooms[i].resize(stored[i].size());
      p.add({.room = rooms[i]});
      p.add({.room = {}, .table = i, .bytes = streamed[i].size(), .weight = weight});
    }
  }
  [[nodiscard]] body_bytes sent() const {
    body_bytes all;
    for (std::size_t i = 0; i < stored.size(); ++i) {
      all.insert(all.end(), stored[i].begin(), stored[i].end());
      all.insert(all.end(), streamed[i].begin(), streamed[i].end());
    }
    return all;
  }
  void take(windowed_body& p) {
    p.take([this](std::size_t table, std::size_t first, std::span<std::byte const> from, double weight) {
      ++uses;
      CHECK(weight == 2);
      body_bytes& to = used[table];
      REQUIRE(first == to.size());  // in order, and no piece twice
      to.insert(to.end(), from.begin(), from.end());
    });
  }
  /// Receives up to `limit` bytes; whether that was all.
  bool receive(windowed_body& p, std::size_t limit) {
    body_bytes const all = sent();
    std::size_t at = 0;
    std::vector<std::span<std::byte>> room;
    for (p.give(room); !room.empty(); take(p), p.give(room)) {
      for (auto const one : room) {
        std::size_t const n = std::min(one.size(), limit - at);
        std::memcpy(one.data(), all.data() + at, n);
        at += n;
        if (n < one.size()) return false;
      }
      room.clear();
      if (at == all.size()) break;  // the last window is taken at the end of the frame
    }
    take(p);
    CHECK(at == all.size());
    return true;
  }
  void check() {
    for (std::size_t i = 0; i < stored.size(); ++i) {
      CHECK((rooms[i] == stored[i]));
      CHECK((used[i] == streamed[i]));
    }
  }
};

constexpr std::size_t window = windowed_body::window_size;

}  // namespace

TEST_CASE("windowed_body: all that is streamed comes through the window once, in order") {
  for (auto const& sizes : std::vector<std::vector<std::size_t>>{
           {8}, {window}, {window + 8}, {0, 3 * window, 16}, {5 * window + 1000, 0, window}}) {
    body b(sizes);
    windowed_body p;
    b.lay_out(p, 1);
    CHECK(b.receive(p, b.sent().size()));
    b.check();
    p.end();
    body next(sizes);  // as if nothing had come before it
    next.lay_out(p, 1);
    CHECK(next.receive(p, next.sent().size()));
    next.check();
  }
}

TEST_CASE("windowed_body: what a broken attempt has used is not used again") {
  for (std::uint64_t i = 0; i < test::seed_count(200); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    std::mt19937_64 random(seed);
    std::vector<std::size_t> sizes(1 + random() % 3);
    for (auto& s : sizes) s = 8 * (random() % (window / 2));
    body b(sizes);
    windowed_body p;
    for (int broken = static_cast<int>(random() % 5); broken > 0; --broken) {
      b.lay_out(p, 7);
      if (b.receive(p, random() % (b.sent().size() + 1))) break;
    }
    b.lay_out(p, 7);
    CHECK(b.receive(p, b.sent().size()));
    b.check();
    p.end();
  }
}

TEST_CASE("windowed_body: another frame starts from its beginning, and one of no weight is not used") {
  body first({4 * window});
  windowed_body p;
  first.lay_out(p, 1);
  CHECK_FALSE(first.receive(p, 3 * window));
  CHECK(p.any_used());
  body second({2 * window + 8});
  second.lay_out(p, 2);
  CHECK(second.receive(p, second.sent().size()));
  second.check();
  p.end();
  body ignored({2 * window});
  ignored.lay_out(p, 3, 0);
  CHECK(ignored.receive(p, ignored.sent().size()));
  CHECK(ignored.uses == 0);
}

TEST_CASE("windowed_body: windows end between units, and the rest counts as the first attempt did") {
  constexpr std::size_t unit = 65'520;
  std::vector<std::size_t> firsts;
  std::vector<double> weights;
  windowed_body p;
  auto const attempt = [&](double weight, int windows) {
    p.begin(3);
    p.add({.room = {}, .table = 0, .bytes = 50 * unit + 8, .unit = unit, .weight = weight});
    std::vector<std::span<std::byte>> room;
    for (p.give(room); !room.empty() && windows > 0; --windows) {
      room.clear();
      p.take([&](std::size_t, std::size_t first, std::span<std::byte const>, double w) {
        firsts.push_back(first);
        weights.push_back(w);
      });
      p.give(room);
    }
  };
  attempt(0.5, 2);
  CHECK(p.any_used());
  attempt(0.25, 100);
  CHECK(firsts.size() == 4);
  for (std::size_t const first : firsts) CHECK(first % unit == 0);
  CHECK(weights == std::vector<double>(4, 0.5));
  p.end();
  CHECK_FALSE(p.any_used());
  attempt(0, 100);
  CHECK_FALSE(p.any_used());
}
