// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/net/log.hpp>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace rubato;

namespace {

struct log_of_one_test {
  explicit log_of_one_test(net::log_sink sink) { net::set_log(std::move(sink)); }
  log_of_one_test(log_of_one_test const&) = delete;
  log_of_one_test& operator=(log_of_one_test const&) = delete;
  ~log_of_one_test() { net::set_log({}); }
};

}  // namespace

TEST_CASE("a line of the log is one line, whatever it quotes", "[net]") {
  std::vector<std::string> written;
  log_of_one_test const log([&](net::log_level, std::string_view line) { written.emplace_back(line); });
  net::log(net::log_level::warning, "said: a\nrubato: all is well\x1b[2J");
  net::log(net::log_level::warning, std::string(100'000, 'x'));
  REQUIRE(written.size() == 2);
  CHECK(written[0] == "said: a\\nrubato: all is well\\x1b[2J");
  CHECK(written[1].size() < 5000);
}

TEST_CASE("a log that cannot be written disturbs nobody, and goes on with the next line", "[net]") {
  std::vector<std::string> written;
  bool is_full = true;
  log_of_one_test const log([&](net::log_level, std::string_view line) {
    if (is_full) throw std::runtime_error("no space left on device");
    written.emplace_back(line);
  });
  CHECK_NOTHROW(net::log(net::log_level::warning, "first"));
  is_full = false;
  net::log(net::log_level::info, "second");
  CHECK(written == std::vector<std::string>{"second"});
}
