// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/flat.hpp>

#include <catch2/catch.hpp>

#include <Eigen/Core>
#include <array>
#include <concepts>
#include <numeric>
#include <span>
#include <vector>

using rubato::flat;

namespace {

static_assert(std::convertible_to<std::vector<float>&, flat<float>>);
static_assert(std::convertible_to<std::vector<float> const&, flat<float const>>);
static_assert(std::convertible_to<std::array<float, 3>&, flat<float>>);
static_assert(std::convertible_to<std::span<float>, flat<float const>>);
static_assert(std::convertible_to<Eigen::VectorXf&, flat<float>>);
static_assert(std::convertible_to<Eigen::VectorXf const&, flat<float const>>);
static_assert(std::convertible_to<Eigen::Map<Eigen::ArrayXf>, flat<float>>);
static_assert(std::convertible_to<Eigen::Ref<Eigen::VectorXf>, flat<float>>);

// Neither constness nor the element type is lost on the way.
static_assert(!std::convertible_to<std::vector<float> const&, flat<float>>);
static_assert(!std::convertible_to<Eigen::VectorXf const&, flat<float>>);
static_assert(!std::convertible_to<std::vector<double>&, flat<float>>);
static_assert(!std::convertible_to<Eigen::VectorXd&, flat<float>>);
// An expression that has no memory of its own is not a span.
static_assert(!std::convertible_to<decltype(Eigen::VectorXf{} * 2.0F), flat<float const>>);

void check_same(flat<float const> seen, float const* data, std::size_t size) {
  CHECK(seen.data() == data);
  CHECK(seen.size() == size);
}

}  // namespace

TEST_CASE("flat: refers to the caller's memory, whatever holds it") {
  std::vector<float> v(5);
  check_same(v, v.data(), 5);
  std::array<float, 3> a{};
  check_same(a, a.data(), 3);
  float c[4] = {};
  check_same(c, c, 4);
  check_same(std::span<float>(v).subspan(2), v.data() + 2, 3);

  Eigen::VectorXf e = Eigen::VectorXf::Zero(6);
  check_same(e, e.data(), 6);
  check_same(e.segment(1, 3), e.data() + 1, 3);
  check_same(Eigen::Map<Eigen::VectorXf>(v.data(), 4), v.data(), 4);
  check_same(Eigen::Ref<Eigen::VectorXf>(e), e.data(), 6);
  Eigen::Array3f fixed = Eigen::Array3f::Zero();
  check_same(fixed, fixed.data(), 3);
}

TEST_CASE("flat: writing through it writes the caller's elements") {
  Eigen::VectorXf e = Eigen::VectorXf::Zero(4);
  flat<float> const f = e;
  std::iota(f.begin(), f.end(), 1.0F);
  CHECK(e == Eigen::Vector4f(1, 2, 3, 4));
}

TEST_CASE("flat: a matrix counts as its elements in storage order, and so do its whole columns") {
  Eigen::MatrixXf m = Eigen::MatrixXf::Zero(3, 4);
  check_same(m, m.data(), 12);
  check_same(m.leftCols(2), m.data(), 6);
  check_same(m.middleCols(1, 2), m.data() + 3, 6);
  check_same(m.col(2), m.data() + 6, 3);
  check_same(m.block(1, 1, 1, 1), m.data() + 4, 1);
  check_same(m.block(1, 1, 2, 1), m.data() + 4, 2);
}

TEST_CASE("flat: elements with gaps between them are refused, with a sentence") {
  Eigen::MatrixXf m = Eigen::MatrixXf::Zero(3, 4);
  Eigen::VectorXf v = Eigen::VectorXf::Zero(6);
  CHECK_THROWS_AS(flat<float>(m.row(1)), rubato::usage_error);
  CHECK_THROWS_AS(flat<float>(m.topRows(2)), rubato::usage_error);
  CHECK_THROWS_AS(flat<float>(m.block(0, 1, 2, 2)), rubato::usage_error);
  Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<2>> every_second(v.data(), 3);
  CHECK_THROWS_AS(flat<float>(every_second), rubato::usage_error);
  CHECK_THROWS_WITH(flat<float const>(m.row(1)), Catch::Contains("contiguous"));
  try {
    (void)flat<float>(m.row(1));
    FAIL("no exception");
  } catch (rubato::error const& e) {
    CHECK(e.code() == rubato::errc::wrong_size);
  }
}

TEST_CASE("flat: nothing is contiguous, and so is a single element") {
  Eigen::MatrixXf m = Eigen::MatrixXf::Zero(3, 4);
  CHECK(flat<float>(m.row(1).head(1)).size() == 1);
  CHECK(flat<float>(m.topRows(0)).empty());
  std::vector<float> none;
  CHECK(flat<float>(none).empty());
}
