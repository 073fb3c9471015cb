// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/peer/local_step.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/peer/combine.hpp"
#include "rubato/peer/parameter_pool.hpp"
#include "seeds.hpp"

using namespace rubato;

namespace {

// Of many magnitudes, so that another order of operations shows in the last bits.
template <class T>
std::vector<T> random_numbers(random_stream& random, std::size_t n) {
  std::vector<T> all(n);
  for (T& x : all) {
    double const scale = random.chance(0.5) ? 1 : 1000;
    x = static_cast<T>(random.normal() * scale);
  }
  return all;
}

// The first place where they differ in value, for a message that says more than "false".
template <class T>
std::optional<std::size_t> difference(std::span<T const> a, std::span<T const> b) {
  if (a.size() != b.size()) return std::min(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return i;
  return std::nullopt;
}
template <class T>
std::optional<std::size_t> difference(std::vector<T> const& a, std::vector<T> const& b) {
  return difference(std::span<T const>(a), std::span<T const>(b));
}

// 002 §7.2 as one writes it down: v ← momentum·v + (g + decay·x), to ← to − rate·v.
template <class T>
struct written_out {
  T rate, momentum, decay;
  std::vector<T> v;

  void apply(std::vector<T> const& x, std::vector<T> const& g, std::vector<T>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      T const pull = decay == 0 ? g[i] : g[i] + decay * x[i];
      v[i] = momentum == 0 ? pull : momentum * v[i] + pull;
      to[i] -= rate * v[i];
    }
  }
};

template <class Step, class T>
using state_of = detail::step_state<Step, T>;

// Applies a whole step in blocks that begin at `cuts`, one after the other.
template <class T, class State>
void in_blocks(State& state, std::vector<std::size_t> cuts, std::vector<T> const& x,
               std::vector<T> const& g, std::vector<T>& to) {
  cuts.push_back(to.size());
  std::size_t first = 0;
  for (std::size_t const end : cuts) {
    state.apply(first, std::span(x).subspan(first, end - first),
                std::span(g).subspan(first, end - first), std::span(to).subspan(first, end - first));
    first = end;
  }
}

}  // namespace

TEMPLATE_TEST_CASE("sgd: the formula to the last bit, whatever the blocks", "[peer][local_step]",
                   float, double) {
  using T = TestType;
  for (std::uint64_t i = 0; i < test::seed_count(30); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO("repeat with --seed " << seed);
    random_stream random(seed);
    std::size_t const n = 1 + random.below(300);
    for (sgd const options : {sgd{.rate = 0.1}, sgd{.rate = 0.3, .decay = 1e-4},
                              sgd{.rate = 0.1, .momentum = 0.9},
                              sgd{.rate = 0.7, .momentum = 0.9, .decay = 0.01}}) {
      INFO("momentum " << options.momentum << ", decay " << options.decay);
      written_out<T> expected{static_cast<T>(options.rate), static_cast<T>(options.momentum),
                              static_cast<T>(options.decay), std::vector<T>(n)};
      auto whole = options.template start<T>(n);
      auto cut = options.template start<T>(n);
      auto const start = random_numbers<T>(random, n);
      std::vector<T> to = start, to_whole = start, to_cut = start;
      for (int step = 0; step < 4; ++step) {  // momentum needs more than one
        INFO("step " << step);
        auto const x = random_numbers<T>(random, n);  // in parallel order it is not what `to` was
        auto const g = random_numbers<T>(random, n);
        expected.apply(x, g, to);
        whole.apply(0, std::span(x), std::span(g), std::span(to_whole));
        std::vector<std::size_t> cuts;
        for (std::size_t c = 1 + random.below(40); c < n; c += 1 + random.below(40)) cuts.push_back(c);
        in_blocks(cut, cuts, x, g, to_cut);
        REQUIRE(difference(to_whole, to) == std::nullopt);
        REQUIRE(difference(to_cut, to) == std::nullopt);
      }
    }
  }
}

TEST_CASE("sgd: blocks may come in any order", "[peer][local_step]") {
  random_stream random(3);
  auto const x = random_numbers<double>(random, 10);
  auto const g = random_numbers<double>(random, 10);
  std::vector<double> forward(10, 1.0), backward(10, 1.0);
  auto a = sgd{.momentum = 0.5}.start<double>(10);
  auto b = sgd{.momentum = 0.5}.start<double>(10);
  for (int step = 0; step < 2; ++step) {
    in_blocks(a, {3, 7}, x, g, forward);
    for (std::size_t const first : {7u, 3u, 0u}) {
      std::size_t const size = first == 7 ? 3 : first == 3 ? 4 : 3;
      b.apply(first, std::span(x).subspan(first, size), std::span(g).subspan(first, size),
              std::span(backward).subspan(first, size));
    }
  }
  CHECK(difference(forward, backward) == std::nullopt);
}

