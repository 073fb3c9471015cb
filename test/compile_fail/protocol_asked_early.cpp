// expect within 15: a merge_policy's weight() must be noexcept
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct may_throw {
  double weight(rb::commit_info const& c) const { return 1.0 / c.workers; }
};

struct mine : rb::ssp {
  may_throw merge() const { return {}; }
};
static_assert(rb::is_protocol<mine>());
