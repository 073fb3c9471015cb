// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// Which version a worker's next commit belongs to once it has read.
enum class versions : std::uint8_t {
  /// One that its replica does not contain yet. At most (M − 1)(2s + 2) versions live at a time on
  /// a server while every worker reads in every clock; a worker that never reads keeps old versions
  /// alive for as long as it runs.
  exact,
  /// The greatest clock: at most 2(s + 1) versions live, but an update may revise one that its
  /// replica contains. With several servers, of which one may lag behind the others, a few more
  /// where workers skip reads.
  capped,
};

/// DynSGD's merge: the updates that were computed from the same version of the parameters share its
/// weight, `w = base + Σ_v G(v)/n(v)`, so that a late one revises what the earlier ones counted.
/// Source: 000 §5, Algorithm 2 with the corrections of rules §4.
struct revise {
  versions kept = versions::exact;  ///< which version a commit belongs to

  [[nodiscard]] constexpr version_index map(commit_info const& c) const noexcept {
    return c.version;
  }
  [[nodiscard]] constexpr double weight(commit_info const&) const noexcept { return 1.0; }
  [[nodiscard]] constexpr double share(version_state const& v) const noexcept {
    return 1.0 / static_cast<double>(v.updates);
  }
  [[nodiscard]] constexpr std::optional<double> expire(version_state const& v,
                                                       version_window const& w) const noexcept {
    if (v.version >= w.least) return std::nullopt;
    return share(v);
  }
  [[nodiscard]] constexpr version_index version_after(version_read const& r) const noexcept {
    return std::max(r.own, kept == versions::exact ? r.top : version_index{r.c_max.value()});
  }
};
static_assert(versioned_merge<revise> && !exact_merge<revise>);

}  // namespace rubato
