// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/edge.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

constexpr std::array ec2_table{
    device_kind{"t2.large", 2, 7},
    device_kind{"t2.xlarge", 4, 5},
    device_kind{"t2.2xlarge", 8, 4},
    device_kind{"t3.xlarge", 4, 2},
};

constexpr std::array phone_table{
    device_kind{"iPhone 6", 2759, 6.22},       device_kind{"iPhone 6S", 4459, 7.77},
    device_kind{"iPhone 6S Plus", 4459, 4.34}, device_kind{"iPhone SE", 4459, 3.89},
    device_kind{"iPhone 7", 5937, 12.05},      device_kind{"iPhone 7 Plus", 5937, 9.96},
    device_kind{"Galaxy S8", 6711, 2.96},      device_kind{"iPhone 8 Plus", 11421, 5.68},
    device_kind{"iPhone X", 11421, 5.00},      device_kind{"iPhone 8", 11421, 4.04},
};

}  // namespace

std::span<device_kind const> ec2_devices() noexcept { return ec2_table; }
std::span<device_kind const> phones() noexcept { return phone_table; }

std::vector<std::size_t> apportion(std::span<double const> shares, std::size_t seats) {
  double const sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  bool const bad = std::ranges::any_of(shares, [](double s) { return !(s >= 0); });
  if (bad || !(sum > 0) || !std::isfinite(sum))
    throw option_error("apportion: expected shares of 0 or more, and one above 0");
  std::vector<std::size_t> dealt;
  std::vector<double> rests;
  for (double const share : shares) {
    double const quota = share / sum * static_cast<double>(seats);
    // 7 / 18 * 36 may come out below 14: such a quota is whole.
    double const whole = std::floor(quota + 1e-9);
    dealt.push_back(static_cast<std::size_t>(whole));
    rests.push_back(quota - whole);
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return rests[i]; });
  std::size_t const left = seats - std::accumulate(dealt.begin(), dealt.end(), std::size_t{0});
  for (std::size_t i = 0; i < left; ++i) ++dealt[order[i]];
  return dealt;
}

std::vector<double> edge_mix(std::span<device_kind const> kinds, std::size_t workers) {
  std::vector<double> shares;
  double sum = 0, mean = 0;
  for (device_kind const& k : kinds) {
    shares.push_back(k.share);
    sum += k.share;
    mean += k.share * k.speed;
  }
  std::vector<std::size_t> const counts = apportion(shares, workers);
  std::vector<double> slowness;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    slowness.insert(slowness.end(), counts[i], mean / sum / kinds[i].speed);
  return slowness;
}

double heterogeneity_of(std::span<double const> slowness) {
  if (slowness.empty()) return 1;
  double mean = 0, most = 0;
  for (double const s : slowness) {
    mean += 1 / s / static_cast<double>(slowness.size());
    most = std::max(most, s);
  }
  return mean * most;
}

std::vector<double> slowness_for_heterogeneity(std::size_t workers, double h) {
  if (!(h >= 1) || !std::isfinite(h) || (workers < 2 && h > 1))
    throw option_error(fmt::format(
        "a heterogeneity of {} for {} workers, expected 1 or more, and 1 for a lone worker", h,
        workers));
  // In units of the least speed: from 1 in equal steps to 2h - 1, so that the mean is h.
  std::vector<double> slowness(workers, 1.0);
  for (std::size_t i = 0; workers > 1 && i < workers; ++i) {
    double const step = 2 * (h - 1) / static_cast<double>(workers - 1);
    slowness[i] = h / (1 + step * static_cast<double>(i));
  }
  return slowness;
}

}  // namespace rubato::bench
