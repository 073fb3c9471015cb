// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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

/// What is wrong with a process that does not wait as long as the coordinator before it takes a silent one for lost:
/// it says that it is there too seldom, or others do. Nothing: it waits as long.
/// @param who the process, as "worker 1 (process 12)" @param theirs in milliseconds
[[nodiscard]] std::optional<std::string> difference_of_silence(std::string const& who, std::int64_t theirs,
                                                               std::chrono::milliseconds here);

}  // namespace rubato::detail
