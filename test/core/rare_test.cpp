// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/rare.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <optional>
#include <string_view>

using namespace rubato;

namespace {

std::optional<std::uint64_t> times_of(std::string_view what) {
  auto const all = rare_paths();
  auto const at = std::ranges::find(all, what, &rare_count::what);
  if (at == all.end()) return std::nullopt;
  return at->times;
}

void take_a_path(bool seldom) {
  if (seldom) RUBATO_RARE("a test took its path");
  else RUBATO_RARE("a test never took this path");
}

}  // namespace

TEST_CASE("a rare path counts how often it is taken, and is known before that") {
  CHECK(times_of("a test never took this path") == 0u);
  auto const before = times_of("a test took its path");
  REQUIRE(before);
  take_a_path(true);
  take_a_path(true);
  CHECK(times_of("a test took its path") == *before + 2);
  CHECK_FALSE(times_of("there is no such mark"));
}
