// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/whole_numbers.hpp"

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

using Catch::Contains;

namespace {

struct numbers {
  std::uint64_t large = 7;
  std::optional<std::uint64_t> set{};
  std::vector<std::size_t> list{};
  std::int64_t with_sign = 7;
  std::uint32_t small = 7;
};

numbers parsed(std::string const& line) {
  CLI::App app;
  numbers n;
  CLI::App* const command = app.add_subcommand("run");
  app.add_option("--large", n.large);
  app.add_option("--set", n.set);
  app.add_option("--list", n.list)->delimiter(',');
  command->add_option("--with-sign", n.with_sign);
  command->add_option("--small", n.small)->check(CLI::Range(0, 10));
  rubato::tools::check_whole_numbers(app);
  app.parse(line);
  return n;
}

}  // namespace

TEST_CASE("whole numbers are read as they are written", "[tools]") {
  numbers const n = parsed("--large 18446744073709551615 --set 010 --list 0,3 run --with-sign -7 --small 3");
  CHECK(n.large == 18446744073709551615U);
  CHECK(n.set == 10);  // not octal
  CHECK(n.list == std::vector<std::size_t>{0, 3});
  CHECK(n.with_sign == -7);
  CHECK(n.small == 3);
  CHECK(parsed("run --with-sign -9223372036854775808").with_sign == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("what is no whole number, or none of that size, is an error that names the option", "[tools]") {
  std::string const expected = ", expected a whole number from 0 to 2^64 - 1";
  for (std::string const value : {"-1", "18446744073709551616", "99999999999999999999999", "-18446744073709551615",
                                  "1e3", "0x10", "7 ", "many"})
    for (std::string const option : {"--large", "--set", "--list"}) {
      INFO(option << " \"" << value << '"');
      CHECK_THROWS_WITH(parsed(option + "=\"" + value + '"'), Contains(option + ": \"" + value + '"' + expected));
    }
  CHECK_THROWS_WITH(parsed("--list 3,-1"), Contains("--list: \"-1\"" + expected));
  CHECK_THROWS_WITH(parsed("run --with-sign 9223372036854775808"),
                    Contains("--with-sign: \"9223372036854775808\", expected a whole number from -2^63 to 2^63 - 1"));
  CHECK_THROWS_WITH(parsed("run --small -1"), Contains("--small: \"-1\"" + expected));
  CHECK_THROWS_WITH(parsed("run --small 11"), Contains("--small"));
  CHECK_THROWS_AS(parsed("run --small -18446744073709551615"), CLI::ParseError);
}
