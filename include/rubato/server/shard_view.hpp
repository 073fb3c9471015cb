// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "rubato/server/commit_cut.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/server/worker_versions.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

/// Table I of a shard as a read is to see it: what is folded, and of the log what the read's cut
/// includes (all of it for an observer, who has none). `Control` is the shard's `shard_control`.
/// Under synchronized reads it is good for as long as nothing is folded.
template <std::size_t I, table_spec Table, class Store, class Merge, class Control>
class shard_view {
 public:
  using value_type = typename Store::value_type;

  shard_view(Store const& store, Merge const& merge, Control const& control, commit_cut const* cut)
      : store_(store), merge_(merge), control_(control), c_max_(control.newest_folded()) {
    if constexpr (Control::synchronized) {
      top_ = control.versions().top();
      c_min_ = cut ? cut->c_min() : control.window().c_min;
      auto const add = [this](commit_info const& info, auto const& message) {
        note(info, *std::get<I>(message.parts));
      };
      if (cut) control.for_each_above(*cut, add);
      else control.for_each_held(add);
      weigh();
    }
  }

  void snapshot(typename Store::snapshot_type& out) const {
    if constexpr (keeps_versions) store_.snapshot(out, worth());
    else store_.snapshot(out);
    if constexpr (Table::bounded)
      for (part const& p : above_) out.add(*p.part, p.weight, store_.width());
    else if (!above_.empty())
      out.add(std::span<part const>(above_), store_.width());
  }
  void read(std::span<std::uint64_t const> rows, value_type* out) const {
    if constexpr (keeps_versions) store_.read(rows, out, worth());
    else store_.read(rows, out);
    add_rows(rows, out, store_.width(), std::span<part const>(above_));
  }
  void fill(read_slot<Store>& slot) const {
    if (slot.asked == selection::all) snapshot(slot.snapshot);
    if (slot.asked != selection::rows) return;
    slot.values.resize(slot.rows.size() * store_.width());
    read(slot.rows, slot.values.data());
  }
  /// What `version_after` is told of a read of this.
  [[nodiscard]] version_read seen_by(worker_id reader) const {
    return {.own = control_.versions().of(reader), .top = top_, .c_max = c_max_};
  }

 private:
  static constexpr bool keeps_versions = versioned_merge<Merge>;
  using part = weighted_update<value_type>;

  void note(commit_info const& info, update<value_type> const& u) {
    top_ = std::max(top_, worker_versions::after(info.version));
    c_max_ = std::max(c_max_, info.stamp.next());
    if constexpr (keeps_versions) {
      version_index const v = merge_.map(info);
      ++more_[v];
      versions_.push_back(v);
    }
    above_.push_back({&u, merge_.weight(info)});
  }

  /// Each commit of the log counts as its version does, and there may be more of them.
  void weigh() {
    if constexpr (keeps_versions) {
      for (auto const& v : store_.versions()) folded_[v.version] = v.updates;
      for (std::size_t i = 0; i < above_.size(); ++i)
        above_[i].weight *= worth_of(versions_[i], find(folded_, versions_[i]));
    }
  }

  [[nodiscard]] double worth_of(version_index v, std::uint32_t folded) const {
    version_state const state{v, folded + find(more_, v)};
    version_window const window{control_.versions().least(), c_min_, c_max_};
    if constexpr (Control::synchronized)
      if (auto const over = merge_.expire(state, window)) return *over;
    return merge_.share(state);
  }
  [[nodiscard]] auto worth() const {
    return [this](version_state const& s) { return worth_of(s.version, s.updates); };
  }
  [[nodiscard]] static std::uint32_t find(std::map<version_index, std::uint32_t> const& in,
                                          version_index v) {
    auto const at = in.find(v);
    return at == in.end() ? 0 : at->second;
  }

  Store const& store_;
  Merge const& merge_;
  Control const& control_;
  std::vector<part> above_;
  std::vector<version_index> versions_;  // of those above
  std::map<version_index, std::uint32_t> folded_, more_;
  version_index top_{};
  clock_index c_min_{};
  clock_index c_max_;
};

}  // namespace rubato
