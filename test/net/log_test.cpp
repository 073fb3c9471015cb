// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/net/log.hpp>
#include <rubato/net/refusal_log.hpp>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace rubato;
using namespace std::chrono_literals;

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

TEST_CASE("refusal_log: each is told of, but of a flood only the first, and that there are more", "[net]") {
  std::vector<std::string> written;
  log_of_one_test const log([&](net::log_level, std::string_view line) { written.emplace_back(line); });
  net::refusal_log refusals("here");
  net::refusal_log::time now{10s};
  for (std::size_t i = 1; i <= net::refusal_log::told_singly; ++i) {
    refusals.tell("no", now);
    REQUIRE(written.size() == i);
  }
  for (int i = 0; i < 1000; ++i) refusals.tell("no", now += 900us);
  REQUIRE(written.size() == net::refusal_log::told_singly + 1);
  CHECK(written.back() == "here: refuses more than 32 a second; the rest are not told of singly");
  refusals.tell("again", now + 1s);
  CHECK(written.back() == "again");
}
