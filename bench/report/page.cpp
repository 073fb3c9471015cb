// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/page.hpp"

#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "bench/report/html.hpp"
#include "bench/report/loss_plots.hpp"
#include "bench/report/page_parts.hpp"
#include "bench/report/row_plots.hpp"
#include "bench/report/timeline_plot.hpp"
#include "bench/result/writable.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

std::string html_table(text_table const& t) {
  auto const row = [](std::vector<std::string> const& cells, char const* tag) {
    std::string line = "<tr>";
    for (std::string const& cell : cells) line += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
    return line + "</tr>\n";
  };
  std::string html =
      "<div class=\"scroll\"><table>\n<thead>" + row(t.head, "th") + "</thead>\n<tbody>";
  for (auto const& cells : t.rows) html += row(cells, "td");
  return html + "</tbody></table></div>\n";
}

/// The learning rates that were tried.
std::string trials(std::span<run_result const> results) {
  std::string html;
  for (run_result const& r : results) {
    if (r.trials.empty()) continue;
    text_table t{.head = {"rate", "time to target", "final loss"}, .rows = {}};
    for (tuning_trial const& trial : r.trials)
      t.rows.push_back({show_number(trial.learning_rate),
                        trial.seconds_to_target ? show_seconds(*trial.seconds_to_target) : "-",
                        show_number(trial.final_loss)});
    html += fmt::format("<details><summary>Rates tried for {}</summary>{}</details>\n",
                        escaped(r.label), html_table(t));
  }
  return html;
}

std::string figures(report_content const& c, std::span<run_result const> middle) {
  auto const best_first = c.best_first;
  if (best_first.empty()) return "";
  return time_to_target(best_first) + where_time_went(middle) + loss_over_time(middle) + loss_over_updates(middle) +
         staleness_of_reads(middle) + (c.watched ? timeline_figure(*c.watched) : "");
}

std::string page_in(std::string const& directory) {
  return (std::filesystem::path(directory) / "index.html").string();
}

}  // namespace

void check_report_is_possible(std::string const& directory) {
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (!std::filesystem::is_directory(directory, failure))
    throw option_error("--report: cannot make the directory \"" + directory + "\"");
  std::string const file = page_in(directory);
  if (!is_writable(file)) throw option_error("--report: cannot write to \"" + file + "\"");
}

std::string report_page(report_content const& c) {
  std::vector<run_result> const middle = middle_runs(c.best_first);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>rubato-bench compare</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>Which protocol wins</h1>\n<p class=\"settings\">{}</p>\n<p class=\"verdict\">{}</p>\n"
      "{}<div class=\"plots\">\n{}</div>\n{}<div id=\"tip\"></div>\n<script>{}</script>\n</body>\n</html>\n",
      page_style(), escaped(c.settings), escaped(c.verdict), html_table(comparison_table(c.best_first)),
      figures(c, middle), trials(middle), page_script());
}

std::string write_report(report_content const& content, std::string const& directory) {
  std::string const file = page_in(directory);
  std::ofstream out(file, std::ios::binary);
  out << report_page(content);
  if (!out.flush()) throw option_error("--report: cannot write to \"" + file + "\"");
  return file;
}

}  // namespace rubato::bench
