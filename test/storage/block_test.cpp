// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/block.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

using rubato::block_ref;

TEST_CASE("block_ref: copies share the array, and it is unique again when they are gone") {
  block_ref a(5 * sizeof(float));
  CHECK(a.size_bytes() == 20);
  CHECK(a.size<float>() == 5);
  CHECK(a.unique());
  a.mutable_as<float>()[3] = 7.0F;
  {
    block_ref const b = a;
    CHECK(b.data() == a.data());
    CHECK_FALSE(a.unique());
    CHECK(b.as<float>()[3] == 7.0F);
  }
  CHECK(a.unique());
}

TEST_CASE("block_ref: moving hands the reference on, and assignment gives the old one up") {
  block_ref a(2 * sizeof(std::int64_t));
  block_ref b(3 * sizeof(std::int64_t));
  block_ref const old = b;
  std::byte const* const data = a.data();
  b = std::move(a);
  CHECK_FALSE(a);  // NOLINT: emptied, and says so
  CHECK(b.data() == data);
  CHECK(b.unique());
  CHECK(old.unique());
  CHECK_FALSE(block_ref{});
}

TEST_CASE("block_ref: assigning to itself keeps the array") {
  block_ref a(4 * sizeof(double));
  a.mutable_as<double>()[0] = 1.5;
  auto const& same = a;
  a = same;
  CHECK(a.unique());
  CHECK(a.as<double>()[0] == 1.5);
}

TEST_CASE("block_ref: elements of any type are aligned, in small arrays and large ones") {
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1016}, std::size_t{1024},
                                  std::size_t{1} << 16}) {
    block_ref const a(bytes);
    INFO(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % alignof(std::int64_t) == 0);
    CHECK(a.size_bytes() == bytes);
    CHECK(static_cast<void const*>(a.as<double>()) == a.data());
  }
}
