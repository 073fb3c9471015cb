// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/row_plots.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "bench/report/axis.hpp"
#include "bench/report/html.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

/// The axis beneath the rows.
std::string row_of_ticks(std::vector<tick> const& ticks) {
  std::string marks;
  for (tick const& t : ticks)
    marks += fmt::format("<span class=\"x\" style=\"left:{}\">{}</span>", percent(t.at), t.label);
  return "<div class=\"row ticks\"><span></span><div class=\"marks\">" + marks + "</div><span></span></div>\n";
}

std::string rows(std::string const& content, std::string const& axis) {
  return "<div class=\"rows\">\n" + content + "</div>\n<p class=\"axis below\">" + axis + "</p>\n";
}

std::string grid_lines(std::vector<tick> const& ticks) {
  std::string lines;
  for (tick const& t : ticks) lines += fmt::format("<path class=\"grid\" d=\"M{} 0V1000\"/>", place(t.at));
  return lines;
}

/// A point, however the picture is stretched.
std::string dot(char const* kind, double at) {
  return fmt::format("<path class=\"dot {}\" d=\"M{} 500h0\"/>", kind, place(at));
}

double end_of(run_result const& r) { return r.seconds_to_target.value_or(r.seconds); }

std::string time_row(repeated const& p, log_axis const& x, std::string const& grid) {
  run_result const& middle = p.middle();
  bool const reached = middle.seconds_to_target.has_value();
  std::string picture = grid;
  if (p.rounds.size() > 1)
    picture += fmt::format("<path class=\"spread\" d=\"M{} 500H{}\"/>", place(x.at(end_of(p.at(0.25)))),
                           place(x.at(end_of(p.at(0.75)))));
  picture += dot(reached ? "reached" : "missed", x.at(end_of(middle)));
  std::string const value = show_seconds(end_of(middle));
  return plot_row(p.label(), picture, reached ? value : "not in " + value);
}

std::string bar(char const* what, double from, double share, double seconds) {
  if (share <= 0) return "";
  return fmt::format("<rect class=\"{}\" x=\"{}\" width=\"{}\" y=\"0\" height=\"1000\" "
                     "data-tip=\"{}: {} of a worker, {}\"/>",
                     what, place(from), place(share), what, show_seconds(seconds), show_share(share));
}

std::string staleness_row(run_result const& r, std::size_t columns) {
  auto const& histogram = r.staleness_histogram;
  auto const all = static_cast<double>(std::accumulate(histogram.begin(), histogram.end(), std::uint64_t{0}));
  if (all == 0) return plot_row(r.label, "", "none");
  std::string bars;
  double mean = 0;
  for (std::size_t k = 0; k < std::min(columns, histogram.size()); ++k) {
    double const share = static_cast<double>(histogram[k]) / all;
    if (share == 0) continue;
    mean += share * static_cast<double>(k);
    double const width = 1 / static_cast<double>(columns);
    bars += fmt::format(
        "<rect class=\"reads\" x=\"{}\" width=\"{}\" y=\"{}\" height=\"{}\" data-tip=\"{}: {:.3g}% of reads were {} "
        "clocks behind\"/>",
        place((static_cast<double>(k) + 0.15) * width), place(0.7 * width), place(1 - share), place(share),
        escaped(r.label), 100 * share, k);
  }
  return plot_row(r.label, bars, fmt::format("{:.2g}", mean));
}

/// As many clocks as any read was behind, and one.
std::size_t staleness_columns(std::span<run_result const> results) {
  std::size_t columns = 4;
  for (run_result const& r : results)
    for (std::size_t k = 0; k < r.staleness_histogram.size(); ++k)
      if (r.staleness_histogram[k] != 0) columns = std::max(columns, k + 1);
  return columns;
}

}  // namespace

std::string plot_row(std::string const& name, std::string const& content, std::string const& value) {
  return fmt::format("<div class=\"row\"><span>{}</span><div>{}</div><span>{}</span></div>\n", escaped(name),
                     stretched(content), escaped(value));
}

std::string activity_key() {
  return "<p class=\"key\"><span class=\"box compute\"></span>compute <span class=\"box send\"></span>send and fetch "
         "<span class=\"box wait\"></span>wait</p>\n";
}

std::string time_to_target(std::span<repeated const> best_first) {
  std::vector<double> times;
  for (repeated const& p : best_first)
    for (double const share : {0.25, 0.5, 0.75}) times.push_back(end_of(p.at(share)));
  log_axis const x = log_axis::around(times);
  auto const ticks = x.ticks(5, show_seconds);
  std::string all;
  for (repeated const& p : best_first) all += time_row(p, x, grid_lines(ticks));
  std::size_t const rounds = best_first.front().rounds.size();
  bool const has_target = best_first.front().rounds.front().target.has_value();
  return figure("time-to-target", has_target ? "Time to the target" : "Time of the run",
                rows(all + row_of_ticks(ticks), best_first.front().middle().time_kind + " time, logarithmic"),
                (rounds > 1 ? fmt::format("The median of {} rounds, and a bar between the quartiles.", rounds)
                            : std::string("Of one run each.")) +
                    (has_target ? " A small grey point is where a run ended that did not get there." : ""));
}

std::string where_time_went(std::span<run_result const> best_first) {
  std::string all;
  for (run_result const& r : best_first) {
    time_split const& s = r.counted_split;
    all += plot_row(r.label,
                    bar("compute", 0, s.share(s.compute), s.compute / r.workers) +
                        bar("send", s.share(s.compute), s.share(s.send), s.send / r.workers) +
                        bar("wait", s.share(s.compute + s.send), s.share(s.wait), s.wait / r.workers),
                    show_seconds(s.total() / r.workers));
  }
  std::vector<tick> const ticks = {{0, "0%"}, {0.25, "25%"}, {0.5, "50%"}, {0.75, "75%"}, {1, "100%"}};
  return figure("where-time-went", "Where the time went",
                activity_key() + rows(all + row_of_ticks(ticks), "share of a worker's time"),
                "Up to the target, of a worker on average, whose time is written beside. Waiting is what the protocol "
                "held it up for. Sending holds no peer up, so that it is counted as computing there.");
}

std::string staleness_of_reads(std::span<run_result const> best_first) {
  std::size_t const columns = staleness_columns(best_first);
  std::size_t const step = columns <= 10 ? 1 : columns <= 24 ? 4 : 16;
  std::vector<tick> ticks;
  for (std::size_t k = 0; k < columns; k += step)
    ticks.push_back({(static_cast<double>(k) + 0.5) / static_cast<double>(columns), std::to_string(k)});
  std::string all;
  for (run_result const& r : best_first) all += staleness_row(r, columns);
  return figure("staleness", "Staleness of reads", rows(all + row_of_ticks(ticks), "clocks behind the reader"),
                "How far the copy that a worker trained on was behind its own clock: the height is the share of first "
                "reads of a clock, and the number their mean. The bar of 64 also counts all beyond; peers do not read "
                "from servers.");
}

}  // namespace rubato::bench
