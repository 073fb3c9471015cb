// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/address.hpp"
#include "rubato/net/security.hpp"

namespace rubato::net {

/// Logs, once in a process, that what follows a token can be read and changed on its way: where this address, which
/// it listens at or connects to, is beyond this machine, and there is no TLS. Any thread.
void warn_if_exposed(address const& at, security const& keys);

}  // namespace rubato::net
