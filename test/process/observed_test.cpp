// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The observer reads the event log of a run of several processes.
#include <catch2/catch.hpp>

#include <rubato/partition/layout.hpp>
#include <rubato/partition/locator.hpp>

#include "process/event_log.hpp"
#include "process/runs.hpp"
#include "process/training.hpp"

using namespace rubato;

namespace {

constexpr std::uint32_t workers = 4;  // in two processes
constexpr std::uint32_t servers = 2;

/// The server of each row of the counting tables.
std::vector<std::vector<std::uint32_t>> servers_of_rows(test::job const& j) {
  locator const dense_rows(test::counts_table{}.partition, {j.rows, servers}, test::counts_table::bounded);
  locator const keyed_rows(test::keyed_counts_table{}.partition, {0, servers},
                           test::keyed_counts_table::bounded);
  std::vector<std::vector<std::uint32_t>> all(2);
  for (std::uint64_t row = 0; row < j.rows; ++row) {
    all[0].push_back(dense_rows.locate(key{row}).server.value());
    all[1].push_back(keyed_rows.locate(key{test::spread_key(row)}).server.value());
  }
  return all;
}

std::vector<std::int64_t> numbers(std::string const& text) {
  std::istringstream in(text);
  std::vector<std::int64_t> all;
  for (std::int64_t x = 0; in >> x;) all.push_back(x);
  return all;
}

/// The final keyed table as if it were dense, without what the first row began with.
std::vector<std::int64_t> spread(test::child const& w, test::job const& j) {
  auto const keys = numbers(w.value("keys"));
  auto const values = numbers(w.value("keyed"));
  std::vector<std::int64_t> all(j.rows * j.columns);
  for (std::size_t row = 0; row < j.rows; ++row)
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (static_cast<std::uint64_t>(keys[i]) == test::spread_key(row))
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(i * j.columns), j.columns,
                    all.begin() + static_cast<std::ptrdiff_t>(row * j.columns));
  return all;
}

void check_rules(std::string const& protocol, testing::expectations const& r) {
  INFO(protocol);
  test::job const j{.rows = 8, .columns = workers};
  test::process_run run({.workers = 2,
                         .servers = servers,
                         .options = {"--protocol", protocol, "--threads", "2", "--clocks", "60",
                                     "--log", "FOLDER", "--initial", "0"},
                         .program = test::program_of(protocol)});
  auto const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  testing::observer o(r, workers, workers, servers_of_rows(j));
  test::replay const log(run.folder(), workers);
  REQUIRE(log.size() > 4 * 60 * 3);
  log.tell(o);
  o.finish(0, numbers(run.worker(0).value("counts")));
  o.finish(1, spread(run.worker(0), j));
  std::string broken;
  for (auto const& v : o.violations()) broken += "\n  " + v;
  INFO("broken rules:" << broken);
  CHECK(o.violations().empty());
}

}  // namespace

TEST_CASE("SSP over TCP keeps its rules", "[process][observer]") {
  auto const s = GENERATE(0, 1, 2, 3);
  check_rules("ssp:" + std::to_string(s), testing::eager_rules(s));
}

TEST_CASE("SSP with the strict window over TCP keeps its rules", "[process][observer]") {
  auto const s = GENERATE(0, 2);
  auto r = testing::strict_rules(s);
  check_rules("ssp_strict:" + std::to_string(s), r);
}

TEST_CASE("ASP over TCP keeps its rules", "[process][observer]") {
  check_rules("asp", testing::eager_rules(staleness::infinite()));
}

TEST_CASE("ConSGD over TCP keeps its rules", "[process][observer]") {
  check_rules("con_sgd:2", testing::eager_rules(2));
}

TEST_CASE("DynSGD over TCP keeps its rules", "[process][observer]") {
  check_rules("dyn_sgd:2", testing::eager_rules(2));
}

TEST_CASE("DynSGD with synchronized reads over TCP keeps its rules", "[process][observer]") {
  check_rules("dyn_sgd_cut:2", testing::synchronized_rules(2));
}
