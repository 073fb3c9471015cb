// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace rubato::net {

/// How much a line matters: what was refused or lost, or what is of interest only.
enum class log_level { warning, info };

/// Where the network's log lines go: the one place of a process. Lines at `info` tell of
/// connections that come and go, warnings of what was refused or lost. It is called for one line at a time. What it
/// logs itself goes nowhere; it may set another sink.
using log_sink = std::function<void(log_level, std::string_view)>;

/// Sets the sink; by default warnings go to stderr and the rest nowhere. When this returns the one before is not
/// called any more, but for the call that this may be made from. Any thread.
void set_log(log_sink sink);
/// One line: what is no visible character is escaped, since lines quote what others have sent, and the end of a very
/// long one is left out. Any thread.
void log(log_level level, std::string const& line);

}  // namespace rubato::net
