// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulated/shard_world.hpp"

namespace rubato::test {

/// A world that looks at which rounds its servers fold.
class rounds_world : public shard_world {
 public:
  rounds_world(admission_rule const& admission, visibility_rule const& visibility, shard_setting const& setting,
               std::uint64_t seed)
      : shard_world(admission, visibility, setting, seed, true),
        rule_(*visibility.rounds()),
        folded_(setting.servers),
        computed_(setting.servers),
        made_(setting.workers) {}

  /// By round, whose commits were folded.
  using folds = std::map<std::int64_t, std::vector<std::uint32_t>>;
  [[nodiscard]] folds const& folded(std::uint32_t of) const { return folded_[of]; }
  [[nodiscard]] shard_counters const& counters(std::uint32_t of) const { return control(of).counters(); }
  /// By round, how many commits were computed at it.
  [[nodiscard]] std::map<std::int64_t, std::size_t> const& computed(std::uint32_t of) const { return computed_[of]; }

  /// The rounds that a worker's commits were computed at, as they have come to the first server.
  [[nodiscard]] std::vector<std::int64_t> const& made(std::uint32_t by) const { return made_[by]; }

  /// Is asked, before a round is folded, for what is wrong with it.
  std::function<std::string(shard_control const&, version_index, std::set<std::uint32_t> const&)> on_fold =
      [](auto&&...) { return std::string(); };

 private:
  double change_of(std::uint32_t s, message const& m) override {
    ++computed_[s][m.version];
    if (s == 0) made_[m.worker].push_back(m.version);
    return 0;
  }

  void before_letting_in(std::uint32_t s) override {
    for (auto ready = control(s).take_ready(); !ready.empty(); ready = control(s).take_ready())
      for (auto const& group : ready) {
        check(s, group);
        control(s).note_folded(group);
      }
  }

  void check(std::uint32_t s, shard_control::fold_group const& group) {
    auto& folded = folded_[s];
    expect(group.commits.size() <= rule_.size, "a round has more than K commits");
    expect(!group.commits.empty(), "a round without commits is folded");
    if (group.commits.empty()) return;
    std::int64_t const round = rule_.late == late_commit::drop ? group.commits.front().info.version.value()
                                                               : static_cast<std::int64_t>(folded.size());
    expect(!folded.contains(round), "a round is folded twice");
    for (held_commit const& c : group.commits) {
      expect(c.info.workers == group.commits.size(), "M is not the number of the round's commits");
      if (rule_.late == late_commit::drop)
        expect(c.info.version.value() == round && c.info.age == 0, "a late commit is folded");
      folded[round].push_back(c.info.from.value());
    }
    std::string const wrong = on_fold(control(s), version_index{round}, {folded[round].begin(), folded[round].end()});
    expect(wrong.empty(), wrong);
  }

  round_rule rule_;
  std::vector<folds> folded_;  ///< by server
  std::vector<std::map<std::int64_t, std::size_t>> computed_;
  std::vector<std::vector<std::int64_t>> made_;
};

}  // namespace rubato::test
