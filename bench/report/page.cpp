// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/page.hpp"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "bench/report/gnuplot.hpp"
#include "bench/report/plots.hpp"
#include "bench/result/ranking.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

constexpr char const* style = R"css(
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; background: #fafafa; color: #222;
       font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { font-size: 1.5rem; margin: 0.5rem 0; }
h2 { font-size: 1.1rem; margin: 0; }
.verdict { font-size: 1.1rem; border-left: 4px solid #009e73; padding: 0.3rem 1rem;
           background: #fff; }
.settings { color: #555; white-space: pre-line; }
.scroll { overflow-x: auto; background: #fff; border: 1px solid #ddd; border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 0.4rem 0.7rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead { background: #f0f0f0; }
tbody tr + tr { border-top: 1px solid #eee; }
tbody tr:first-child { font-weight: 600; }
.plots { display: grid; gap: 1rem; margin: 1rem 0;
         grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
figure { margin: 0; padding: 0.8rem; background: #fff; border: 1px solid #ddd; border-radius: 6px; }
figure svg { width: 100%; height: auto; display: block; }
figcaption, details { color: #555; font-size: 0.9rem; }
)css";

std::string escaped(std::string_view text) {
  std::string out;
  for (char const c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

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

/// What gnuplot drew, fit for a page: without the XML prologue, and with names of its own, for
/// gnuplot gives its marks the same identifiers in every picture.
std::string inline_svg(std::string const& svg, std::string const& name) {
  std::size_t const begin = svg.find("<svg");
  if (begin == std::string::npos) throw error(errc::io, "--report: gnuplot drew nothing");
  std::string out = svg.substr(begin);
  for (std::string const id : {"gpDot", "gpPt", "gnuplot_canvas", "textbox", "greybox"})
    for (std::size_t at = out.find(id); at != std::string::npos; at = out.find(id, at)) {
      out.insert(at, name + '_');
      at += name.size() + 1 + id.size();
    }
  return out;
}

std::string figure(plot const& p) {
  return fmt::format("<figure>\n<h2>{}</h2>\n{}<figcaption>{}</figcaption>\n</figure>\n",
                     escaped(p.title), inline_svg(run_gnuplot(p.script), p.name),
                     escaped(p.caption));
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

}  // namespace

void check_report_is_possible(std::string const& directory) {
  if (!gnuplot_is_installed())
    throw option_error("--report: needs gnuplot for its plots, and there is none that can be run");
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (!std::filesystem::is_directory(directory))
    throw option_error("--report: cannot make the directory \"" + directory + "\"");
}

std::string report_page(report_content const& c) {
  std::string figures;
  for (plot const& p : make_plots(c.best_first)) figures += figure(p);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>rubato-bench compare</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>Which protocol wins</h1>\n<p class=\"settings\">{}</p>\n<p class=\"verdict\">{}</p>\n"
      "{}<div class=\"plots\">\n{}</div>\n{}</body>\n</html>\n",
      style, escaped(c.settings), escaped(c.verdict), html_table(comparison_table(c.best_first)),
      figures, trials(c.best_first));
}

std::string write_report(report_content const& content, std::string const& directory) {
  std::string const file = (std::filesystem::path(directory) / "index.html").string();
  std::ofstream out(file, std::ios::binary);
  out << report_page(content);
  if (!out.flush()) throw error(errc::io, "--report: cannot write to \"" + file + "\"");
  return file;
}

}  // namespace rubato::bench
