// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/result/repeated.hpp"
#include "bench/train/protocols.hpp"
#include "test/bench/results.hpp"

namespace rubato::bench {

/// Sixteen protocols, with curves that differ: every second one overshoots, the last is far slower than all others,
/// and one of three does not get to the target.
[[nodiscard]] inline std::vector<repeated> sixteen_protocols() {
  std::vector<repeated> all;
  for (protocol_entry const& e : known_protocols()) {
    std::size_t const i = all.size();
    if (i == 16) break;
    double const seconds = i == 15 ? 4.0 : 0.02 + 0.004 * static_cast<double>(i);
    std::string const name(e.name);
    run_result r = i % 3 == 2 ? missed(name, seconds, 1000, 0.31)
                              : reached(name, seconds, 1000, 0.05 * static_cast<double>(i));
    r.curve = {{.loss = 0.7}};
    for (int k = 1; k <= 50; ++k) {
      double const part = k / 50.0, up = i % 2 == 1 && k == 5 ? 1 : 0;
      r.curve.push_back({.seconds = seconds * part,
                         .updates = static_cast<std::uint64_t>(20 * k),
                         .loss = up + r.final_loss + 0.4 * std::exp(-part * (4 + static_cast<double>(i) / 4))});
    }
    r.staleness_histogram.assign(i + 1, 3);
    all.push_back({{std::move(r)}});
  }
  return all;
}

/// What is wrong with a page's tags: that they do not nest, or with their attributes; empty for a page without fault.
/// Of HTML what the report makes use of, and strictly.
class markup {
 public:
  explicit markup(std::string const& page) : page_(page) {}

  std::string fault() {
    while ((at_ = page_.find('<', at_)) != std::string::npos)
      if (std::string const found = tag(); !found.empty()) return found + " at " + page_.substr(begin_, 60);
    return open_.empty() ? "" : "not closed: " + open_.back();
  }

 private:
  std::string tag() {
    begin_ = at_;
    std::size_t const end = page_.find('>', at_);
    if (end == std::string::npos) return "no end of a tag";
    std::string inside = page_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (inside == "!DOCTYPE html") return "";
    if (inside[0] == '/') return close(inside.substr(1));
    bool const empty = inside.back() == '/';
    if (empty) inside.pop_back();
    std::size_t const name_end = std::min(inside.find(' '), inside.size());
    std::string const name = inside.substr(0, name_end);
    if (std::string const found = attributes(inside.substr(name_end)); !found.empty()) return found;
    if (empty || name == "meta") return "";
    open_.push_back(name);
    if (name == "script" || name == "style") at_ = page_.find("</" + name, at_);
    return "";
  }
  std::string close(std::string const& name) {
    if (open_.empty() || open_.back() != name) return "closed, but not open: " + name;
    open_.pop_back();
    return "";
  }
  /// ` name="value"`, again and again, or ` name`.
  static std::string attributes(std::string const& text) {
    std::set<std::string> seen;
    for (std::size_t at = 0; at < text.size();) {
      if (text[at++] != ' ') return "no space before an attribute";
      std::size_t const end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789",
                                                     at);
      std::string const name = text.substr(at, end - at);
      if (name.empty() || !seen.insert(name).second) return "an attribute without a name, or twice: " + name;
      if (end == std::string::npos || text[end] != '=') return "an attribute without a value: " + name;
      if (text[end + 1] != '"') return "a value without quotes: " + name;
      at = text.find('"', end + 2);
      if (at++ == std::string::npos) return "a value without an end: " + name;
    }
    return "";
  }

  std::string const& page_;
  std::size_t at_ = 0, begin_ = 0;
  std::vector<std::string> open_;
};

[[nodiscard]] inline std::string fault_of_markup(std::string const& page) { return markup(page).fault(); }

}  // namespace rubato::bench
