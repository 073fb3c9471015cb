// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/server/shard_control.hpp>

namespace rubato::test {

/// What a world of rounds is made of.
struct rounds_setting {
  std::uint32_t workers = 3;
  std::uint32_t servers = 1;
  std::int64_t clocks = 6;  ///< of each worker
  bool leave = false;       ///< at different clocks
  bool losses = false;
};

/// Workers and the control halves of several servers, whose messages come in any order that is first in, first out
/// between two of them: the schedule is a seed's. Workers read from all servers, then commit to all.
class rounds_world {
 public:
  rounds_world(admission_rule admission, visibility_rule visibility, rounds_setting const& setting, std::uint64_t seed)
      : admission_(std::move(admission)), rule_(*visibility.rounds()), setting_(setting), random_(seed) {
    for (std::uint32_t s = 0; s < setting.servers; ++s) {
      servers_.push_back({shard_control(admission_, visibility), {}, {}});
      servers_.back().control.begin_stage(stage);
      for (std::uint32_t w = 0; w < setting.workers; ++w) servers_.back().control.enlist(worker_id{w}, {});
    }
    for (std::uint32_t w = 0; w < setting.workers; ++w) {
      worker one;
      one.ends_at = setting.leave ? 1 + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(setting.clocks)))
                                  : setting.clocks;
      workers_.push_back(one);
      read(w);
    }
  }

  /// Lets things happen until nothing more can; the first rule that was broken, or nothing.
  std::string run() {
    while (broken_.empty() && step()) {}
    if (!broken_.empty()) return broken_;
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (workers_[w].now != state::done) return "worker " + std::to_string(w) + " waits for ever";
    for (server const& s : servers_)
      if (s.control.held_back() != 0) return "commits are left in a server";
    return {};
  }

  /// By server and round, whose commits were folded.
  using folds = std::map<std::int64_t, std::vector<std::uint32_t>>;
  [[nodiscard]] folds const& folded(std::size_t of) const { return servers_[of].folded; }
  [[nodiscard]] shard_counters const& counters(std::size_t of) const { return servers_[of].control.counters(); }
  /// Commits of a lost worker that one server has folded may be none of another's.
  [[nodiscard]] std::int64_t version(std::size_t of) const { return servers_[of].control.round().value(); }

 private:
  static constexpr stage_id stage{1};
  enum class state { reading, computing, done };
  struct worker {
    state now = state::reading;
    std::int64_t clock = 0, ends_at = 0, version = 0;
    std::set<std::uint32_t> asked;
  };
  struct message {
    enum class kind { read, commit, freeze, drop } what;
    std::uint32_t worker;
    std::int64_t clock, version;
  };
  struct server {
    shard_control control;
    std::map<std::uint32_t, std::deque<message>> from;  ///< by sender; the coordinator's number is past the workers'
    folds folded;
  };

  [[nodiscard]] std::uint32_t coordinator() const { return setting_.workers; }

  void read(std::uint32_t w) {
    workers_[w].now = state::reading;
    for (std::uint32_t s = 0; s < servers_.size(); ++s) {
      workers_[w].asked.insert(s);
      servers_[s].from[w].push_back({message::kind::read, w, workers_[w].clock, 0});
    }
  }

  bool step() {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> queues;
    std::vector<std::uint32_t> computing;
    for (std::uint32_t s = 0; s < servers_.size(); ++s)
      for (auto const& [w, queue] : servers_[s].from)
        if (!queue.empty()) queues.emplace_back(s, w);
    for (std::uint32_t w = 0; w < workers_.size(); ++w)
      if (workers_[w].now == state::computing) computing.push_back(w);
    if (setting_.losses && random_.chance(0.01)) lose(static_cast<std::uint32_t>(random_.below(workers_.size())));
    std::size_t const choices = queues.size() + computing.size();
    if (choices == 0) return false;
    auto const chosen = static_cast<std::size_t>(random_.below(choices));
    if (chosen >= queues.size()) {
      commit(computing[chosen - queues.size()]);
    } else {
      auto const [s, w] = queues[chosen];
      auto& queue = servers_[s].from[w];
      if (!queue.empty()) deliver(s, pop(queue));
    }
    return true;
  }

  static message pop(std::deque<message>& queue) {
    message const m = queue.front();
    queue.pop_front();
    return m;
  }

  void commit(std::uint32_t w) {
    worker& me = workers_[w];
    if (me.now != state::computing) return;
    for (server& s : servers_) s.from[w].push_back({message::kind::commit, w, me.clock, me.version});
    if (++me.clock < me.ends_at) return read(w);
    me.now = state::done;
    for (server& s : servers_) s.from[coordinator()].push_back({message::kind::drop, w, me.clock, 0});
  }

  /// A part of what it has sent is not delivered any more; servers hear of it in their own time.
  void lose(std::uint32_t w) {
    if (workers_[w].now == state::done) return;
    workers_[w].now = state::done;
    for (server& s : servers_) {
      auto& queue = s.from[w];
      queue.resize(static_cast<std::size_t>(random_.below(queue.size() + 1)));
      s.from[coordinator()].push_back({message::kind::freeze, w, 0, 0});
    }
  }

  void deliver(std::uint32_t s, message const& m) {
    server& to = servers_[s];
    sender const from{worker_id{m.worker}, {}, stage};
    switch (m.what) {
      case message::kind::read:
        if (to.control.check(from) == refusal::none &&
            to.control.admit({from, clock_index{m.clock}, staleness::infinite(), {}}))
          answer(s, m.worker);
        return;
      case message::kind::commit: {
        clock_index const stamp{m.clock};
        if (to.control.accept(from, stamp, version_index{m.version}) != refusal::none) return;
        to.control.hold({.from = from, .stamp = stamp, .version = version_index{m.version}, .parts = {}});
        to.control.complete(from, stamp);
        return settle(s);
      }
      case message::kind::freeze:
        return freeze(s, m.worker);
      case message::kind::drop:
        to.control.drop(worker_id{m.worker}, clock_index{m.clock});
        return settle(s);
    }
  }

  /// Commits that all servers have received count.
  void freeze(std::uint32_t s, std::uint32_t w) {
    auto& at = frozen_[w];
    at.push_back(servers_[s].control.freeze(worker_id{w}).value());
    if (at.size() < servers_.size()) return;
    for (server& each : servers_)
      each.from[coordinator()].push_back({message::kind::drop, w, *std::ranges::min_element(at), 0});
  }

  void settle(std::uint32_t s) {
    server& to = servers_[s];
    for (auto ready = to.control.take_ready(); !ready.empty(); ready = to.control.take_ready())
      for (auto const& group : ready) {
        check(s, group);
        to.control.note_folded(group);
      }
    std::vector<worker_id> released;
    to.control.publish(released);
    for (worker_id const w : released) answer(s, w.value());
  }

  void answer(std::uint32_t s, std::uint32_t w) {
    worker& me = workers_[w];
    if (me.now != state::reading) return;
    servers_[s].control.note_read(worker_id{w});
    me.version = std::max(me.version, servers_[s].control.stamp_for(worker_id{w}).version.value());
    me.asked.erase(s);
    if (me.asked.empty()) me.now = state::computing;
  }

  void check(std::uint32_t s, shard_control::fold_group const& group) {
    auto& folded = servers_[s].folded;
    auto const expect = [&](bool holds, char const* what) {
      if (!holds && broken_.empty()) broken_ = what;
    };
    expect(group.commits.size() <= rule_.size, "a round has more than K commits");
    expect(!group.commits.empty(), "a round without commits is folded");
    std::int64_t const round = rule_.late == late_commit::drop ? group.commits.front().info.version.value()
                                                              : static_cast<std::int64_t>(folded.size());
    expect(!folded.contains(round), "a round is folded twice");
    for (held_commit const& c : group.commits) {
      expect(c.info.workers == group.commits.size(), "M is not the number of the round's commits");
      if (rule_.late == late_commit::drop) {
        expect(c.info.version.value() == round && c.info.age == 0, "a late commit is folded");
      }
      folded[round].push_back(c.info.from.value());
    }
  }

  admission_rule admission_;
  round_rule rule_;
  rounds_setting setting_;
  random_stream random_;
  std::vector<server> servers_;
  std::vector<worker> workers_;
  std::map<std::uint32_t, std::vector<std::int64_t>> frozen_;
  std::string broken_;
};

}  // namespace rubato::test
