// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/peer/local_parameters.hpp"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "peer/random_numbers.hpp"
#include "peer/setups.hpp"
#include "rubato/core/random.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;
using test::difference;
using test::random_numbers;

namespace {

/// A local step that is watched: called with where a block begins, what the gradient was computed at, the
/// gradient, and the block.
template <class T>
struct watched_step final : peer_step {
  using watcher = std::function<void(std::size_t, std::span<T const>, std::span<T const>, std::span<T>)>;

  explicit watched_step(watcher f) : watch(std::move(f)) {}
  void start(std::size_t) override {}
  void apply(std::size_t first, std::size_t count, std::byte const* x, std::byte const* gradient,
             std::byte* to) override {
    watch(first, std::span(reinterpret_cast<T const*>(x), count),
          std::span(reinterpret_cast<T const*>(gradient), count),
          std::span(reinterpret_cast<T*>(to), count));
  }
  watcher watch;
};

mixing_matrix const& alone() {
  static mixing_matrix const mixing = mixing_matrix::uniform(complete(1));
  return mixing;
}

template <class T>
local_parameters watched(std::size_t size, typename watched_step<T>::watcher f) {
  std::vector<T> const initial(size);
  node_setup setup = test::setup_of(alone(), worker_id{0}, initial);
  setup.make_step = [f]() -> std::unique_ptr<peer_step> { return std::make_unique<watched_step<T>>(f); };
  return local_parameters(setup);
}
template <class T>
local_parameters make_parameters(std::size_t size) {
  return local_parameters(test::setup_of(alone(), worker_id{0}, std::vector<T>(size)));
}

template <class T>
std::span<std::byte const> bytes_of(std::vector<T> const& all) {
  return std::as_bytes(std::span(all));
}
template <class T>
shared_update fresh(local_parameters const& p) {
  return p.initial(bytes_of(std::vector<T>(p.size())));
}
template <class T>
std::vector<T> values_of(shared_update const& u) {
  auto const all = u->values.as<T>();
  return {all.begin(), all.end()};
}

}  // namespace

TEMPLATE_TEST_CASE("local_parameters: a weighted sum in the order of the parts, to the last bit",
                   "[peer][local_parameters]", float, double) {
  using T = TestType;
  random_stream random(7);
  for (std::size_t const n : {0u, 1u, 2047u, 2048u, 2049u, 4095u, 4096u, 4097u, 6145u}) {
    for (std::size_t const count : {1u, 2u, 5u}) {
      INFO(n << " parameters, " << count << " parts");
      auto const own = random_numbers<T>(random, n);
      auto const gradient = random_numbers<T>(random, n);
      std::vector<std::vector<T>> theirs(count);
      std::size_t const mine = random.below(count);
      std::vector<contribution> parts;
      std::vector<T> expected(n);
      std::vector<std::size_t> ends;
      std::size_t wrong_blocks = 0;
      shared_update x;
      auto local = watched<T>(n, [&](std::size_t first, std::span<T const> at, std::span<T const> g,
                                     std::span<T> block) {
        bool const next = first == (ends.empty() ? 0 : ends.back());
        bool const there = first + block.size() <= n && at.data() == x->values.template as<T>().data() + first &&
                           g.data() == gradient.data() + first;
        bool const summed = there && !difference(std::span<T const>(block),
                                                 std::span<T const>(expected).subspan(first, block.size()));
        if (!next || !summed || block.empty()) ++wrong_blocks;
        ends.push_back(first + block.size());
      });
      for (std::size_t p = 0; p < count; ++p) {
        if (p != mine) theirs[p] = random_numbers<T>(random, n);
        parts.push_back({worker_id{static_cast<std::uint32_t>(p)}, random.uniform(), p == mine,
                         p == mine ? shared_update{} : local.initial(bytes_of(theirs[p]))});
      }
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t p = 0; p < count; ++p) {
          T const weight = static_cast<T>(parts[p].weight);
          T const term = weight * (p == mine ? own[i] : theirs[p][i]);
          expected[i] = p == 0 ? term : expected[i] + term;
        }
      }
      x = local.initial(bytes_of(own));
      // What was there before must not matter.
      (void)local.initial(bytes_of(std::vector<T>(n, std::numeric_limits<T>::quiet_NaN())));
      auto again = parts;  // so that all are in use
      shared_update const average = local.average(parts, x, bytes_of(gradient));
      CHECK(wrong_blocks == 0);
      CHECK((ends.empty() ? 0 : ends.back()) == n);
      CHECK(difference(values_of<T>(average), expected) == std::nullopt);
      CHECK(difference(values_of<T>(x), own) == std::nullopt);

      ends.clear();
      again.clear();  // and so that they are not: the average takes the place of one
      shared_update const without_step = local.average(parts, x);
      CHECK(ends.empty());
      CHECK(difference(values_of<T>(without_step), expected) == std::nullopt);
    }
  }
}

