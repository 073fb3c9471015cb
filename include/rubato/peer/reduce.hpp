// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/peer/concepts.hpp"

namespace rubato {

/// As the mixing matrix says: W_ij. Source: 002 Eq. 1; Fig. 8 where the weights are uniform.
struct reduce_by_mixing {
  [[nodiscard]] static constexpr double weight(update_info const& u) noexcept { return u.mixing; }
};
static_assert(reduce_policy<reduce_by_mixing>);

/// The newer an update, the more it counts: Iter(u) − (k − s) + 1, times W_ij, which takes part
/// only where the weights are not uniform. Source: 002 Eq. 2.
struct reduce_by_age {
  [[nodiscard]] static constexpr double weight(update_info const& u) noexcept {
    return u.mixing * static_cast<double>(distance(u.oldest, u.made) + 1);
  }
};
static_assert(reduce_policy<reduce_by_age>);

/// All the same, whatever their age and the mixing matrix: what Eq. 2 was compared with (002 §4.4).
struct reduce_plainly {
  [[nodiscard]] static constexpr double weight(update_info const&) noexcept { return 1; }
};
static_assert(reduce_policy<reduce_plainly>);

}  // namespace rubato
