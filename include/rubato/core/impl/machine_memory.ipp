// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <memory>

#include "rubato/core/machine_memory.hpp"

namespace rubato {

namespace detail {

/// A file's number; where there is none, as where it says "max", more than there can be.
inline std::uint64_t limit_in(char const* file) {
  constexpr auto none = std::numeric_limits<std::uint64_t>::max();
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const in(std::fopen(file, "r"), &std::fclose);
  std::uint64_t limit = none;
  return in && std::fscanf(in.get(), "%" SCNu64, &limit) == 1 ? limit : none;
}

}  // namespace detail

std::uint64_t machine_memory() {
  struct sysinfo machine {};
  sysinfo(&machine);
  std::uint64_t least = (std::uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
  for (auto const* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    least = std::min(least, detail::limit_in(file));
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    least = std::min<std::uint64_t>(least, space.rlim_cur);
  return least;
}

std::string text_of_bytes(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < units.size(); ++unit) size /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", unit == 0 ? 0 : 1, size, units[unit]);
  return text.data();
}

}  // namespace rubato
