// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/data/file_assigner.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>

namespace rd = rubato::data;
using rubato::node_id;
using rd::file_assigner;
using rd::file_block;

namespace {

constexpr node_id node_a{0}, node_b{1}, node_c{2};

file_block block(std::uint64_t begin, std::vector<node_id> nodes = {}) {
  return {"f", begin, begin + 1, std::move(nodes)};
}

}  // namespace

TEST_CASE("blocks go to where they lie, then to whoever asks") {
  file_assigner files({block(0, {node_b}), block(1), block(2, {node_a, node_b}), block(3, {node_a})});
  CHECK(files.next(node_a)->begin == 2);
  CHECK(files.next(node_a)->begin == 3);
  CHECK(files.next(node_a)->begin == 1);  // as near to all, before one that lies with another
  CHECK(files.left() == 1);
  CHECK(files.next(node_c)->begin == 0);
  CHECK_FALSE(files.next(node_b));
  CHECK(files.local() == 2);
  CHECK(files.left() == 0);
}

TEST_CASE("what a lost node was given is dealt out anew") {
  file_assigner files({block(0, {node_a}), block(1, {node_a}), block(2)});
  CHECK(files.next(node_a)->begin == 0);
  CHECK(files.next(node_b)->begin == 2);
  CHECK(files.lost(node_a) == 1);
  CHECK(files.lost(node_a) == 0);
  CHECK(files.left() == 2);
  CHECK(files.local() == 0);
  CHECK(files.next(node_b)->begin == 0);
  CHECK(files.next(node_a)->begin == 1);
  CHECK(files.local() == 1);
  CHECK_FALSE(files.next(node_b));
}

TEST_CASE("what comes back is dealt out in the order of the list") {
  file_assigner files(
      {block(0, {node_a}), block(1, {node_a}), block(2), block(3), block(4, {node_b}), block(5, {node_b})});
  for (std::uint64_t const begin : {0U, 1U, 2U}) CHECK(files.next(node_a)->begin == begin);
  CHECK(files.next(node_b)->begin == 4);
  CHECK(files.lost(node_a) == 3);
  CHECK(files.next(node_a)->begin == 0);
  CHECK(files.next(node_c)->begin == 2);
  CHECK(files.next(node_c)->begin == 3);
  CHECK(files.lost(node_b) == 1);
  CHECK(files.next(node_c)->begin == 1);
  CHECK(files.next(node_c)->begin == 4);
  CHECK(files.next(node_b)->begin == 5);
  CHECK_FALSE(files.next(node_b));
}

TEST_CASE("each block is held by one node at any time, whatever is lost") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    rubato::random_stream random(seed, 0xa551);
    std::vector<file_block> blocks;
    for (std::uint64_t i = 0; i < 40; ++i) {
      blocks.push_back(block(i));
      for (std::uint32_t n = 0; n < 4; ++n)
        if (random.chance(0.3)) blocks.back().nodes.push_back(node_id{n});
    }
    file_assigner files(blocks);
    std::map<std::uint64_t, node_id> held;
    std::size_t local = 0;
    auto const is_local = [&](std::uint64_t begin, node_id n) {
      auto const& nodes = blocks[begin].nodes;
      return std::ranges::find(nodes, n) != nodes.end();
    };
    while (files.left() != 0) {
      node_id const n{static_cast<std::uint32_t>(random.below(5))};
      if (random.chance(0.05)) {
        std::size_t lost = 0;
        for (auto at = held.begin(); at != held.end();) {
          bool const goes = at->second == n;
          if (goes) ++lost, local -= is_local(at->first, n) ? 1 : 0;
          at = goes ? held.erase(at) : std::next(at);
        }
        REQUIRE(files.lost(n) == lost);
        continue;
      }
      auto const got = files.next(n);
      REQUIRE(got);
      REQUIRE(held.emplace(got->begin, n).second);
      if (is_local(got->begin, n)) ++local;
      bool const some_here = std::ranges::any_of(blocks, [&](auto const& one) {
        return !held.contains(one.begin) && is_local(one.begin, n);
      });
      REQUIRE((is_local(got->begin, n) || !some_here));
      REQUIRE(files.local() == local);
    }
    REQUIRE(held.size() == blocks.size());
  }
}

TEST_CASE("loaders in many threads share the blocks") {
  std::vector<file_block> blocks;
  for (std::uint64_t i = 0; i < 1000; ++i) blocks.push_back(block(i));
  file_assigner files(blocks);
  std::atomic<std::uint64_t> sum = 0;
  {
    std::vector<std::jthread> loaders;
    for (std::uint32_t n = 0; n < 4; ++n)
      loaders.emplace_back([&files, &sum, n] {
        while (auto const one = files.next(node_id{n})) sum += one->begin;
      });
  }
  CHECK(sum == 1000 * 999 / 2);
}

TEST_CASE("share_out: blocks stay where they lie, as far as parts are even") {
  auto const begins = [](std::vector<file_block> const& share) {
    std::vector<std::uint64_t> all;
    for (auto const& one : share) all.push_back(one.begin);
    return all;
  };
  auto const shares =
      rd::share_out({block(0, {node_b}), block(1), block(2, {node_a, node_b}), block(3, {node_a}), block(4, {node_b}),
                     block(5, {node_b})},
                    2);
  REQUIRE(shares.size() == 2);
  CHECK(begins(shares[0]) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(begins(shares[1]) == std::vector<std::uint64_t>{0, 4, 5});
  CHECK(rd::share_out({}, 3) == std::vector<std::vector<file_block>>(3));
  CHECK(begins(rd::share_out({{"a.gz"}, {"b.gz"}, {"c", 0, 5}}, 3)[1]) == std::vector<std::uint64_t>{0});
}

TEST_CASE("share_out: what cannot be meant is refused by name") {
  CHECK_THROWS_WITH(rd::share_out({block(0)}, 0), "share_out: nodes must be at least 1");
  CHECK_THROWS_WITH(rd::share_out({{"f", 9, 3}}, 1),
                    Catch::Contains("f ends at byte 3, expected none before its first, 9"));
}

TEST_CASE(
    "share_out: each block once, no node more than its part and a block, and where it lies if nothing speaks against "
    "it") {
  rubato::random_stream random(3, 0);
  for (int round = 0; round < 300; ++round) {
    auto const nodes = static_cast<std::uint32_t>(1 + random.below(6));
    std::vector<file_block> blocks;
    std::uint64_t all = 0, largest = 0;
    for (std::uint64_t i = random.below(30); i != 0; --i) {
      std::uint64_t const bytes = random.below(100);
      file_block one{"f", all, all + bytes, {}};
      for (std::uint64_t copies = random.below(3); copies != 0; --copies)
        one.nodes.emplace_back(static_cast<std::uint32_t>(random.below(8)));  // perhaps none that loads
      blocks.push_back(one);
      all += bytes;
      largest = std::max(largest, bytes);
    }
    auto const shares = rd::share_out(blocks, nodes);
    CHECK(rd::share_out(blocks, nodes) == shares);
    std::size_t dealt = 0;
    for (auto const& share : shares) {
      std::uint64_t bytes = 0;
      for (auto const& one : share) {
        bytes += one.end - one.begin;
        CHECK(std::ranges::count(blocks, one) >= 1);
      }
      CHECK(bytes <= all / nodes + 1 + largest);
      CHECK(std::ranges::is_sorted(share, {}, &file_block::begin));
      dealt += share.size();
    }
    CHECK(dealt == blocks.size());
  }
}
