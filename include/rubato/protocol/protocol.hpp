// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string_view>
#include <utility>

#include "rubato/protocol/commit_filter.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/diagnosis.hpp"
#include "rubato/protocol/read_ahead.hpp"

namespace rubato {

/// A protocol put together from four policies, a filter if commits are not sent as they are, and a read policy if copies
/// are renewed ahead of time.
template <admission_policy Admission, visibility_policy Visibility, merge_policy Merge, pace_policy Pace,
          class Filter = send_all, class Reads = on_demand>
class composed {
 public:
  /// @param name is not copied: a literal, usually
  constexpr composed(Admission a, Visibility v, Merge m, Pace p, std::string_view name = "custom", Filter f = {},
                     Reads r = {})
      : admission_(std::move(a)),
        visibility_(std::move(v)),
        merge_(std::move(m)),
        pace_(std::move(p)),
        filter_(std::move(f)),
        reads_(std::move(r)),
        name_(name) {}

  [[nodiscard]] constexpr Admission admission() const { return admission_; }
  [[nodiscard]] constexpr Visibility visibility() const { return visibility_; }
  [[nodiscard]] constexpr Merge merge() const { return merge_; }
  [[nodiscard]] constexpr Pace pace() const { return pace_; }
  [[nodiscard]] constexpr Filter filter() const { return filter_; }
  [[nodiscard]] constexpr Reads reads() const { return reads_; }
  /// Refers to the text given at construction, which must live as long: a literal, usually.
  [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }

 private:
  [[no_unique_address]] Admission admission_;
  [[no_unique_address]] Visibility visibility_;
  [[no_unique_address]] Merge merge_;
  [[no_unique_address]] Pace pace_;
  [[no_unique_address]] Filter filter_;
  [[no_unique_address]] Reads reads_;
  std::string_view name_;
};

/// The protocol `p` with one of its policies replaced by `part`, whichever kind `part` is:
/// `with(bsp{}, every{10})` averages after ten local steps; `with(ssp{.staleness = 0}, strict{})`. A filter is added
/// where there is none; `send_all` takes it away. So with `refreshed` and `on_demand`.
template <protocol P, class Part>
[[nodiscard]] constexpr auto with(P const& p, Part part) {
  static_assert(detail::diagnose_part<Part>());  // no constraint, which would hide what is missing
  auto const put = [&p](auto a, auto v, auto m, auto c, auto f, auto r) {
    return composed{std::move(a), std::move(v), std::move(m), std::move(c), name_of(p), std::move(f), std::move(r)};
  };
  auto const filter = filter_of(p);
  auto const reads = detail::reads_of(p);
  if constexpr (admission_policy<Part>)
    return put(std::move(part), p.visibility(), p.merge(), p.pace(), filter, reads);
  else if constexpr (visibility_policy<Part>)
    return put(p.admission(), std::move(part), p.merge(), p.pace(), filter, reads);
  else if constexpr (merge_policy<Part>)
    return put(p.admission(), p.visibility(), std::move(part), p.pace(), filter, reads);
  else if constexpr (pace_policy<Part>)
    return put(p.admission(), p.visibility(), p.merge(), std::move(part), filter, reads);
  else if constexpr (commit_filter<Part> || std::same_as<Part, send_all>)
    return put(p.admission(), p.visibility(), p.merge(), p.pace(), std::move(part), reads);
  else if constexpr (detail::reads_part<Part>)
    return put(p.admission(), p.visibility(), p.merge(), p.pace(), filter, std::move(part));
  else
    return p;  // has been refused above
}

/// Several parts replaced, from left to right.
template <protocol P, class First, class Second, class... Rest>
[[nodiscard]] constexpr auto with(P const& p, First first, Second second, Rest... rest) {
  return with(with(p, std::move(first)), std::move(second), std::move(rest)...);
}

}  // namespace rubato
