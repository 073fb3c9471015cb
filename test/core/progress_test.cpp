// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/progress.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include <rubato/core/random.hpp>

using rubato::clock_index;
using rubato::progress;
using rubato::worker_id;

namespace {

/// Obviously right, and slow: the definitions of rules §1, word by word.
class reference {
 public:
  clock_index c_min() const {
    clock_index m = clock_index::highest();
    for (auto const& [w, c] : clocks_) m = std::min(m, c);
    return m;
  }
  clock_index c_max() const {
    clock_index m = clock_index::lowest();
    for (auto const& [w, c] : clocks_) m = std::max(m, c);
    return m;
  }
  clock_index floor() const { return clocks_.empty() ? last_ : c_min(); }

  void join(worker_id w, clock_index c) { clocks_[w] = c; }
  void leave(worker_id w) {
    last_ = c_min();
    clocks_.erase(w);
  }
  void advance(worker_id w, clock_index c) { clocks_[w] = c; }
  std::map<worker_id, clock_index> const& clocks() const { return clocks_; }

 private:
  std::map<worker_id, clock_index> clocks_;
  clock_index last_{0};
};

void require_same(progress const& p, reference const& r, std::uint32_t workers) {
  REQUIRE(p.c_min() == r.c_min());
  REQUIRE(p.c_max() == r.c_max());
  REQUIRE(p.floor() == r.floor());
  REQUIRE(p.live() == r.clocks().size());
  for (std::uint32_t i = 0; i < workers; ++i) {
    auto const known = r.clocks().find(worker_id{i});
    REQUIRE(p.contains(worker_id{i}) == (known != r.clocks().end()));
    if (known != r.clocks().end()) REQUIRE(p.of(worker_id{i}) == known->second);
  }
}

void random_walk(std::uint64_t seed, std::uint32_t workers, int events) {
  rubato::random_stream random(seed);
  progress p;
  reference r;
  clock_index floor = p.floor();
  for (int i = 0; i < events; ++i) {
    // Now and then nearly everybody leaves, so that empty and small runs occur as well.
    bool const exodus = i / 97 % 4 == 3;
    worker_id const w{static_cast<std::uint32_t>(random.below(workers))};
    if (!p.contains(w)) {
      if (exodus) continue;
      clock_index const c{p.floor().value() + static_cast<std::int64_t>(random.below(3))};
      p.join(w, c);
      r.join(w, c);
    } else if (random.below(exodus ? 2 : 12) == 0) {
      p.leave(w);
      r.leave(w);
    } else {
      clock_index const c{p.of(w).value() + static_cast<std::int64_t>(random.below(4))};
      p.advance(w, c);
      r.advance(w, c);
    }
    INFO("seed " << seed << ", event " << i);
    require_same(p, r, workers);
    REQUIRE(p.floor() >= floor);
    floor = p.floor();
  }
}

}  // namespace

TEST_CASE("progress: agrees with a scan over all workers after every join, leave and advance") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    random_walk(seed, 1, 200);
    random_walk(seed, 3, 400);
    random_walk(seed, 17, 600);
  }
  random_walk(11, 130, 1500);
}

TEST_CASE("progress: before anybody joins nobody is waited for, and a joiner starts at 0") {
  progress const p;
  CHECK(p.live() == 0);
  CHECK(p.c_min() == clock_index::highest());
  CHECK(p.c_max() == clock_index::lowest());
  CHECK(p.floor() == clock_index{0});
  CHECK_FALSE(p.contains(worker_id{0}));
  CHECK_FALSE(p.contains(worker_id{1000}));
}

TEST_CASE("progress: c_min may jump by several clocks when the slowest leaves (rules §1)") {
  progress p;
  p.join(worker_id{0}, clock_index{0});
  p.join(worker_id{1}, clock_index{0});
  p.advance(worker_id{1}, clock_index{5});
  CHECK(p.c_min() == clock_index{0});
  p.leave(worker_id{0});
  CHECK(p.c_min() == clock_index{5});
}

TEST_CASE("progress: the floor does not fall when everybody has left (rules §1)") {
  progress p;
  p.join(worker_id{4}, clock_index{0});
  p.advance(worker_id{4}, clock_index{9});
  p.leave(worker_id{4});
  CHECK(p.live() == 0);
  CHECK(p.floor() == clock_index{9});
  p.join(worker_id{5}, p.floor());
  CHECK(p.c_min() == clock_index{9});
}

TEST_CASE("progress: growing keeps every clock") {
  progress p;
  for (std::uint32_t i = 0; i < 100; ++i) {
    p.join(worker_id{i * 7}, p.floor());
    p.advance(worker_id{i * 7}, clock_index{i + 1});
    CHECK(p.c_min() == clock_index{1});
    CHECK(p.c_max() == clock_index{i + 1});
  }
  for (std::uint32_t i = 0; i < 100; ++i) CHECK(p.of(worker_id{i * 7}) == clock_index{i + 1});
}
