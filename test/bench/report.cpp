// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/page.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/report/gnuplot.hpp"
#include "bench/report/plots.hpp"
#include "test/bench/results.hpp"

using namespace rubato::bench;
using Catch::Contains;

namespace {

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::vector<run_result> two_results() {
  return {reached("bsp", 1, 100), missed("asp", 2, 300, 0.5)};
}

}  // namespace

TEST_CASE("there are four plots, and a protocol has one colour in all with curves") {
  auto const plots = make_plots(two_results());
  REQUIRE(plots.size() == 4);
  for (std::size_t i : {0U, 1U, 3U}) {
    CHECK_THAT(plots[i].script,
               Contains("#0072b2") && Contains("title 'bsp'") && Contains("set xlabel"));
    CHECK_THAT(plots[i].script,
               Contains("#d55e00") && Contains("title 'asp'") && Contains("set ylabel"));
  }
  CHECK_THAT(plots[0].script, Contains("virtual time [s]"));
  CHECK(make_plots({}).empty());
}

TEST_CASE("the report holds the table, the verdict and every plot, and needs no other file") {
  if (!gnuplot_is_installed()) {
    WARN("skipped: gnuplot is not installed");
    return;
  }
  auto const results = two_results();
  std::string const page = report_page({"settings of <the run>", "bsp wins & how", results});
  CHECK(count(page, "<svg") == 4);
  CHECK(count(page, "</svg>") == 4);
  CHECK_THAT(page, Contains("bsp wins &amp; how") && Contains("&lt;the run&gt;"));
  CHECK_THAT(page, Contains("<td>asp</td>"));
  CHECK_THAT(page, !Contains("<?xml") && !Contains("src="));
  CHECK(count(page, "gnuplot_canvas\"") ==
        count(page, "_gnuplot_canvas\""));  // identifiers of one's own
}

TEST_CASE("a script that gnuplot does not understand is an error with its words") {
  if (!gnuplot_is_installed()) return;
  CHECK_THROWS_WITH(run_gnuplot("plot nonsense(\n"), Contains("gnuplot failed"));
}
