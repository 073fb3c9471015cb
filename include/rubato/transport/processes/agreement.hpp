// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <string_view>

namespace rubato::detail {

/// Where two say different things about what all must agree on, `blueprint::agreement()`: of each what the other does
/// not say, to be quoted.
struct disagreement {
  std::string here;
  std::string there;
};
/// The parts, divided by "; ", that differ; of lists that are not as long all from the first to the last that differ.
/// Long ones around where they begin to. For messages: escaped, and cut to a few hundred bytes. Takes time in
/// proportion to both, since a stranger chooses how long one is.
[[nodiscard]] disagreement difference(std::string_view here, std::string_view there);

}  // namespace rubato::detail
