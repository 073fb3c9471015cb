// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace rubato::bench {

/// One kind of device in a mix.
struct device_kind {
  std::string_view name;
  double speed;  ///< in any unit; above 0
  double share;  ///< of all devices, in any unit; not negative
};

/// Amazon EC2 instances that stand for edge devices, with their numbers in a cluster of 18 and
/// their speeds in vCPUs (003, table 1; without the server).
[[nodiscard]] std::span<device_kind const> ec2_devices() noexcept;

/// Smartphones in the USA in the second quarter of 2018, with their market shares in percent and
/// their speeds in points of Geekbench 4, multi-core (003, table 2).
[[nodiscard]] std::span<device_kind const> phones() noexcept;

/// Deals `seats` out in proportion to `shares`: each gets its quota rounded down, and the greatest
/// remainders one more (of equal ones the first). The sum is `seats`.
/// @throws option_error unless some share is above 0 and none below
[[nodiscard]] std::vector<std::size_t> apportion(std::span<double const> shares, std::size_t seats);

/// The slowness (`sim::speed_options`) of each of `workers` devices of the mix, kind by kind. 1 is
/// the mean speed of the whole mix, whichever part of it the workers are.
[[nodiscard]] std::vector<double> edge_mix(std::span<device_kind const> kinds, std::size_t workers);

/// The heterogeneity H = mean speed / least speed (003 §5.2), for slownesses above 0; 1 for none.
[[nodiscard]] double heterogeneity_of(std::span<double const> slowness);

/// Slownesses whose heterogeneity is `h`, for figure 5 of 003: speeds rise in equal steps from the
/// first worker to the last. Their mean is 1, so that only the spread differs between two h, not
/// what the cluster can do; the slowest has the slowness h.
/// @throws option_error unless h >= 1, and h = 1 for fewer than 2 workers
[[nodiscard]] std::vector<double> slowness_for_heterogeneity(std::size_t workers, double h);

}  // namespace rubato::bench
