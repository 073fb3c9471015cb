// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What processes say, as rubato-launch passes it on.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "src/tools/launch/output.hpp"
#include "tools/launched.hpp"

using namespace rubato;
using namespace rubato::test::launching;

TEST_CASE("output and errors go their ways with prefixes", "[tools][launch]") {
  auto const result = run_shell(std::string(takes_part) + "echo to output; echo; echo to errors >&2");
  CHECK(sorted(lines_of(result.output)) ==
        words{"[worker 0] ", "[worker 0] to output", "[worker 1] ", "[worker 1] to output"});
  CHECK(sorted(lines_of(result.errors)) == words{"[worker 0] to errors", "[worker 1] to errors"});
}

TEST_CASE("an unfinished last line is completed", "[tools][launch]") {
  auto const result = run_shell("printf 'one\\ntwo'", {"-n", "1"});
  CHECK(result.output == "[worker 0] one\n[worker 0] two\n");
}

TEST_CASE("lines of several processes do not mix", "[tools][launch]") {
  auto const result = run_shell(
      "i=0; while [ $i -lt 500 ]; do printf $RANK; printf \"$RANK$RANK\\n\"; i=$((i+1)); done",
      {"-n", "4"});
  std::array<int, 4> count{};
  for (auto const& line : lines_of(result.output)) {
    auto const rank = static_cast<std::size_t>(line.at(8) - '0');
    std::string const thrice(3, line[8]);
    REQUIRE(line == "[worker " + thrice.substr(2) + "] " + thrice);
    ++count.at(rank);
  }
  CHECK(count == std::array{500, 500, 500, 500});
}

TEST_CASE("a very long line is passed on in parts", "[tools][launch]") {
  auto const result = run_shell("head -c 200000 /dev/zero | tr '\\0' $RANK; echo");
  std::array<std::size_t, 2> count{};
  for (auto const& line : lines_of(result.output)) {
    std::string const text = line.substr(11);
    REQUIRE(text.size() <= launch::line_maker::longest);
    REQUIRE(text.find_first_not_of(line[8]) == std::string::npos);
    count.at(static_cast<std::size_t>(line[8] - '0')) += text.size();
  }
  CHECK(count == std::array<std::size_t, 2>{200000, 200000});
}

constexpr auto longest = launch::line_maker::longest;

TEST_CASE("bytes become lines, however they come in", "[tools][launch]") {
  auto const size = GENERATE(std::size_t{0}, std::size_t{1}, longest - 1, longest, longest + 1,
                             2 * longest, 2 * longest + 1);
  auto const step = GENERATE(std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20);
  std::string const text = std::string(size, 'x') + "\ny";
  launch::line_maker lines("> ");
  std::string result;
  for (std::size_t at = 0; at < text.size(); at += step) {
    result += lines.add(std::string_view(text).substr(at, step));
  }
  std::string expected;
  for (std::size_t left = size; left > longest; left -= longest) {
    expected += "> " + std::string(longest, 'x') + "\n";
  }
  std::size_t const last = size == 0 ? 0 : (size - 1) % longest + 1;
  expected += "> " + std::string(last, 'x') + "\n";
  CHECK((result == expected));
  CHECK(lines.finish() == "> y\n");
  CHECK(lines.finish().empty());
}

TEST_CASE("a run goes on where its output cannot be written, and says so once", "[tools][launch]") {
  int const full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  launched launch(shell(takes_part + std::string("echo one; sleep 0.1; echo two; echo > $S/done.$RANK")), full);
  ::close(full);
  auto const result = launch.wait();
  CHECK(result.exit_code == 0);
  CHECK(result.errors ==
        "rubato-launch: cannot write to standard output: No space left on device; the run goes on, "
        "and lines are lost\n");
  CHECK(launch.file("done.0") == "\n");
  CHECK(launch.file("done.1") == "\n");
}
