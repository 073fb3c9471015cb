// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <rubato/core/random.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/fed_buff.hpp>
#include <rubato/protocol/k_async.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/read_ahead.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/testing/expectations.hpp>

namespace rubato::test {

/// The protocol of a trial, and what its run is held to.
struct drawn_rules {
  std::optional<rules> protocol = {};
  testing::expectations expected = {};
  bool is_bsp = false;
  bool versioned = false;  ///< DynSGD's merge: the table of weights keeps versions
  bool by_pace = false;    ///< the pace says when to commit, and follows what the coordinator orders
  bool by_rounds = false;  ///< a commit may be seen by nobody for long, not even by its worker
  bool drops = false;      ///< and by nobody at all, when it is late
  bool renews = false;     ///< workers renew what they have read while they compute
};

/// Renews what is at least so old, in clocks.
struct renewed_from {
  std::int64_t age = 0;
  [[nodiscard]] bool renews(read_point at) const noexcept { return at.age.clocks() >= age; }
};
static_assert(read_policy<renewed_from>);

/// Has copies renewed where the protocol allows it; says whether.
inline bool renew_copies(drawn_rules& r, random_stream& random) {
  if (r.by_rounds || r.versioned || r.protocol->visibility.synchronized()) return false;
  std::int64_t const age = random.chance(0.6) ? 0 : static_cast<std::int64_t>(random.below(4));
  r.protocol = with(*std::move(r.protocol), renewed_from{age});
  return r.renews = true;
}

/// Those whose commits are all seen, in the order in which they are made.
[[nodiscard]] inline drawn_rules draw_rules_by_clocks(random_stream& random) {
  switch (random.below(6)) {
    case 0: return {.protocol = rules(bsp{}), .expected = testing::strict_rules(0), .is_bsp = true};
    case 1: {
      staleness const s = static_cast<std::int64_t>(random.below(3));
      return {.protocol = rules(basic_ssp<strict>{.staleness = s}), .expected = testing::strict_rules(s)};
    }
    case 2: return {.protocol = rules(asp{}), .expected = testing::eager_rules(staleness::infinite())};
    case 3: {
      staleness const s = static_cast<std::int64_t>(random.below(3));
      return {.protocol = rules(basic_ssp<stable_cut>{.staleness = s}), .expected = testing::synchronized_rules(s)};
    }
    default: {
      staleness const s = static_cast<std::int64_t>(random.below(4));
      return {.protocol = rules(ssp{.staleness = s}), .expected = testing::eager_rules(s)};
    }
  }
}

/// DynSGD, ADSP, and rounds of K commits.
[[nodiscard]] inline drawn_rules draw_other_rules(random_stream& random) {
  staleness const s = static_cast<std::int64_t>(random.below(4));
  auto const k = 1 + static_cast<std::uint32_t>(random.below(4));
  testing::expectations folded_late = testing::eager_rules(staleness::infinite());
  folded_late.holds_back = true;
  switch (random.below(6)) {
    case 0:
      return {.protocol = rules(dyn_sgd{.staleness = s}), .expected = testing::eager_rules(s), .versioned = true};
    case 1:
      return {.protocol = rules(basic_dyn_sgd<stable_cut>{.staleness = s}),
              .expected = testing::synchronized_rules(s),
              .versioned = true};
    case 2: {
      adsp p;
      p.check_period = std::chrono::milliseconds(1 + random.below(10));
      p.probe_period = p.check_period * (1 + static_cast<int>(random.below(3)));
      p.epoch = p.probe_period * (2 + static_cast<int>(random.below(10)));
      p.first_rate = 1 + static_cast<std::int64_t>(random.below(4));
      p.samples = 9;
      return {.protocol = rules(p), .expected = testing::eager_rules(staleness::infinite()), .by_pace = true};
    }
    case 3: return {.protocol = rules(fed_buff{.k = k}), .expected = folded_late, .by_rounds = true};
    case 4: return {.protocol = rules(k_async{.k = k}), .expected = folded_late, .by_rounds = true};
    default: return {.protocol = rules(k_sync{.k = k}), .expected = folded_late, .by_rounds = true, .drops = true};
  }
}

}  // namespace rubato::test
