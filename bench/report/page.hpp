// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "bench/result/repeated.hpp"
#include "bench/result/timeline.hpp"

namespace rubato::bench {

/// What the page says.
struct report_content {
  std::string settings;  ///< lines of text
  std::string verdict;
  std::span<repeated const> best_first;
  std::optional<timeline> watched{};  ///< of one of them
};

/// Checks, before minutes are spent on runs, that the directory can be made and the page written.
/// @throws option_error
void check_report_is_possible(std::string const& directory);

/// The page as HTML, complete in itself.
[[nodiscard]] std::string report_page(report_content const& content);

/// Writes index.html into the directory and returns its path. @throws option_error
std::string write_report(report_content const& content, std::string const& directory);

}  // namespace rubato::bench
