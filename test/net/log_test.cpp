// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/net/log.hpp>
#include <rubato/net/log_format.hpp>
#include <rubato/net/refusal_log.hpp>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "net/stderr_capture.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;

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

TEST_CASE("a sink may set another one, and what it logs itself goes nowhere", "[net]") {
  std::vector<std::string> written;
  auto const shared = std::make_shared<int>(7);
  log_of_one_test const log([&, shared](net::log_level, std::string_view line) {
    net::log(net::log_level::warning, "of its own");
    net::set_log([&](net::log_level, std::string_view later) { written.push_back("later: " + std::string(later)); });
    CHECK(*shared == 7);  // what it has captured is still there
    written.emplace_back(line);
  });
  net::log(net::log_level::warning, "first");
  CHECK(shared.use_count() == 1);  // and is gone with it
  net::log(net::log_level::warning, "second");
  CHECK(written == std::vector<std::string>{"first", "later: second"});
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

TEST_CASE("lines of the log stay one line in every format, whatever they say", "[net]") {
  using net::log_format;
  auto const line = [](log_format how, std::string_view said, std::string_view program = "train") {
    return net::log_line(how, std::chrono::system_clock::time_point{}, net::log_level::warning, program, said);
  };
  CHECK(line(log_format::text, "gone\n") == "1970-01-01T00:00:00Z train: gone\\n\n");
  CHECK(line(log_format::keyvalue, "a \"b\" \\ \n\x1b") ==
        "time=1970-01-01T00:00:00Z level=warning program=train message=\"a \\\"b\\\" \\\\ \\\\n\\\\x1b\"\n");
  CHECK(line(log_format::keyvalue, "x", "my \"train\"") ==
        "time=1970-01-01T00:00:00Z level=warning program=\"my \\\"train\\\"\" message=\"x\"\n");
  CHECK(line(log_format::json, "a \"b\"\xff") ==
        "{\"time\":\"1970-01-01T00:00:00Z\",\"level\":\"warning\",\"program\":\"train\","
        "\"message\":\"a \\\"b\\\"\\\\xff\"}\n");
  for (log_format const f : {log_format::text, log_format::keyvalue, log_format::json})
    CHECK(net::log_format_from(net::to_string(f)) == f);
  CHECK_FALSE(net::log_format_from("xml"));
}

TEST_CASE("warnings that nobody else takes go to stderr in the format that was set", "[net]") {
  test::stderr_capture const said;
  net::set_log({});
  net::log(net::log_level::warning, "one");
  net::set_log_format(net::log_format::keyvalue);
  net::log(net::log_level::warning, "two");
  net::log(net::log_level::info, "three");
  net::set_log_format(net::log_format::text);
  CHECK_THAT(said.text(), Catch::Matchers::StartsWith("rubato: one\ntime=") &&
                              Contains(" level=warning program=" + std::string(program_invocation_short_name)) &&
                              Catch::Matchers::EndsWith(" message=\"two\"\n"));
}
