// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What two processes that do not agree are told of it.
#include <rubato/transport/processes/agreement.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>
#include <string_view>

using rubato::detail::difference;

namespace {

std::string both(std::string_view here, std::string_view there) {
  auto const d = difference(here, there);
  return d.here + " / " + d.there;
}

}  // namespace

TEST_CASE("difference: the parts that differ, and none that does not") {
  CHECK(both("ssp; 2 rows; x", "ssp; 3 rows; x") == R"("2 rows" / "3 rows")");
  CHECK(both("asp; 2 rows; eager; 7; x", "ssp; 2 rows; eager; 8; x") == R"("asp; 7" / "ssp; 8")");
  CHECK(both("a; b; c", "a; b") == R"("c" / nothing)");
  CHECK(both("a", "a; b; c") == R"(nothing / "b; c")");
  CHECK(both("a; x; c", "a; y; z; c") == R"("x" / "y; z")");
  CHECK(both("", "a") == R"(nothing / "a")");
  CHECK(both("; a", "b; a") == R"(nothing / "b")");
  CHECK(both("a; b", "ab; b") == R"("a" / "ab")");
}

TEST_CASE("difference: long parts are shown around where they begin to differ") {
  std::string const shared(5000, 'x');
  auto const d = difference("a; " + shared + "1" + shared + "; b; c", "a; " + shared + "2" + shared + "; b; d");
  CHECK(d.here.substr(0, 70) == "\"..." + std::string(60, 'x') + "1xxxxx");
  CHECK(d.there.substr(0, 70) == "\"..." + std::string(60, 'x') + "2xxxxx");
  CHECK(d.here.size() < 500);
}

// Each part beside each other would take hours.
TEST_CASE("difference: texts of millions of parts take no more time than it takes to read them") {
  std::size_t const parts = 3'000'000;
  std::string many;
  for (std::size_t i = 0; i < parts; ++i) many += "; ";
  CHECK(both("a; x" + many, "b; x" + many) == R"("a" / "b")");
  CHECK(both("a" + many + "c", "b" + many + "d") == R"("a; c" / "b; d")");
  (void)both(many, "a" + many + "; ");
}
