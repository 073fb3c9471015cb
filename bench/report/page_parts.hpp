// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string_view>

namespace rubato::bench {

/// The page's style sheet: for light and dark, wide and narrow.
[[nodiscard]] std::string_view page_style() noexcept;
/// The page's script, which shows the values under the pointer. Without it the page lacks nothing else.
[[nodiscard]] std::string_view page_script() noexcept;

}  // namespace rubato::bench
