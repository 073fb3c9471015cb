// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

namespace rubato {

/// Unwinds a training body when the run ends before it: another worker threw, or `stop()` was
/// called. No std::exception, so that a body which handles its own errors does not swallow it.
struct run_stopped {};

}  // namespace rubato
