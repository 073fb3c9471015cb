// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "rubato/protocol/rules.hpp"
#include "rubato/server/commit_cut.hpp"
#include "rubato/server/shard_control.hpp"
#include "rubato/storage/table_host.hpp"

namespace rubato {

/// A table of a shard as a read is to see it: what is folded, and of the log what the read's cut includes
/// (all of it for an observer, who has none). Under synchronized reads it is good for as long as
/// nothing is folded.
class shard_view {
 public:
  /// @param table its number
  shard_view(std::size_t table, table_host const& host, merge_rule const& merge,
             shard_control const& control, commit_cut const* cut);
  shard_view(shard_view const&) = delete;
  shard_view& operator=(shard_view const&) = delete;

  /// What a host adds to what it has folded. Refers to this view.
  [[nodiscard]] table_view seen() const noexcept {
    return {.above = above_, .share = merge_.versioned() ? &share_ : nullptr};
  }
  /// What `version_after` is told of a read of this.
  [[nodiscard]] version_read seen_by(worker_id reader) const noexcept {
    return {.own = control_.versions().of(reader), .top = top_, .c_max = c_max_};
  }

 private:
  using counts = std::map<version_index, std::uint32_t>;

  void add_held_back(std::size_t table, commit_cut const* cut);
  void note(commit_info const& info, update const& u);
  void weigh(table_host const& host);
  [[nodiscard]] double worth_of(version_index v, std::uint32_t folded) const;

  merge_rule const& merge_;
  shard_control const& control_;
  std::vector<weighted_part> above_;
  std::vector<version_index> versions_;  // of those above
  counts more_;                          // how many of those above each version has
  version_index top_{};
  clock_index c_min_{};
  clock_index c_max_;
  version_share share_;
};

}  // namespace rubato
