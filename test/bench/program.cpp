// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-bench from outside, as a user runs it.
#include <catch2/catch.hpp>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

using Catch::Contains;

namespace {

struct outcome {
  int status;
  std::string output;  ///< of both streams
};

outcome run(std::string const& arguments) {
  std::string const command = std::string("\"" RUBATO_BENCH_PROGRAM "\" ") + arguments + " 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome o{};
  std::array<char, 4096> buffer{};
  while (std::size_t const n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    o.output.append(buffer.data(), n);
  o.status = ::pclose(pipe);
  return o;
}

}  // namespace

TEST_CASE("compare prints a table and a verdict, and writes JSON") {
  auto const file = std::filesystem::temp_directory_path() / "rubato-bench-test.json";
  outcome const o =
      run("compare --rows 800 --features 80 --nonzeros 10 --workers 6 --servers 2 "
          "--clocks 10 --heterogeneity 2 --target 0.55 --json " +
          file.string());
  INFO(o.output);
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("protocol") && Contains("con_sgd(3)") && Contains("wins"));
  CHECK_THAT(o.output, !Contains("\r"));  // no progress bar in a pipe
  std::ifstream in(file);
  auto const results = nlohmann::json::parse(in);
  CHECK(results.size() == 16);
  for (auto const& r : results) CHECK(r["curve"].size() > 5);
  std::filesystem::remove(file);
}

TEST_CASE("errors are one sentence and a status of failure") {
  for (char const* const bad : {"compare --protocols nosuch", "compare --data /no/such/file",
                                "reproduce nosuch", "compare --scenario nosuch"}) {
    outcome const o = run(bad);
    INFO(o.output);
    CHECK(o.status != 0);
    CHECK_THAT(o.output, Contains("nosuch") || Contains("/no/such/file"));
  }
  CHECK(run("").status != 0);
}

TEST_CASE("reproduce lists what it can rerun") {
  outcome const o = run("reproduce list");
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("sigmod17-table3"));
}
