// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <vector>

// The other processes of a measurement of peers over TCP, and of plain sockets that move the same bytes.
namespace rubato::bench {

/// A peer, by the words after `--serve`.
void serve_peer(std::vector<std::string> const& words);
/// One of a ring of plain sockets.
void serve_ring(std::vector<std::string> const& words);

}  // namespace rubato::bench
