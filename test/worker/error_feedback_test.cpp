// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/error_feedback.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/int8_blocks.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/worker/replica.hpp>

#include "failing_memory.hpp"

using namespace rubato;

namespace {

constexpr std::uint64_t table_rows = 40;
constexpr std::size_t cells = 2, row_bytes = cells * sizeof(double);

/// A worker's part of a table on one server, and what it has to do with it.
struct fed_back {
  explicit fed_back(codec_rule c, std::uint64_t of_rows = table_rows, bool may_pad = true)
      : codec(std::move(c), element_type::float64, row_bytes),
        own(of_rows, row_bytes, update_pool{}, may_pad),
        left(of_rows, row_bytes, update_pool{}) {}

  void push(std::uint64_t row, double x) {
    std::vector<double> const values{x, -x};
    own.add_row(row, values.data());
  }
  void push_all(std::vector<double> const& values) {
    own.add_whole<double>([&](auto add) { add(0, values.data(), values.size()); });
  }
  shared_update commit(bool last = false) {
    detail::round_with_feedback<double>(codec, left, own, row_bytes, last);
    return own.take();
  }
  [[nodiscard]] double left_of(std::uint64_t row, std::size_t column = 0) {
    std::byte const* const at = left.find(row);
    return at == nullptr ? 0 : reinterpret_cast<double const*>(at)[column];
  }

  coding codec;
  accumulator own;
  accumulator left;
};

double value_of(shared_update const& u, std::uint64_t row, std::size_t column = 0) {
  auto const values = u->values.as<double>();
  if (u->whole) return values[row * cells + column];
  auto const at = std::ranges::find(u->rows, row);
  return at == u->rows.end() ? 0 : values[static_cast<std::size_t>(at - u->rows.begin()) * cells + column];
}

}  // namespace

TEST_CASE("error feedback: what rounding takes away goes when its row is committed again, and with no other") {
  fed_back f(bfloat16{});
  f.push(3, 1 + 0x1p-10);
  f.push(7, 2.0);
  auto const first = f.commit();
  CHECK(value_of(first, 3) == 1);
  CHECK(value_of(first, 3, 1) == -1);
  CHECK(first->coded == 8);
  CHECK(first->bytes() == 24);
  CHECK(f.left_of(3) == 0x1p-10);
  CHECK(f.left.find(7) == nullptr);  // of which nothing is left
  f.push(5, 1.0);
  auto const second = f.commit();
  CHECK(second->rows == std::vector<std::uint64_t>{5});
  CHECK(f.left_of(3) == 0x1p-10);
  f.push(3, 0);
  CHECK(value_of(f.commit(), 3) == 0x1p-10);
  CHECK(f.left_of(3) == 0);
  CHECK(f.commit().empty());
}

TEST_CASE("error feedback: the commit that ends a body sends all that is left") {
  for (bool const bounded : {true, false}) {
    fed_back f(bfloat16{}, bounded ? table_rows : 0);
    f.push(3, 1 + 0x1p-10);
    f.push(8, 4 + 0x1p-8);
    (void)f.commit();
    f.push(5, 1.0);
    auto const last = f.commit(true);
    CHECK(value_of(last, 3) == 0x1p-10);
    CHECK(value_of(last, 8) == 0x1p-8);
    CHECK(value_of(last, 5) == 1);
    CHECK(f.left.empty());
  }
}

TEST_CASE("error feedback: rows of which nothing is left do not go, for to a lazy merge zeros are an update") {
  fed_back lazy(bfloat16{}, table_rows, false);
  lazy.push_all(std::vector<double>(table_rows * cells, 1.0));  // of which rounding leaves nothing
  (void)lazy.commit();
  lazy.push(3, 1 + 0x1p-10);
  lazy.push(4, 1.0);
  (void)lazy.commit();
  lazy.push(8, 1.0);
  auto const last = lazy.commit(true);
  CHECK_FALSE(last->whole);
  CHECK(last->rows.size() == 2);
  CHECK(value_of(last, 3) == 0x1p-10);
  CHECK(value_of(last, 8) == 1);

  fed_back padded(bfloat16{});
  padded.push_all(std::vector<double>(table_rows * cells, 1 + 0x1p-10));
  (void)padded.commit();
  padded.push(8, 1.0);
  CHECK(padded.commit(true)->whole);  // which is less work
}

TEST_CASE("error feedback: what is no finite number leaves nothing behind") {
  fed_back f(bfloat16{});
  for (double const x : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    f.push(1, x);
    CHECK_FALSE(std::isfinite(value_of(f.commit(), 1)));
    CHECK(f.left_of(1) == 0);
  }
}

TEST_CASE("error feedback: what is too great for a codec goes as the greatest that there is, and the rest is left") {
  fed_back f(bfloat16{});
  f.push(1, 4e38);
  CHECK(value_of(f.commit(), 1) == 0x1.FEp127);
  CHECK(f.left_of(1) == 4e38 - 0x1.FEp127);
}

