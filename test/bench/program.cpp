// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// rubato-bench from outside, as a user runs it.
#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "bench/train/protocols.hpp"

using Catch::Contains;
using Catch::StartsWith;

namespace {

struct outcome {
  int status;
  std::string output;  ///< of both streams
};

outcome run(std::string const& arguments, std::string const& program = RUBATO_BENCH_PROGRAM) {
  std::string const command = "\"" + program + "\" " + arguments + " 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome o{};
  std::array<char, 4096> buffer{};
  while (std::size_t const n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    o.output.append(buffer.data(), n);
  int const ended = ::pclose(pipe);
  o.status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
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
  CHECK(results.size() == rubato::bench::known_protocols().size());
  for (auto const& r : results) CHECK(r["curve"].size() > 5);
  std::filesystem::remove(file);
}

TEST_CASE("compare runs each protocol across processes") {
  auto const file = std::filesystem::temp_directory_path() / "rubato-bench-test-tcp.json";
  outcome const o = run(
      "compare --transport tcp --rows 300 --features 40 --nonzeros 10 --workers 3 --servers 2 "
      "--clock pass --clocks 4 --learning-rate 0.5 --target 0.69 --heterogeneity 2 --check-period 20ms --json " +
      file.string());
  INFO(o.output);
  if (o.output.find("not available in builds with sanitizers") != std::string::npos) return;
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("across processes") && Contains("adsp") && Contains("wins"));
  CHECK_THAT(o.output, Contains("left out: ad_psgd:") && Contains("notify_ack"));
  std::ifstream in(file);
  auto const results = nlohmann::json::parse(in);
  CHECK(results.size() == rubato::bench::known_protocols().size() - 1);
  for (auto const& r : results) {
    INFO(r["protocol"]);
    CHECK(r["transport"] == "tcp");
    CHECK(r["time_kind"] == "wall");
    CHECK(r["updates"] >= 3);
    CHECK(r["steps"] >= (r["protocol"] == "hop_skip" ? 4 * 10 : 3 * 4 * 10));  // a slow peer jumps
    CHECK(r["curve"].size() >= 2);
    CHECK(r["curve"].back()[2] < r["curve"].front()[2]);
    CHECK(r["seconds"] > 0);
    CHECK(r["bytes_sent"] > 0);
    CHECK(r["compute_seconds"] > 0);
  }
  std::filesystem::remove(file);
}

TEST_CASE("the wide-area figure sets processes beside the simulator") {
  outcome const o = run("reproduce wide-area --clocks 1");
  INFO(o.output);
  if (o.output.find("not available in builds with sanitizers") != std::string::npos) return;
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("BSP, processes") && Contains("SSP(2), simulator"));
  CHECK_THAT(o.output, Contains("bfloat16") && Contains("int8, the largest 1%"));
}

TEST_CASE("table 3 is printed in both readings, and says what lies outside the paper's") {
  outcome const o = run("reproduce sigmod17-table3 --clocks 1 --data-dir /no/such/directory --shards by-label:0.5");
  INFO(o.output);
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("shards by-label:0.5") && Contains("run time: batch") && Contains("run time: pass") &&
                           Contains("dyn_sgd(10)"));
  CHECK(run("reproduce adsp-figure1 --shards ordered").status != 0);
}

TEST_CASE("figures are printed beside what the paper says of them") {
  struct figure {
    char const* name;
    char const* clocks;
    std::array<char const*, 3> parts;
  };
  constexpr std::array figures = {
      figure{"sigmod17-figure2", "1", {"ssp(10)", "flex_rr(3)", "7 = 4 x 1.8"}},
      figure{"sigmod17-figure6", "2", {"worker", "computing", "the fastest's (paper: up to 2x)"}},
      figure{"sigmod17-figure7", "1", {"only in the network", "con_sgd(3)", "FlexRR is 1.2x as fast as SSP."}},
      figure{"k-sync", "200", {"8-batch-async", "settles at", "They account for what"}},
      figure{"backup-workers", "20", {"90 + 10", "asynchronous", "None came to the target"}},
      figure{"fed-avg", "2", {"two labels each", "483", "Not all came to the target"}},
      figure{"fed-buff", "1", {"FedBuff, K = 10", "the first 77 of 100", "Not all came to the target"}},
      figure{"staleness-aware", "4", {"30-softsync, aware", "A quarter of it", "does not converge"}},
      figure{"hop-equation2", "2", {"4x, one worker", "ahead : behind", "weighted average performs slightly better"}}};
  for (figure const& f : figures) {
    outcome const o = run("reproduce " + std::string(f.name) + " --data-dir /no/such/directory --clocks " + f.clocks);
    INFO(o.output);
    CHECK(o.status == 0);
    for (char const* const part : f.parts) CHECK_THAT(o.output, Contains(part));
  }
}

