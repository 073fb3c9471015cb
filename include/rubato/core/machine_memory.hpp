// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>

namespace rubato {

/// Bytes that this process may come to have: the machine's memory, or the limit of its control group (cgroup),
/// and swap space beside either; or the limit of its address space (`ulimit -v`), whichever is least. What others use
/// of it is not taken away: who asks for more than this can never have it, who asks for less may. The groups' limit is
/// as it was when first asked for. Any thread; asks the system.
[[nodiscard]] std::uint64_t machine_memory();

/// How large that is, in the greatest unit of which it is at least one: "62.5 GiB".
[[nodiscard]] std::string text_of_bytes(std::uint64_t bytes);

}  // namespace rubato
