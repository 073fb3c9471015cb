// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/error.hpp"
#include "rubato/sim/distribution.hpp"

#include <fmt/core.h>

#include <cmath>

namespace rubato::sim {
namespace {

struct validator {
  std::string_view option;

  void non_negative(std::string_view kind, std::string_view parameter, double value) const {
    if (std::isfinite(value) && value >= 0) return;
    throw option_error(fmt::format("{}: the {} of {} must be finite and not negative, but is {}",
                                   option, parameter, kind, value));
  }
  void positive(std::string_view kind, std::string_view parameter, double value) const {
    if (std::isfinite(value) && value > 0) return;
    throw option_error(fmt::format("{}: the {} of {} must be finite and greater than 0, but is {}",
                                   option, parameter, kind, value));
  }

  void operator()(constant const& d) const { non_negative("constant", "value", d.value); }

  void operator()(uniform const& d) const {
    non_negative("uniform", "low", d.low);
    non_negative("uniform", "high", d.high);
    if (d.low <= d.high) return;
    throw option_error(fmt::format("{}: the low of uniform must not exceed its high, but {} > {}",
                                   option, d.low, d.high));
  }

  void operator()(exponential const& d) const { positive("exponential", "mean", d.mean); }

  void operator()(lognormal const& d) const {
    positive("lognormal", "median", d.median);
    non_negative("lognormal", "sigma", d.sigma);
  }

  void operator()(pareto const& d) const {
    positive("pareto", "least", d.least);
    positive("pareto", "alpha", d.alpha);
    positive("pareto", "cap", d.cap);
    if (d.least <= d.cap) return;
    throw option_error(fmt::format("{}: the least of pareto must not exceed its cap, but {} > {}",
                                   option, d.least, d.cap));
  }
};

}  // namespace

void distribution::validate(std::string_view option) const { std::visit(validator{option}, kind_); }

}  // namespace rubato::sim