TEST_CASE("what servers and workers compute is measured of processes") {
  outcome const o = run("reproduce sigmod17-figure13-cpu --clocks 1");
  INFO(o.output);
  if (o.output.find("not available in builds with sanitizers") != std::string::npos) return;
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("DynSGD(40)") && Contains("server / worker") && Contains("by the learning rate"));
}

TEST_CASE("the sweet spot is looked for between both ends") {
  outcome const o = run("reproduce ssp-sweet-spot --clocks 2 --data-dir /no/such/directory");
  INFO(o.output);
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("bsp") && Contains("ssp(30)") && Contains("asp") && Contains("than either end"));
}

TEST_CASE("errors are one sentence and a status of failure") {
  for (char const* const bad : {"compare --protocols nosuch", "compare --data /no/such/file",
                                "reproduce nosuch", "compare --scenario nosuch",
                                "compare --transport tcp --protocols nosuch",
                                "advise --protocols nosuch", "advise --json /nosuch/file"}) {
    outcome const o = run(bad);
    INFO(o.output);
    CHECK(o.status != 0);
    CHECK_THAT(o.output, Contains("nosuch") || Contains("/no/such/file"));
  }
  CHECK(run("").status != 0);
}

TEST_CASE("what cannot be written is found before anything runs") {
  auto const taken = std::filesystem::temp_directory_path() / ("rubato-bench-test-taken-" + std::to_string(::getpid()));
  std::filesystem::create_directories(taken / "index.html");  // is where the page would be
  for (std::string const& written : {std::string("--json /nosuch/file"), "--report " + taken.string()}) {
    outcome const o = run("compare --data /no/such/data " + written);  // which fails as soon as anything runs
    INFO(o.output);
    CHECK(o.status == 2);
    CHECK_THAT(o.output, Contains(written.substr(0, written.find(' ')) + ": cannot write to"));
  }
  std::filesystem::remove_all(taken);
}

