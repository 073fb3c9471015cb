// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/protocol/commit_rate.hpp"

namespace rubato::bench {

/// ADSP+'s pace (003 App. D.2): ADSP's, but a worker makes no more than its number of local steps
/// from commit to commit and pauses when it has. With a search of the best numbers around it, this
/// says whether ADSP's as-many-as-possible is too many.
class limited_rate {
 public:
  /// @param limits by worker, at least 1 each; who is beyond the end has none
  limited_rate(commit_rate_options const& options, std::vector<std::int64_t> limits)
      : rate_(options),
        limits_(std::make_shared<std::vector<std::int64_t> const>(std::move(limits))) {}

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
    commit_due due = rate_.due(p);
    if (p.worker.index() < limits_->size())
      due.steps_max = std::max(due.steps, (*limits_)[p.worker.index()]);
    return due;
  }
  void follow(commit_quota const& order, pace_point const& p) noexcept { rate_.follow(order, p); }
  void spent(duration d) noexcept { rate_.spent(d); }
  [[nodiscard]] rate_conductor make_conductor() const { return rate_.make_conductor(); }

 private:
  commit_rate rate_;
  std::shared_ptr<std::vector<std::int64_t> const> limits_;
};
static_assert(conducted_pace<limited_rate>);

}  // namespace rubato::bench
