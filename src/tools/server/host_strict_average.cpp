// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/visibility.hpp"
#include "src/tools/server/hosted.hpp"

namespace rubato::server_tool {

std::unique_ptr<host> host_strict_average(options const& o) { return host_protocol<strict>(average{}, o); }

}  // namespace rubato::server_tool
