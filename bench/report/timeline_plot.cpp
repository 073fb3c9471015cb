// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/timeline_plot.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/report/axis.hpp"
#include "bench/report/html.hpp"
#include "bench/report/row_plots.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

/// Times of the picture as places in it.
class lanes {
 public:
  explicit lanes(timeline const& t) : t_(t), end_(std::max(t.seconds(), 1e-12)) {}

  [[nodiscard]] double x(double seconds) const { return seconds / end_; }
  [[nodiscard]] double middle(std::uint32_t worker) const { return (worker + 0.5) / t_.workers; }

  [[nodiscard]] std::string bar(spell const& s) const {
    std::string tip =
        fmt::format("worker {}, clock {}\n{}: {}", s.worker, s.clock, name_of(s.what), show_seconds(s.to - s.from));
    if (s.waits_for) tip += fmt::format(", for worker {}", *s.waits_for);
    double const height = 0.7 / t_.workers;
    return fmt::format("<rect class=\"{}\" x=\"{}\" width=\"{}\" y=\"{}\" height=\"{}\" data-tip=\"{}\"/>",
                       name_of(s.what), place(x(s.from)), place(x(s.to) - x(s.from)),
                       place(middle(s.worker) - height / 2), place(height), tip);
  }
  [[nodiscard]] std::string commit(clock_begin const& c) const {
    double const half = 0.5 / t_.workers;
    return fmt::format("<path class=\"commit\" d=\"M{} {}V{}\"/>", place(x(c.seconds)), place(middle(c.worker) - half),
                       place(middle(c.worker) + half));
  }
  /// From who goes on to whom it had waited for.
  [[nodiscard]] std::string wait(spell const& s) const {
    return fmt::format("<path class=\"who\" d=\"M{} {}V{}\"/>", place(x(s.to)), place(middle(s.worker)),
                       place(middle(*s.waits_for)));
  }
  [[nodiscard]] std::vector<tick> ticks() const {
    double const step = std::pow(10.0, std::floor(std::log10(end_)));
    double const wide = end_ / step >= 5 ? step : end_ / step >= 2 ? step / 2 : step / 5;
    std::vector<tick> all;
    for (int k = 0; k * wide <= end_; ++k) all.push_back({x(k * wide), show_seconds(k * wide)});
    return all;
  }

 private:
  timeline const& t_;
  double end_;
};

std::string picture(timeline const& t, lanes const& at) {
  std::string bars, lines;
  for (tick const& mark : at.ticks()) lines += fmt::format("<path class=\"grid\" d=\"M{} 0V1000\"/>", place(mark.at));
  for (spell const& s : t.spells) bars += at.bar(s);
  for (clock_begin const& c : t.clocks) bars += at.commit(c);
  for (spell const& s : t.spells)
    if (s.waits_for) bars += at.wait(s);
  return stretched(lines + bars);
}

/// "Of the time that they wait, 80% is for worker 5 and 10% for worker 4."
std::string who_is_waited_for(timeline const& t) {
  std::map<std::uint32_t, double> by_worker;
  double all = 0;
  for (spell const& s : t.spells) {
    if (s.what != activity::wait) continue;
    all += s.to - s.from;
    if (s.waits_for) by_worker[*s.waits_for] += s.to - s.from;
  }
  std::vector<std::pair<double, std::uint32_t>> order;
  for (auto const& [worker, seconds] : by_worker) order.emplace_back(seconds, worker);
  std::ranges::sort(order, std::ranges::greater{});
  if (order.empty()) return all == 0 ? "Nobody waits." : "Nobody waits for one certain worker.";
  constexpr std::size_t named = 3;
  std::string text = "Of the time that they wait,";
  for (std::size_t i = 0; i < std::min(named, order.size()); ++i)
    text += fmt::format("{} {} is for worker {}", i == 0 ? "" : ",", show_share(order[i].first / all), order[i].second);
  return text + '.';
}

}  // namespace

std::string timeline_figure(timeline const& t) {
  lanes const at(t);
  std::string names, marks;
  for (std::uint32_t w = 0; w < t.workers; ++w) names += fmt::format("<span>worker {}</span>", w);
  for (tick const& mark : at.ticks())
    marks += fmt::format("<span class=\"x\" style=\"left:{}\">{}</span>", percent(mark.at), mark.label);
  std::string const body = fmt::format(
      "{}<div class=\"lanes\" style=\"--lanes:{}\"><div class=\"names\">{}</div><div class=\"strips\">{}</div>"
      "<span></span><div class=\"marks\">{}</div></div>\n"
      "<p class=\"axis below\">virtual time since the run began</p>\n",
      activity_key(), t.workers, names, picture(t, at), marks);
  return figure("timeline", "What the workers of " + t.label + " do", body,
                fmt::format("The first clocks of a run. Where a worker begins a clock there is a mark; what lies "
                            "between the marks of two workers is how far they are apart. A thin line goes from who had "
                            "to wait to the one whose commit, or update, let it go on. {}",
                            who_is_waited_for(t)));
}

}  // namespace rubato::bench
