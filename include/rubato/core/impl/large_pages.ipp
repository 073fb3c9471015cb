// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "rubato/core/large_pages.hpp"

namespace rubato::detail {

void ask_for_large_pages([[maybe_unused]] void* at, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MADV_HUGEPAGE)
  // No page in part: what lies behind the array is not its own. A system that has none says so, which changes nothing.
  (void)::madvise(at, bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
}

}  // namespace rubato::detail
