// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include <rubato/data/dataset.hpp>

namespace rubato::data {

/// How many days of how many chillers. The defaults are those of the ADSP paper's data set.
struct chiller_options {
  std::size_t chillers = 5;  ///< 1 to 1000, each somewhat better or worse than the others
  std::size_t days = 1'461;  ///< 2012 to 2015; 1 to 10^6
  /// Standard deviation of what no feature tells about the label, in units of the label. In [0,
  /// 10].
  double noise = 0.1;
  std::uint64_t seed = 1;  ///< of all draws
};

/// The features of a row, in this order; behind them follows one for each chiller, which is 1 for
/// the row's own.
enum class chiller_feature : std::size_t {
  outlet_temperature,   ///< of the chilled water
  outdoor_temperature,  ///< follows the seasons
  electricity,          ///< of that day: it follows from load and efficiency
  age,                  ///< of the chiller
  load,                 ///< refrigeration of that day
  humidity,             ///< makes the cooling tower's work harder
  operating_hours,      ///< of that day; a long day is a loaded one
  constant,             ///< 1: the offset, which linear models lack
};
inline constexpr std::size_t chiller_features = 8;  ///< without those that name the chiller

/// One row for each chiller and day, whose label is the day's coefficient of performance:
/// refrigeration over electricity, on average 4.4. All features named above but the constant have
/// mean 0 and variance 1 over the rows. A linear model explains nine tenths of the label's
/// variance; the rest is noise and physics: efficiency is best at part load, and falls with the
/// temperature that heat has to be lifted by.
///
/// In place of the data set, which is not public, of "Distributed Machine Learning through
/// Heterogeneous Edge Systems" (ADSP, AAAI 2020), appendix D: outlet and outdoor temperature,
/// electricity, age "and some other features".
///
/// The result depends on the options only, bit for bit, on every compiler (built without
/// floating-point contraction). Throws option_error on an option out of range. Cost: O(rows).
[[nodiscard]] dataset make_synthetic_chiller(chiller_options const& options = {});

}  // namespace rubato::data
