// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

// The one place that holds the version: CMakeLists.txt reads these three lines.
#define RUBATO_VERSION_MAJOR 0
#define RUBATO_VERSION_MINOR 7
#define RUBATO_VERSION_PATCH 0

/// Grows with every release, so that `#if RUBATO_VERSION >= 10200` asks for 1.2.0 or later.
#define RUBATO_VERSION \
  (RUBATO_VERSION_MAJOR * 10000 + RUBATO_VERSION_MINOR * 100 + RUBATO_VERSION_PATCH)

namespace rubato {

/// Three numbers, as in 0.7.0. Before 1.0 each minor version may break its users.
struct version_number {
  /// The first; not `major`, of which glibc's <sys/sysmacros.h> makes a macro.
  int major_number = 0;
  int minor_number = 0;  ///< grows when something is added, and before 1.0 when something breaks
  int patch_number = 0;  ///< grows when something is mended

  friend constexpr bool operator==(version_number const&, version_number const&) = default;
};

/// The version of these headers.
inline constexpr version_number version{RUBATO_VERSION_MAJOR, RUBATO_VERSION_MINOR,
                                        RUBATO_VERSION_PATCH};

}  // namespace rubato