TEMPLATE_TEST_CASE("error feedback: what was sent and what is left is what was pushed, exactly", "", bfloat16,
                   int8_blocks) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    random_stream random(seed, 4);
    fed_back f(TestType{}, seed % 3 == 0 ? 0 : table_rows);
    std::vector<double> pushed(table_rows * cells), sent(table_rows * cells);
    for (int n = 0; n < 40; ++n) {
      std::vector<bool> touched(table_rows);
      if (seed % 3 != 0 && random.chance(0.2)) {
        std::vector<double> all(table_rows * cells);
        for (double& x : all) x = std::floor(random.uniform() * 8192 - 4096) / 64;
        for (std::size_t i = 0; i < all.size(); ++i) pushed[i] += all[i];
        f.push_all(all);
        touched.assign(table_rows, true);
      } else {
        for (std::uint64_t row = 0; row < table_rows; ++row) {
          if (!random.chance(0.2)) continue;
          double const x = std::floor(random.uniform() * 8192 - 4096) / 64;
          f.push(row, x);
          pushed[row * cells] += x;
          pushed[row * cells + 1] -= x;
          touched[row] = true;
        }
      }
      auto const u = f.commit();
      if (!u->whole) REQUIRE(u->rows.size() == static_cast<std::size_t>(std::ranges::count(touched, true)));
      for (std::uint64_t row = 0; row < table_rows; ++row)
        for (std::size_t c = 0; c < cells; ++c) {
          sent[row * cells + c] += value_of(u, row, c);
          REQUIRE(sent[row * cells + c] + f.left_of(row, c) == pushed[row * cells + c]);
        }
    }
    f.push(0, 0);
    auto const last = f.commit(true);
    for (std::uint64_t row = 0; row < table_rows; ++row)
      REQUIRE(std::abs(sent[row * cells] + value_of(last, row) - pushed[row * cells]) <= 0.25);
  }
}

TEST_CASE("error feedback: where memory ends in the middle of a commit nothing goes twice, and nothing is lost") {
  bool const whole_before = GENERATE(false, true), whole = GENERATE(false, true), last = GENERATE(false, true);
  fed_back expected(bfloat16{});
  auto const push = [](fed_back& to, bool all, std::uint64_t first, double even) {
    double const odd = 1 + 0x1p-10;
    std::vector<double> values(table_rows * cells);
    for (std::uint64_t row = 0; row < table_rows; ++row) values[row * cells] = row % 2 == 0 ? even : odd;
    if (all) return to.push_all(values);
    for (std::uint64_t row = first; row < first + 8; ++row) to.push(row, values[row * cells]);
  };
  auto const push_both = [&](fed_back& to) {
    push(to, whole_before, 4, 1 + 0x1p-10);
    (void)to.commit();
    push(to, whole, 0, 0);  // of what is left some rows are there, and then others are not
  };
  push_both(expected);
  auto const sent = expected.commit(last);
  std::size_t const times = test::for_each_end_of_memory([&](auto attempt) {
    fed_back f(bfloat16{});
    push_both(f);
    shared_update second;
    if (!attempt([&] { second = f.commit(last); })) second = f.commit(last);
    for (std::uint64_t row = 0; row < table_rows; ++row) {
      REQUIRE(value_of(second, row) == value_of(sent, row));
      REQUIRE(f.left_of(row) == expected.left_of(row));
    }
  });
  CHECK((times > 2 || !test::memory_can_end()));
}

TEST_CASE("error feedback: a worker's own reads show all that it has pushed") {
  blueprint const plan(ssp{}, 2, {describe(dense<double>{.rows = 8, .codec = {.updates = bfloat16{}}})});
  auto const own = make_replica(plan.table(0), 2, 0);
  double const fine = 1 + 0x1p-10;
  for (std::uint64_t k = 0; k < 8; ++k) own->push_rows({&k, 1}, reinterpret_cast<std::byte const*>(&fine));
  std::vector<double> server(8);
  for (std::uint32_t s = 0; s < 2; ++s) {
    auto const u = own->commit(server_id{s}, clock_index{0}, false, false);
    REQUIRE(!u.empty());
    for (double const x : u->values.as<double>()) CHECK(x == 1);
  }
  for (std::uint32_t s = 0; s < 2; ++s) {
    read_slot& slot = own->slot(server_id{s});
    slot.asked = selection::all;
    slot.stamp = {clock_index{1}, clock_index{1}};
    std::size_t const bytes = static_cast<std::size_t>(plan.table(0).where().rows_of(server_id{s})) * sizeof(double);
    slot.state.receive(bytes, sizeof(double), [](std::byte* to, std::size_t n, std::size_t) {
      std::fill_n(reinterpret_cast<double*>(to), n / sizeof(double), 1.0);
    });
  }
  own->accept_base({.at = clock_index{1}, .need = clock_index{1}, .fetch = 1});
  std::vector<double> seen(8);
  own->read_whole(reinterpret_cast<std::byte*>(seen.data()));
  CHECK(seen == std::vector<double>(8, fine));

  missing_rows of_base, fetched;
  std::vector<std::uint64_t> const some{2, 5};
  freshness const any{clock_index{1}, clock_index{1}, clock_index{0}};
  std::vector<double> read(2);
  (void)own->read_rows(some, any, true, reinterpret_cast<std::byte*>(read.data()), of_base);
  REQUIRE(of_base.empty());
  CHECK(read == std::vector<double>(2, fine));

  for (std::size_t i = 0; i < some.size(); ++i) fetched.add(some[i], i);
  own->where().locate(some, fetched.places);
  for (std::size_t i = 0; i < some.size(); ++i) {
    read_slot& slot = own->slot(fetched.places[i].server);
    fetched.set_index(i, slot.rows.size());
    slot.asked = selection::rows;
    slot.rows.push_back(fetched.places[i].local);
    double const one = 1;
    slot.values.append(std::as_bytes(std::span(&one, 1)));
  }
  (void)own->accept_rows(fetched, {.at = clock_index{1}, .need = clock_index{1}, .fetch = 2},
                         reinterpret_cast<std::byte*>(read.data()));
  CHECK(read == std::vector<double>(2, fine));
}