TEST_CASE("local_parameters: an average takes the place of a part that nobody else has", "[peer][local_parameters]") {
  auto local = make_parameters<float>(1000);
  shared_update const own = fresh<float>(local);
  shared_update const kept = fresh<float>(local);
  std::vector<contribution> parts;
  parts.push_back({worker_id{0}, 0.25, false, kept});
  parts.push_back({worker_id{1}, 0.5, true, {}});
  parts.push_back({worker_id{2}, 0.25, false, local.initial(bytes_of(std::vector<float>(1000, 4.0F)))});
  auto const* const place = parts[2].parameters->values.data();
  shared_update const average = local.average(parts, own);
  CHECK(average->values.data() == place);
  CHECK(values_of<float>(average) == std::vector<float>(1000, 1.0F));
  CHECK(values_of<float>(kept) == std::vector<float>(1000));
}

TEST_CASE("local_parameters: what the step adds to an average is kept, and each block is stepped once",
          "[peer][local_parameters]") {
  std::size_t const n = 5000;
  auto local = watched<double>(
      n, [](std::size_t first, std::span<double const>, std::span<double const>, std::span<double> block) {
        for (std::size_t i = 0; i < block.size(); ++i) block[i] += static_cast<double>(first + i);
      });
  shared_update const own = local.initial(bytes_of(std::vector<double>(n, 2.0)));
  std::vector<contribution> parts;
  parts.push_back({worker_id{0}, 0.5, true, {}});
  parts.push_back({worker_id{1}, 0.5, false, local.initial(bytes_of(std::vector<double>(n, 4.0)))});
  shared_update const average = local.average(parts, own, bytes_of(std::vector<double>(n)));
  std::vector<double> expected(n);
  for (std::size_t i = 0; i < n; ++i) expected[i] = 3.0 + static_cast<double>(i);
  CHECK(difference(values_of<double>(average), expected) == std::nullopt);
}

TEST_CASE("local_parameters: a step on top of parameters, computed at others", "[peer][local_parameters]") {
  std::vector<double> const base{1, 2, 3}, x{8, 16, 24}, gradient{2, 2, 4};
  auto local = local_parameters(
      test::setup_of(alone(), worker_id{0}, base, sgd{.rate = 0.5, .momentum = 0.5, .decay = 0.25}));
  shared_update const b = local.initial(bytes_of(base));
  shared_update const at = local.initial(bytes_of(x));
  CHECK(values_of<double>(local.stepped(b, at, bytes_of(gradient))) == std::vector<double>{-1, -1, -2});
  CHECK(values_of<double>(local.stepped(b, at, bytes_of(gradient))) == std::vector<double>{-2, -2.5, -4.5});
  local.restart();
  CHECK(values_of<double>(local.stepped(b, at, bytes_of(gradient))) == std::vector<double>{-1, -1, -2});
  CHECK(values_of<double>(b) == base);
  CHECK(values_of<double>(at) == x);
}

