// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

namespace rubato::launch {

/// A secret that the processes of one run share. @throws std::system_error
[[nodiscard]] std::string random_token();

}  // namespace rubato::launch
