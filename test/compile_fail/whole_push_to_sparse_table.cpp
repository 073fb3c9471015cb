// expect: bounded
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

// A sparse table has no size that a delta for all of it could have.
void train(std::vector<float> const& delta) {
  rb::cluster cluster{rb::in_process{.workers = 3}, rb::ssp{}, rb::sparse<float>{}};
  cluster.run([&](auto& worker) { worker.push(delta); });
}
