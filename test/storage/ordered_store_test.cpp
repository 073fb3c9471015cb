// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/ordered_store.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/storage/ordered.hpp>
#include <rubato/testing/check_store.hpp>
#include <rubato/transport/simulated.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::weighted;

TEST_CASE("an ordered store does what every store does") {
  CHECK(testing::check_store<ordered_store<float>>({.rows = 500}).empty());
  CHECK(testing::check_store<ordered_store<std::int64_t>>({.rows = 500, .width = 1}).empty());
}

TEST_CASE("an ordered store tells its rows by ascending key, and holds no others") {
  ordered_store<float> s({.width = 2});
  CHECK(s.bytes() == 0);
  update const u = keyed<float>({900, 7, 1ull << 60}, {1, 2, 3, 4, 5, 6});
  weighted_update<float> const w = weighted<float>(u, 2.0);
  s.fold({&w, 1});
  std::size_t const three = s.bytes();
  s.fold({&w, 1});
  CHECK(s.bytes() == three);
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  s.collect(keys, values);
  CHECK(keys == std::vector<std::uint64_t>{7, 900, 1ull << 60});
  CHECK(values == std::vector<float>{12, 16, 4, 8, 20, 24});
}

TEST_CASE("an ordered table trains like a sparse one") {
  auto const train = [](auto const& table) {
    cluster c{simulated{.workers = 3, .servers = 2}, bsp{}, table};
    c.run([](auto& w) {
      std::vector<std::uint64_t> const keys{w.rank(), 1ull << 40, 77 * (w.rank() + 1)};
      std::vector<float> values(6);
      for (int i = 0; i < 10; ++i) {
        w.pull(keys, values);
        for (float& x : values) x = 1 - x / 4;
        w.push(keys, values);
        w.step();
      }
    });
    return c.parameters();
  };
  auto const tree = train(ordered<float>{{.width = 2}});
  auto const hash = train(sparse<float>{.width = 2});
  CHECK(tree.keys == hash.keys);
  CHECK(tree.values == hash.values);
  CHECK(tree.keys.size() == 7);
}
