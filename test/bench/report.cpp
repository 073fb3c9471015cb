// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/page.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "bench/report/axis.hpp"
#include "bench/report/line_style.hpp"
#include "bench/report/loss_plots.hpp"
#include "bench/report/page_parts.hpp"
#include "test/bench/page_checks.hpp"
#include "test/bench/results.hpp"

using namespace rubato::bench;
using Catch::Contains;

namespace {

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// CIELAB of a colour as somebody sees it whom a 3x3 matrix of linear RGB describes.
using matrix = std::array<double, 9>;
std::array<double, 3> seen(std::string const& hex, matrix const& m) {
  std::array<double, 3> linear{}, rgb{};
  for (std::size_t i = 0; i < 3; ++i) {
    std::string const digits = hex.size() == 4 ? std::string(2, hex[1 + i]) : hex.substr(1 + 2 * i, 2);
    double const x = std::stoi(digits, nullptr, 16) / 255.0;
    linear[i] = x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  }
  for (std::size_t i = 0; i < 3; ++i)
    rgb[i] = std::clamp(m[3 * i] * linear[0] + m[3 * i + 1] * linear[1] + m[3 * i + 2] * linear[2], 0.0, 1.0);
  auto const f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  double const x = f((0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.95047);
  double const y = f(0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]);
  double const z = f((0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double apart(std::array<double, 3> const& a, std::array<double, 3> const& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

/// "#0072b2", of the palette for light pages or for dark ones.
std::string colour(std::size_t i, bool dark) {
  std::string const css(page_style());
  std::string const name = "--c" + std::to_string(i) + ": ";
  std::size_t at = css.find(name);
  if (dark) at = css.find(name, at + 1);
  return css.substr(at + name.size(), css.find(';', at) - at - name.size());
}

}  // namespace

TEST_CASE("a report of every protocol is one valid page that names each and needs no other file") {
  auto const results = sixteen_protocols();
  REQUIRE(results.size() == 16);
  std::string const page = report_page({"settings of <the run>", "bsp wins & how", results});
  CHECK(fault_of_markup(page).empty());
  CHECK_THAT(page, Contains("bsp wins &amp; how") && Contains("&lt;the run&gt;"));
  for (char const* outside : {"http:", "https:", "src=", "href=", "url(", "@import", "<link"})
    CHECK_THAT(page, !Contains(outside));
  for (repeated const& p : results) {
    INFO(p.label());
    CHECK_THAT(page, Contains("<td>" + p.label() + "</td>"));
    CHECK(count(page, "data-name=\"" + p.label() + "\"") == 2);         // a line over time, one over updates
    CHECK(count(page, "<span>" + p.label() + "</span>") == 3);          // a row in each of the others
    CHECK(count(page, "</svg>" + p.label() + "</span>") == 2);          // named where its lines end
  }
  for (char const* id : {"time-to-target", "where-time-went", "loss-over-time", "loss-over-updates", "staleness"})
    CHECK(count(page, "<figure id=\"" + std::string(id) + "\"") == 1);
}

TEST_CASE("a report without protocols, or of one that diverged, is valid as well") {
  CHECK(fault_of_markup(report_page({"", "", {}})).empty());
  run_result r = missed("asp", 1, 10, std::numeric_limits<double>::quiet_NaN());
  r.staleness_histogram.clear();
  r.target.reset();
  std::vector<repeated> const one = {{{r}}};
  std::string const page = report_page({"", "", one});
  CHECK(fault_of_markup(page).empty());
  std::string const figures = page.substr(page.find("<figure"), page.rfind("</figure>") - page.find("<figure"));
  CHECK_THAT(figures, !Contains("nan") && !Contains("inf"));
}

TEST_CASE("what is no markup is found out") {
  CHECK_FALSE(fault_of_markup("<p><b></p></b>").empty());
  CHECK_FALSE(fault_of_markup("<p>").empty());
  CHECK_FALSE(fault_of_markup("<p class=x></p>").empty());
  CHECK_FALSE(fault_of_markup("<p a=\"1\" a=\"2\"></p>").empty());
  CHECK(fault_of_markup("<!DOCTYPE html><meta a=\"b\"><p class=\"x\"><path d=\"\"/></p><script>a<b</script>").empty());
}

TEST_CASE("no two lines look alike, and a protocol keeps its look from report to report") {
  std::vector<run_result> results;
  for (repeated const& p : sixteen_protocols()) results.push_back(p.middle());
  for (int i = 0; i < 40; ++i) results.push_back(reached("ssp", 1, 100));  // at forty values of its staleness
  auto const styles = line_styles(results);
  std::set<std::string> looks;
  for (line_style const& s : styles) looks.insert(s.attributes());
  CHECK(looks.size() == results.size());
  auto const dyn_sgd = std::ranges::find(results, "dyn_sgd", &run_result::protocol);
  std::vector<run_result> const alone = {*dyn_sgd};
  CHECK(line_styles(alone)[0] == styles[static_cast<std::size_t>(dyn_sgd - results.begin())]);
}

TEST_CASE("colours of lines are told apart by the colour-blind, on light and on dark") {
  // Machado, Oliveira and Fernandes 2009, at full severity; the first sees all colours.
  std::array<matrix, 4> const eyes = {
      matrix{1, 0, 0, 0, 1, 0, 0, 0, 1},
      matrix{0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
      matrix{0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
      matrix{1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900}};
  constexpr double just_seen = 2.3;
  for (bool const dark : {false, true})
    for (matrix const& eye : eyes)
      for (std::size_t i = 0; i < palette_size; ++i)
        for (std::size_t k = 0; k < i; ++k) {
          INFO((dark ? "dark " : "light ") << colour(i, dark) << ' ' << colour(k, dark));
          CHECK(apart(seen(colour(i, dark), eye), seen(colour(k, dark), eye)) > 5 * just_seen);
        }
}

TEST_CASE("labels that would overprint each other are moved apart, in their order") {
  auto const put = spread_out({0.5, 0.52, 0.1, 0.51, 0.99, 0.98}, 0.1);
  std::vector<double> sorted = put;
  std::ranges::sort(sorted);
  for (std::size_t i = 1; i < sorted.size(); ++i) CHECK(sorted[i] - sorted[i - 1] > 0.0999);
  CHECK(put[2] == 0.1);
  CHECK(put[0] < put[3]);
  CHECK(put[3] < put[1]);
  CHECK(put[4] == 1);
  CHECK(put[5] == Approx(0.9));
}

TEST_CASE("a log axis has round numbers, not too many of them") {
  log_axis const narrow = log_axis::around({0.021, 0.044});
  for (tick const& t : narrow.ticks(6, show_seconds))
    CHECK_THAT(t.label, Catch::EndsWith("0 ms") || Catch::EndsWith("5 ms"));
  log_axis const wide = log_axis::around({1, 5e9, 0, -3, std::numeric_limits<double>::infinity()});
  auto const ticks = wide.ticks(6, show_count);
  CHECK(ticks.size() <= 6);
  CHECK(ticks.size() >= 3);
  CHECK(ticks[0].label == "10");  // every second decade or third
  CHECK(wide.at(0) == 0);
  CHECK(wide.at(1e99) == 1);
  CHECK(wide.at(std::sqrt(5e9)) == Approx(0.5));
  CHECK(log_axis::around({3}).at(3) == Approx(0.5));
}
