// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/peer/local_step.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "peer/random_numbers.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "seeds.hpp"

using namespace rubato;
using test::difference;
using test::random_numbers;

namespace {

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
    INFO(test::repeat_by(seed));
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
