// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <rubato/storage/shared_update.hpp>
#include <utility>

namespace rubato::test {

/// Parameters that are told apart by a number, which is all that is in them.
[[nodiscard]] inline shared_update numbered(std::int32_t number) {
  update u{.whole = true, .rows = {}, .values = {}};
  u.values.resize_bytes(sizeof number);
  u.values.as<std::int32_t>()[0] = number;
  return shared_update(std::move(u));
}
[[nodiscard]] inline std::int32_t number_of(shared_update const& u) {
  return u.empty() ? 0 : u->values.as<std::int32_t>()[0];
}

}  // namespace rubato::test