TEST_CASE("sgd: by hand", "[peer][local_step]") {
  std::vector<double> const x{8}, g{2};
  std::vector<double> to{100};
  auto state = sgd{.rate = 0.5, .momentum = 0.5, .decay = 0.25}.start<double>(1);
  state.apply(0, std::span(x), std::span(g), std::span(to));
  CHECK(to[0] == 98.0);  // v = 2 + 0.25·8 = 4
  state.apply(0, std::span(x), std::span(g), std::span(to));
  CHECK(to[0] == 95.0);  // v = 0.5·4 + 4 = 6
}

TEST_CASE("sgd: each start has a velocity of its own", "[peer][local_step]") {
  sgd const options{.rate = 1, .momentum = 0.5};
  std::vector<double> const x{0}, g{1};
  auto first = options.start<double>(1);
  std::vector<double> to{0}, other{0};
  first.apply(0, std::span(x), std::span(g), std::span(to));
  auto copy = first;
  first.apply(0, std::span(x), std::span(g), std::span(to));
  CHECK(to[0] == -2.5);
  auto second = options.start<double>(1);
  second.apply(0, std::span(x), std::span(g), std::span(other));
  CHECK(other[0] == -1.0);
  copy.apply(0, std::span(x), std::span(g), std::span(other));
  CHECK(other[0] == -2.5);  // from v = 1, not from what `first` has made of it since
}

TEST_CASE("sgd: an option that cannot be meant is an error that names it", "[peer][local_step]") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinite = std::numeric_limits<double>::infinity();
  auto const complaint = [](sgd const& options) -> std::string {
    try {
      (void)options.start<float>(3);
    } catch (option_error const& e) {
      return e.what();
    }
    return "";
  };
  for (double const rate : {0.0, -0.1, nan, infinite, -infinite}) {
    INFO("rate " << rate);
    CHECK(complaint({.rate = rate}).starts_with("sgd: rate "));
  }
  for (double const momentum : {-0.1, 1.0, 1.5, nan, infinite, -infinite}) {
    INFO("momentum " << momentum);
    CHECK(complaint({.momentum = momentum}).starts_with("sgd: momentum "));
  }
  for (double const decay : {-1e-9, nan, infinite, -infinite}) {
    INFO("decay " << decay);
    CHECK(complaint({.decay = decay}).starts_with("sgd: decay "));
  }
  CHECK(complaint({}) == "");
  CHECK(complaint({.rate = 1e-9, .momentum = 0.999, .decay = 0}) == "");
  CHECK(complaint({.rate = 10, .momentum = 0, .decay = 2}) == "");
}

TEST_CASE("sgd: a model without parameters", "[peer][local_step]") {
  auto state = sgd{.momentum = 0.9}.start<float>(0);
  std::vector<float> none;
  state.apply(0, std::span<float const>(none), std::span<float const>(none), std::span(none));
  CHECK(none.empty());
}

TEST_CASE("plain_step: what is handed over is added", "[peer][local_step]") {
  random_stream random(5);
  auto const x = random_numbers<float>(random, 50);
  auto const step = random_numbers<float>(random, 50);
  auto const start = random_numbers<float>(random, 50);
  std::vector<float> expected = start, to = start;
  for (std::size_t i = 0; i < 50; ++i) expected[i] += step[i];
  auto state = plain_step{}.start<float>(50);
  in_blocks(state, {1, 20, 21}, x, step, to);
  CHECK(difference(to, expected) == std::nullopt);
}

