// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <rubato/storage/dense.hpp>

#include "server/lone_shard.hpp"

namespace rubato::test {

/// A shard of one number, and workers that read and push it at their clocks.
struct lone_number : lone_shard {
  lone_number(rules p, std::uint32_t workers) : lone_shard(std::move(p), dense<double>{.rows = 1}), clocks(workers) {
    for (std::uint32_t w = 0; w < workers; ++w) order(membership_order::kind::enlist, w, 0);
  }

  /// Whether it is answered, and `freed()` says who may go on because of it; `round()` is what it has been told then.
  bool read(std::uint32_t w, staleness asked = staleness::infinite()) {
    released.clear();
    slot.asked = selection::all;
    return admit({{worker_id{w}, {}, stage_id{1}}, clock_index{clocks[w]}, asked, {}}).second;
  }
  void push(std::uint32_t w, double x, std::int64_t round = 0, time_point at = {}) {
    update u;
    u.whole = true;
    u.values.append(std::as_bytes(std::span(&x, 1)));
    released.clear();
    REQUIRE(server.commit({.from = {worker_id{w}, {}, stage_id{1}},
                           .stamp = clock_index{clocks[w]++},
                           .version = version_index{round},
                           .parts = {shared_update(std::move(u))},
                           .arrived = at},
                          released) == refusal::none);
  }

  double value() {
    table_state all;
    server.observe(0, all);
    double x = 0;
    all.copy(0, sizeof x, reinterpret_cast<std::byte*>(&x));
    return x;
  }
  [[nodiscard]] std::int64_t round() const { return slot.stamp.version.value(); }
  /// Who may go on because of the last call.
  [[nodiscard]] std::vector<std::uint32_t> freed() const {
    std::vector<std::uint32_t> all;
    for (worker_id const w : released) all.push_back(w.value());
    return all;
  }

  std::vector<std::int64_t> clocks;
};

using numbers = std::vector<std::uint32_t>;

}  // namespace rubato::test
