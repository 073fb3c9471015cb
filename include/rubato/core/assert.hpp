// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cassert>
#include <cstdio>
#include <cstdlib>

/// Checks an invariant of Rubato's own; never the caller's input, which is answered by exceptions.
/// On in builds without NDEBUG and wherever RUBATO_CHECKS is defined, as in the tests.
#if defined(RUBATO_CHECKS)
#define RUBATO_ASSERT(condition)                                                          \
  ((condition) ? void()                                                                   \
               : (std::fprintf(stderr, "%s:%d: invariant broken: %s\n", __FILE__, __LINE__, \
                               #condition),                                               \
                  std::abort()))
#else
#define RUBATO_ASSERT(condition) assert(condition)
#endif