TEST_CASE("local_parameters: the mean of a sum is stepped by as the same gradient is, block by block",
          "[peer][local_parameters]") {
  std::size_t const n = 5000;  // more than a block
  auto const fresh_of = [&] {
    return local_parameters(test::setup_of(alone(), worker_id{0}, std::vector<double>(n, 1.0),
                                           sgd{.rate = 0.5, .momentum = 0.5, .decay = 0.25}));
  };
  std::vector<double> sum(n), mean(n);
  for (std::size_t i = 0; i < n; ++i) mean[i] = (sum[i] = static_cast<double>(i) - 7) / 3.0;
  auto at_once = fresh_of(), usual = fresh_of();
  shared_update const base = usual.initial(bytes_of(std::vector<double>(n, 2.0)));
  shared_update const x = usual.initial(bytes_of(std::vector<double>(n, -4.0)));
  for (int steps = 0; steps < 2; ++steps) {
    auto const found = values_of<double>(at_once.stepped_by_mean(base, x, bytes_of(sum), 3));
    CHECK(difference(found, values_of<double>(usual.stepped(base, x, bytes_of(mean)))) == std::nullopt);
  }
}

TEST_CASE("local_parameters: a gradient that comes in pieces is stepped by as one that comes at once",
          "[peer][local_parameters]") {
  std::size_t const n = 9000;  // of several blocks
  auto const fresh_of = [&] {
    return local_parameters(test::setup_of(alone(), worker_id{0}, std::vector<double>(n, 1.0),
                                           sgd{.rate = 0.5, .momentum = 0.5, .decay = 0.25}));
  };
  std::vector<double> gradient(n);
  for (std::size_t i = 0; i < n; ++i) gradient[i] = static_cast<double>(i) - 7;
  auto in_pieces = fresh_of(), usual = fresh_of();
  shared_update const base = usual.initial(bytes_of(std::vector<double>(n, 2.0)));
  shared_update const x = usual.initial(bytes_of(std::vector<double>(n, -4.0)));
  for (int steps = 0; steps < 2; ++steps) {
    update_buffer next = in_pieces.fresh();
    for (auto const& [first, count] : {std::pair<std::size_t, std::size_t>{6000, 3000}, {1, 5999}, {0, 1}})
      in_pieces.step_into(*next, base, x, first, std::as_bytes(std::span(gradient).subspan(first, count)));
    shared_update const found = std::move(next);
    CHECK(difference(values_of<double>(found), values_of<double>(usual.stepped(base, x, bytes_of(gradient)))) ==
          std::nullopt);
  }
}

TEST_CASE("local_parameters: only parameters of their size could be some peer's",
          "[peer][local_parameters]") {
  auto const local = make_parameters<float>(4);
  CHECK(local.size() == 4);
  CHECK(local.size_bytes() == 16);
  CHECK(local.element() == element_type::float32);
  CHECK(local.fits(fresh<float>(local)));
  CHECK(local.fits(make_parameters<double>(2).initial(bytes_of(std::vector<double>(2)))));
  CHECK_FALSE(local.fits(fresh<double>(make_parameters<double>(4))));
  CHECK_FALSE(local.fits(shared_update{}));
}

TEST_CASE("local_parameters: a block that nobody holds is used again", "[peer][local_parameters]") {
  auto const local = make_parameters<float>(7);
  shared_update a = fresh<float>(local);
  shared_update b = fresh<float>(local);
  CHECK(a->values.size_bytes() == 7 * sizeof(float));
  CHECK(b->values.size_bytes() == 7 * sizeof(float));
  std::set<std::byte const*> const made{a->values.data(), b->values.data()};
  CHECK(made.size() == 2);

  shared_update const reader = a;
  auto const* const first = a->values.data();
  a = {};
  shared_update const c = fresh<float>(local);
  CHECK(c->values.data() != first);  // somebody reads it still
  CHECK(made.count(c->values.data()) == 0);
  auto const* const second = b->values.data();
  b = {};
  shared_update const d = fresh<float>(local);
  CHECK(d->values.data() == second);
  CHECK(d->values.size_bytes() == 7 * sizeof(float));
}

TEST_CASE("local_parameters: as many blocks as are in use at one time", "[peer][local_parameters]") {
  auto const local = make_parameters<double>(3);
  std::set<std::byte const*> seen;
  for (int round = 0; round < 20; ++round) {
    shared_update const a = fresh<double>(local);
    shared_update const b = fresh<double>(local);
    shared_update const c = fresh<double>(local);
    std::set<std::byte const*> const blocks{a->values.data(), b->values.data(), c->values.data()};
    CHECK(blocks.size() == 3);
    seen.insert(blocks.begin(), blocks.end());
  }
  CHECK(seen.size() == 3);
}
