// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// Admission that waits for some of the other workers only.
///
/// | expression                   | result | meaning |
/// |------------------------------|--------|---------|
/// | `p.heeds(reader, other, c)`  | `bool` | whether the reader waits for this worker at clock c |
///
/// A read goes on once all live workers that it heeds have reached `need`, which says nothing of the others; so
/// `bound()` is usually infinite. A copy will do by `cache_need`, as ever: at that server clock all are there. Answers
/// depend on nothing but the arguments, so that servers agree. Nobody heeds itself, whatever is said. Needs a
/// visibility that holds nothing back; workers of a process do not share reads. Called under the shard's control lock,
/// once for each worker that has not reached `need`. Models: `sampled_staleness`. Source: Wang, Catterall, Mortier
/// 2017.
template <class P>
concept heeding_admission = admission_policy<P> && requires(P const p, worker_id w, clock_index c) {
  { p.heeds(w, w, c) } noexcept -> std::same_as<bool>;
};

}  // namespace rubato