TEST_CASE("what was never written to is left as it was") {
  auto const folder = std::filesystem::temp_directory_path() / ("rubato-bench-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "there");
  std::ofstream(folder / "there" / "index.html") << "a page";
  auto const size_of_page = std::filesystem::file_size(folder / "there" / "index.html");
  CHECK(run("compare --data /no/such/data --json " + (folder / "new.json").string() + " --report " +
            (folder / "there").string()).status == 1);
  CHECK_FALSE(std::filesystem::exists(folder / "new.json"));
  CHECK(std::filesystem::file_size(folder / "there" / "index.html") == size_of_page);
  std::filesystem::remove_all(folder);
}

TEST_CASE("results reach whom they can where others cannot be written to") {
  auto const folder = std::filesystem::temp_directory_path() / ("rubato-bench-test-full-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "full");
  std::filesystem::create_symlink("/dev/full", folder / "full" / "index.html");
  std::string const small =
      "compare --rows 200 --features 20 --nonzeros 3 --workers 2 --servers 1 --learning-rate 1 --clocks 5 "
      "--target none --json " + (folder / "new.json").string() + " --report ";
  std::string const only_errors = " 2>&1 >/dev/full #";
  // Less than is held back to be written at once, and more.
  for (char const* const protocols : {"bsp", "bsp,ssp,asp,con_sgd,dyn_sgd,adsp --profile"}) {
    outcome const o = run(small + (folder / "there").string() + " --protocols " + protocols + only_errors);
    INFO(o.output);
    CHECK(o.status == 1);
    CHECK_THAT(o.output, StartsWith("rubato-bench: cannot write to "));
    CHECK(std::filesystem::remove(folder / "new.json"));
    CHECK(std::filesystem::remove(folder / "there" / "index.html"));
  }
  outcome const unwritten = run(small + (folder / "full").string() + " --protocols bsp");
  CHECK(unwritten.status == 2);
  CHECK_THAT(unwritten.output, Contains("bsp") && Contains("--report: cannot write to"));
  std::filesystem::remove_all(folder);
  CHECK(run("--help" + only_errors).status == 1);
}

TEST_CASE("options that cannot be meant end with 2, and what fails later with 1") {
  CHECK(run("compare --no-such-option").status == 2);
  CHECK(run("reproduce no-such-figure").status == 2);
  for (std::string const option : {"--data", "--json", "--report"}) {
    outcome const o = run("compare " + option + " ''");
    CHECK(o.status == 2);
    CHECK_THAT(o.output, StartsWith(option + ": is empty, expected a value"));
  }
  CHECK(run("compare --data /no/such/file").status == 1);
}

TEST_CASE("a number that is negative where none can be, or too large, is an error that names the option") {
  for (char const* const option :
       {"--bandwidth", "--seed", "--points", "--evaluate-rows", "--rows", "--hidden", "--workers"})
    for (char const* const value : {"-1", "-18446744073709551615", "99999999999999999999999"}) {
      outcome const o = run(std::string("compare ") + option + ' ' + value);
      INFO(o.output);
      CHECK(o.status == 2);
      CHECK_THAT(o.output, StartsWith(option));
    }
  CHECK(run("advise --seeds -1").status == 2);
  CHECK(run("reproduce list --seed -1").status == 2);
}

TEST_CASE("reproduce lists what it can rerun") {
  outcome const o = run("reproduce list");
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("sigmod17-table3"));
}

TEST_CASE("micro sets what it measures beside a limit") {
  outcome const o = run("micro --filter memcpy --repetitions 1 --min-time 0.001");
  INFO(o.output);
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("memcpy"));
}

TEST_CASE("micro does not end well with nothing measured") {
  for (std::string const bad : {"--filter nothingmatches", "--filter '^step of 1M floats, ring of 4$'",
                                "--filter '('", "--min-time nan"}) {
    outcome const o = run("micro " + bad);
    INFO(o.output);
    CHECK(o.status == 2);
    CHECK_THAT(o.output, Contains(bad.substr(0, bad.find(' ')) + ':') && !Contains("median"));
  }
  // Nested or not, the library that reads it would run out of stack.
  for (char const letter : {'(', 'x'}) {
    outcome const o = run("micro --filter '" + std::string(60'000, letter) + "'");
    CHECK(o.status == 2);
    CHECK_THAT(o.output, Contains("--filter: has 60000 characters, expected at most 1000"));
  }
}

TEST_CASE("help names every command") {
  outcome const o = run("--help");
  CHECK(o.status == 0);
  CHECK_THAT(o.output, Contains("compare") && Contains("advise") && Contains("micro") && Contains("reproduce"));
  CHECK_THAT(run("micro --help").output, Contains("rubato-bench micro") && Contains("--filter"));
  for (auto const* const command : {"", "compare ", "advise ", "micro ", "reproduce "})
    CHECK_THAT(run(std::string(command) + "--help").output, Contains("Environment:") && Contains("Exit code:"));
}

TEST_CASE("a command whose program is not there says which target makes it") {
  auto const alone = std::filesystem::temp_directory_path() / "rubato-bench-test-alone";
  std::filesystem::create_directory(alone);
  std::filesystem::copy_file(RUBATO_BENCH_PROGRAM, alone / "rubato-bench",
                             std::filesystem::copy_options::overwrite_existing);
  outcome const o = run("micro", (alone / "rubato-bench").string());
  std::filesystem::remove_all(alone);
  CHECK(o.status != 0);
  CHECK_THAT(o.output, Contains("No such file") && Contains("target rubato-bench-micro"));
}
