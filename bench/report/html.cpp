// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/html.hpp"

#include <fmt/format.h>

namespace rubato::bench {

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

std::string place(double share) { return fmt::format("{:.4g}", 1000 * share); }

std::string percent(double share) { return fmt::format("{:.4g}%", 100 * share); }

std::string figure(std::string_view id, std::string_view title, std::string_view body, std::string_view caption) {
  return fmt::format("<figure id=\"{}\">\n<h2>{}</h2>\n{}<figcaption>{}</figcaption>\n</figure>\n", id, escaped(title),
                     body, caption);
}

std::string stretched(std::string_view content) {
  return fmt::format(
      "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}</svg>", content);
}

}  // namespace rubato::bench
