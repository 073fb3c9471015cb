// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <string>

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

/// This process's control group under a controller; "": in the hierarchy of version 2. Nothing where there is none.
inline std::string group_under(std::string const& controller) {
  std::ifstream in("/proc/self/cgroup");
  std::string number, controllers, path;
  while (std::getline(in, number, ':') && std::getline(in, controllers, ':') && std::getline(in, path))
    if (controllers == controller) return path;
  return {};
}

/// The least limit of this process's control group and those that it is in.
inline std::uint64_t limit_of_group(std::string const& mount, std::string group, char const* file) {
  std::uint64_t least = limit_in((mount + "/" + file).c_str());
  for (; group.size() > 1; group.resize(group.rfind('/')))
    least = std::min(least, limit_in((mount + group + "/" + file).c_str()));
  return least;
}

/// Of both versions' hierarchies. Some twenty files are opened for it.
inline std::uint64_t limit_of_groups() {
  return std::min(limit_of_group("/sys/fs/cgroup", group_under(""), "memory.max"),
                  limit_of_group("/sys/fs/cgroup/memory", group_under("memory"), "memory.limit_in_bytes"));
}

}  // namespace detail

std::uint64_t machine_memory() {
  struct sysinfo machine {};
  sysinfo(&machine);
  std::uint64_t least = (std::uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
  std::uint64_t const swap = std::uint64_t{machine.totalswap} * machine.mem_unit;
  static std::uint64_t const limit = detail::limit_of_groups();
  if (limit < least) least = std::min(least, limit + swap);  // swap space has a limit of its own, or none
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