TEMPLATE_TEST_CASE("combine: a weighted sum in the order of the parts, to the last bit",
                   "[peer][local_step]", float, double) {
  using T = TestType;
  random_stream random(7);
  for (std::size_t const n : {0u, 1u, 2047u, 2048u, 2049u, 4095u, 4096u, 4097u, 6145u}) {
    for (std::size_t const count : {1u, 2u, 5u}) {
      INFO(n << " parameters, " << count << " parts");
      auto const own = random_numbers<T>(random, n);
      std::vector<contribution<shared_parameters<T>>> parts;
      std::size_t const mine = random.below(count);
      for (std::size_t p = 0; p < count; ++p) {
        shared_parameters<T> theirs;
        if (p != mine) theirs = std::make_shared<std::vector<T>>(random_numbers<T>(random, n));
        parts.push_back({worker_id{static_cast<std::uint32_t>(p)}, random.uniform(), p == mine, theirs});
      }
      std::vector<T> expected(n);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t p = 0; p < count; ++p) {
          T const weight = static_cast<T>(parts[p].weight);
          T const term = weight * (p == mine ? own[i] : (*parts[p].parameters)[i]);
          expected[i] = p == 0 ? term : expected[i] + term;
        }
      }
      // What was there before must not matter.
      std::vector<T> to(n, std::numeric_limits<T>::quiet_NaN());
      std::vector<std::size_t> ends;
      std::size_t wrong_blocks = 0;
      combine<T>(parts, own, to, [&](std::size_t first, std::span<T> block) {
        bool const next = first == (ends.empty() ? 0 : ends.back());
        bool const there = first + block.size() <= n && block.data() == to.data() + first;
        bool const summed = there && !difference(std::span<T const>(block),
                                                 std::span<T const>(expected).subspan(first, block.size()));
        if (!next || !summed || block.empty()) ++wrong_blocks;
        ends.push_back(first + block.size());
      });
      CHECK(wrong_blocks == 0);
      CHECK((ends.empty() ? 0 : ends.back()) == n);
      CHECK(difference(to, expected) == std::nullopt);
    }
  }
}

TEST_CASE("combine: what finish adds is kept, and each block is finished once", "[peer][local_step]") {
  std::size_t const n = 5000;
  std::vector<double> const own(n, 2.0);
  std::vector<contribution<shared_parameters<double>>> parts;
  parts.push_back({worker_id{0}, 0.5, true, {}});
  parts.push_back({worker_id{1}, 0.5, false, std::make_shared<std::vector<double>>(n, 4.0)});
  std::vector<double> to(n);
  combine<double>(parts, own, to, [&](std::size_t first, std::span<double> block) {
    for (std::size_t i = 0; i < block.size(); ++i) block[i] += static_cast<double>(first + i);
  });
  std::vector<double> expected(n);
  for (std::size_t i = 0; i < n; ++i) expected[i] = 3.0 + static_cast<double>(i);
  CHECK(difference(to, expected) == std::nullopt);
}

TEST_CASE("parameter_pool: a block that nobody holds is used again", "[peer][local_step]") {
  parameter_pool<float> pool(7);
  CHECK(pool.size() == 7);
  auto a = pool.get();
  auto b = pool.get();
  REQUIRE(a);
  CHECK(a->size() == 7);
  CHECK(b->size() == 7);
  CHECK(a.get() != b.get());
  std::set<std::vector<float>*> const made{a.get(), b.get()};

  shared_parameters<float> const reader = a;
  auto* const first = a.get();
  a.reset();
  auto c = pool.get();
  CHECK(c.get() != first);  // somebody reads it still
  CHECK(made.count(c.get()) == 0);
  auto* const second = b.get();
  b.reset();
  auto d = pool.get();
  CHECK(d.get() == second);
  CHECK(d->size() == 7);
}

TEST_CASE("parameter_pool: as many blocks as are in use at one time", "[peer][local_step]") {
  parameter_pool<int> pool(3);
  std::set<std::vector<int>*> seen;
  for (int round = 0; round < 20; ++round) {
    auto const a = pool.get();
    auto const b = pool.get();
    auto const c = pool.get();
    CHECK(std::set{a.get(), b.get(), c.get()}.size() == 3);
    seen.insert({a.get(), b.get(), c.get()});
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("parameter_pool: a block outlives its pool", "[peer][local_step]") {
  std::shared_ptr<std::vector<double>> kept;
  std::weak_ptr<std::vector<double>> gone;
  {
    parameter_pool<double> pool(1000);
    kept = pool.get();
    std::ranges::fill(*kept, 1.5);
    gone = pool.get();
  }
  CHECK(gone.expired());
  REQUIRE(kept->size() == 1000);
  CHECK(std::ranges::count(*kept, 1.5) == 1000);
  kept.reset();  // the sanitizers see whether the last one clears up
}

TEST_CASE("parameter_pool: readers let go in threads of their own", "[peer][local_step]") {
  parameter_pool<int> pool(64);
  int wrong = 0;
  for (int round = 0; round < 50; ++round) {
    auto block = pool.get();
    std::ranges::fill(*block, round);
    shared_parameters<int> const sent = std::move(block);
    std::vector<int> sums(2);
    std::vector<std::thread> readers;
    for (std::size_t r = 0; r < 2; ++r)
      readers.emplace_back([mine = sent, &sum = sums[r]]() mutable {
        for (int const x : *mine) sum += x;
        mine.reset();
      });
    auto const other = pool.get();
    std::ranges::fill(*other, -1);  // must not be what they read
    for (std::thread& t : readers) t.join();
    for (int const sum : sums) wrong += sum != 64 * round;
  }
  CHECK(wrong == 0);
}
