// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/server/shard_view.hpp"
#include "rubato/server/worker_versions.hpp"

namespace rubato {

shard_view::shard_view(std::size_t table, table_host const& host, merge_rule const& merge,
                       shard_control const& control, commit_cut const* cut)
    : merge_(merge), control_(control), c_max_(control.newest_folded()) {
  if (merge.versioned())
    share_ = [this](version_state const& s) { return worth_of(s.version, s.updates); };
  if (!control.synchronized()) return;
  add_held_back(table, cut);
  if (merge.versioned()) weigh(host);
}

void shard_view::add_held_back(std::size_t table, commit_cut const* cut) {
  top_ = control_.versions().top();
  c_min_ = cut != nullptr ? cut->c_min() : control_.window().c_min;
  control_.for_each_held([&](held_commit const& h) {
    if (cut == nullptr || cut->includes(h.info.from, h.info.stamp))
      note(h.info, *h.message.parts[table]);
  });
}

void shard_view::note(commit_info const& info, update const& u) {
  top_ = std::max(top_, worker_versions::after(info.version));
  c_max_ = std::max(c_max_, info.stamp.next());
  if (merge_.versioned()) {
    version_index const v = merge_.map(info);
    ++more_[v];
    versions_.push_back(v);
  }
  above_.push_back({&u, merge_.weight(info)});
}

/// Each commit of the log counts as its version does, and there may be more of them.
void shard_view::weigh(table_host const& host) {
  counts folded;
  host.for_each_version([&](version_state const& v) { folded[v.version] = v.updates; });
  for (std::size_t i = 0; i < above_.size(); ++i) {
    auto const at = folded.find(versions_[i]);
    above_[i].weight *= worth_of(versions_[i], at == folded.end() ? 0 : at->second);
  }
}

double shard_view::worth_of(version_index v, std::uint32_t folded) const {
  auto const more = more_.find(v);
  version_state const state{v, folded + (more == more_.end() ? 0 : more->second)};
  if (control_.synchronized())
    if (auto const over = merge_.expire(state, {control_.versions().least(), c_min_, c_max_}))
      return *over;
  return merge_.share(state);
}

}  // namespace rubato
