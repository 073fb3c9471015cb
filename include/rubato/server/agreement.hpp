// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/core/clock.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/storage/codec.hpp"

/// What the processes of a run compare before it begins. A policy is known by its own fingerprint where it
/// has one (`fingerprinted_policy`); else a copy of it is asked a fixed set of questions, the answers to which
/// are hashed bit by bit: so that two policies differ that differ in a number, however they are put together.
/// Answers that depend on neither the compiler nor the C library give the same number with any.
namespace rubato {

/// What an admission answers at clocks from 0 to 2^20, to 1024 workers where it asks who reads.
[[nodiscard]] std::uint64_t fingerprint(admission_rule const& a);
/// What a visibility folds at these clocks, under the protocol's own bound.
[[nodiscard]] std::uint64_t fingerprint(visibility_rule const& v, staleness bound);
/// What a merge answers for clocks from 0 to 2^20, workers that are apart by up to one clock more than the
/// bound, 1 to 1000 workers, and versions of 1 to 1000 updates.
[[nodiscard]] std::uint64_t fingerprint(merge_rule const& m, staleness bound);
/// Which of 1024 rows a filter lets through at some clocks, and what it sends of an element along a path, to 3 workers.
[[nodiscard]] std::uint64_t fingerprint(filter_rule const& f);
/// What a codec writes for runs of 1 to 100 values of many magnitudes, and what it makes of that. @pre there is one
[[nodiscard]] std::uint64_t fingerprint(codec_rule const& c);

}  // namespace rubato
