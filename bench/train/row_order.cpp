// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/row_order.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

constexpr std::string_view by_label_prefix = "by-label:";

/// The share behind "by-label:", or nothing above 0 where it is none.
double share_of(std::string const& text) {
  std::string const number = text.substr(by_label_prefix.size());
  std::size_t used = 0;
  double share = 0;
  try {
    share = std::stod(number, &used);
  } catch (std::exception const&) {
  }
  return used == number.size() && share <= 1 ? share : 0;
}

/// Of rows that are shuffled the first ones, so many, sorted by label, evenly between the rest.
std::vector<std::size_t> by_label(data::dataset const& rows, double share) {
  std::size_t const n = rows.size();
  auto const count = static_cast<std::size_t>(std::llround(share * static_cast<double>(n)));
  std::vector<std::size_t> sorted(count);
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::stable_sort(sorted, {}, [&](std::size_t i) { return rows.labels()[i]; });
  std::vector<std::size_t> order;
  order.reserve(n);
  for (std::size_t i = 0, taken = 0; i < n; ++i) {
    bool const its_turn = (i + 1) * count / n > taken;
    order.push_back(its_turn ? sorted[taken] : count + (i - taken));
    taken += its_turn;
  }
  return order;
}

}  // namespace

row_order parse_row_order(std::string const& text) {
  using enum row_order::kind;
  if (text == "shuffled") return {};
  if (text == "ordered") return {.how = ordered};
  if (text == "all") return {.how = all};
  if (text.starts_with(by_label_prefix))
    if (double const share = share_of(text); share > 0) return {.how = by_label, .labelled = share};
  throw option_error("--shards: \"" + text +
                     "\" is no order, expected shuffled, ordered, all or by-label:FRACTION above 0 and at most 1");
}

std::string name_of(row_order const& order) {
  switch (order.how) {
    case row_order::kind::shuffled:
      return "shuffled";
    case row_order::kind::ordered:
      return "ordered";
    case row_order::kind::by_label:
      return fmt::format("{}{}", by_label_prefix, order.labelled);
    case row_order::kind::all:
      break;
  }
  return "all";
}

data::dataset in_order(data::dataset const& rows, row_order const& order, std::uint64_t seed) {
  if (order.how == row_order::kind::ordered) return rows;
  data::dataset const mixed = rows.shuffled(seed);
  if (order.how != row_order::kind::by_label) return mixed;
  return mixed.gather(by_label(mixed, order.labelled));
}

}  // namespace rubato::bench
