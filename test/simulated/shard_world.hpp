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

/// What a world of shards is made of.
struct shard_setting {
  std::uint32_t workers = 3;
  std::uint32_t servers = 1;
  std::int64_t clocks = 6;  ///< of each worker
  bool leave = false;       ///< at different clocks
  bool losses = false;
  bool joins = false;       ///< half of the workers come later
};

/// Workers and the control halves of several servers, whose messages come in any order that is first in, first out
/// between two of them: the schedule is a seed's. Workers read from all servers, then commit to all. What servers do
/// is looked at by a class derived from this one.
class shard_world {
 public:
  virtual ~shard_world() = default;
  shard_world(shard_world const&) = delete;
  shard_world& operator=(shard_world const&) = delete;

  /// Lets things happen until nothing more can; the first rule that was broken, or nothing.
  std::string run() {
    while (broken_.empty() && step()) {}
    for (std::size_t w = 0; broken_.empty() && w < workers_.size(); ++w)
      if (workers_[w].now != state::done) broken_ = "worker " + std::to_string(w) + " waits for ever";
    for (server const& s : servers_) expect(s.control.held_back() == 0, "commits are left in a server");
    return broken_;
  }

 protected:
  struct message {
    enum class kind { enlist, start, read, commit, freeze, drop } what;
    std::uint32_t worker;
    std::int64_t clock;
    std::int64_t version = 0;  ///< of a commit: which round it was computed in
  };
  using kind = message::kind;

  /// @param together all workers are there from the beginning, else servers hear of each in their own time
  shard_world(admission_rule const& admission, visibility_rule const& visibility, shard_setting const& setting,
              std::uint64_t seed, bool together)
      : setting_(setting), by_rounds_(visibility.rounds().has_value()), random_(seed) {
    for (std::uint32_t s = 0; s < setting.servers; ++s) {
      servers_.push_back({shard_control(admission, visibility), {}});
      servers_.back().control.begin_stage(stage);
    }
    std::uint32_t const at_first = setting.joins ? (setting.workers + 1) / 2 : setting.workers;
    for (std::uint32_t w = 0; w < setting.workers; ++w) {
      worker one;
      auto const most = static_cast<std::uint64_t>(setting.clocks);
      one.ends_after = setting.leave ? 1 + static_cast<std::int64_t>(random_.below(most)) : setting.clocks;
      workers_.push_back(one);
      if (!together && w < at_first) begin(w);
      if (!together) continue;
      for (server& s : servers_) s.control.enlist(worker_id{w}, {});
      workers_[w].ends_at = one.ends_after;
      read(w);
    }
  }

  // ---- what is looked at

  /// A server has done what the message says; of an enlisted worker, begun with the clock that it has reported.
  virtual void came(std::uint32_t /*server*/, message const&, std::int64_t /*clock*/) {}
  /// A commit is about to count: by how much it changes the parameters.
  virtual double change_of(std::uint32_t /*server*/, message const&) { return 0; }
  /// What is ready may be folded; then those that waited for it are let in.
  virtual void before_letting_in(std::uint32_t /*server*/) {}
  /// A read waits, or has been let in: at once, or by what has happened since.
  virtual void waits(std::uint32_t /*server*/, message const&) {}
  virtual void let_in(std::uint32_t /*server*/, std::uint32_t /*worker*/, bool /*waited*/) {}
  /// All that follows from an event has been done.
  virtual void settled(std::uint32_t /*server*/) {}

  void expect(bool holds, std::string const& what) {
    if (!holds && broken_.empty()) broken_ = what;
  }
  [[nodiscard]] shard_control& control(std::uint32_t s) { return servers_[s].control; }
  [[nodiscard]] shard_control const& control(std::uint32_t s) const { return servers_[s].control; }
  [[nodiscard]] random_stream& random() noexcept { return random_; }

 private:
  static constexpr stage_id stage{1};
  enum class state { away, joining, reading, computing, done };
  struct worker {
    state now = state::away;
    std::int64_t clock = 0, ends_after = 0, ends_at = 0, version = 0;
    std::size_t started = 0;                 ///< servers at which it has
    std::set<std::uint32_t> asked;           ///< those that have not answered
    std::vector<std::int64_t> joined, left;  ///< what servers have reported
  };
  struct server {
    shard_control control;
    std::map<std::uint32_t, std::deque<message>> from;  ///< by sender; the coordinator's number is past the workers'
  };

  void order(kind what, std::uint32_t w, std::int64_t clock) {
    for (server& s : servers_) s.from[setting_.workers].push_back({what, w, clock});
  }

  void begin(std::uint32_t w) {
    workers_[w].now = state::joining;
    order(kind::enlist, w, 0);
  }

  void read(std::uint32_t w) {
    workers_[w].now = state::reading;
    for (std::uint32_t s = 0; s < servers_.size(); ++s) {
      workers_[w].asked.insert(s);
      servers_[s].from[w].push_back({kind::read, w, workers_[w].clock});
    }
  }

  bool step() {
    now_ += duration(random_.below(1000));
    std::vector<std::pair<std::uint32_t, std::uint32_t>> queues;
    std::vector<std::uint32_t> ready;
    for (std::uint32_t s = 0; s < servers_.size(); ++s)
      for (auto const& [w, queue] : servers_[s].from)
        if (!queue.empty()) queues.emplace_back(s, w);
    for (std::uint32_t w = 0; w < workers_.size(); ++w)
      if (workers_[w].now == state::computing || workers_[w].now == state::away) ready.push_back(w);
    if (setting_.losses && random_.chance(0.01)) lose(static_cast<std::uint32_t>(random_.below(workers_.size())));
    std::size_t const choices = queues.size() + ready.size();
    if (choices == 0) return false;
    auto const chosen = static_cast<std::size_t>(random_.below(choices));
    if (chosen >= queues.size()) {
      go_on(ready[chosen - queues.size()]);
    } else {
      auto const [s, w] = queues[chosen];
      auto& queue = servers_[s].from[w];
      if (!queue.empty()) {
        message const m = queue.front();
        queue.pop_front();
        deliver(s, m);
      }
    }
    return true;
  }

  void go_on(std::uint32_t w) {
    worker& me = workers_[w];
    if (me.now == state::away) return begin(w);
    if (me.now != state::computing) return;
    for (server& s : servers_) s.from[w].push_back({kind::commit, w, me.clock, me.version});
    if (++me.clock < me.ends_at) return read(w);
    me.now = state::done;
    order(kind::drop, w, me.clock);
  }

  /// A part of what it has sent is not delivered any more; servers hear of it in their own time.
  void lose(std::uint32_t w) {
    state& now = workers_[w].now;
    if (now != state::reading && now != state::computing) return;
    now = state::done;
    for (server& s : servers_) {
      auto& queue = s.from[w];
      queue.resize(static_cast<std::size_t>(random_.below(queue.size() + 1)));
    }
    order(kind::freeze, w, 0);
  }

  void deliver(std::uint32_t s, message const& m) {
    shard_control& to = servers_[s].control;
    worker_id const w{m.worker};
    switch (m.what) {
      case kind::enlist: {
        std::int64_t const clock = to.enlist(w, {}).value();
        came(s, m, clock);
        if (auto const most = agreed(workers_[m.worker].joined, clock, true)) order(kind::start, m.worker, *most);
        break;
      }
      case kind::start:
        to.start(w, clock_index{m.clock});
        came(s, m, m.clock);
        started(m);
        break;
      case kind::read:
        if (!ask(s, m)) return;
        break;
      case kind::commit:
        if (!commit(s, m)) return;
        break;
      case kind::freeze:
        if (auto const least = agreed(workers_[m.worker].left, to.freeze(w).value(), false))
          order(kind::drop, m.worker, *least);
        break;
      case kind::drop:
        to.drop(w, clock_index{m.clock});
        break;
    }
    // Of reads only those by value let others in: another one must not be what frees who waits.
    settle(s, m.what != kind::read || to.limits());
  }

  /// False: was refused.
  bool ask(std::uint32_t s, message const& m) {
    shard_control& to = servers_[s].control;
    sender const from{worker_id{m.worker}, {}, stage};
    if (to.check(from) != refusal::none) return false;
    came(s, m, m.clock);
    if (to.admit({from, clock_index{m.clock}, staleness::infinite(), {}})) answer(s, m.worker, false);
    else waits(s, m);
    return true;
  }

  bool commit(std::uint32_t s, message const& m) {
    shard_control& to = servers_[s].control;
    sender const from{worker_id{m.worker}, {}, stage};
    clock_index const stamp{m.clock};
    version_index const version{m.version};
    if (to.accept(from, stamp, version) != refusal::none) return false;
    to.note_arrival(from.worker, now_);
    if (by_rounds_) to.hold({.from = from, .stamp = stamp, .version = version, .parts = {}});
    to.complete(from, stamp, change_of(s, m));
    came(s, m, m.clock);
    return true;
  }

  /// Once all servers have reported, the greatest or the least of what they have: of a lost worker, commits that all
  /// have received count.
  std::optional<std::int64_t> agreed(std::vector<std::int64_t>& reports, std::int64_t one, bool greatest) const {
    reports.push_back(one);
    if (reports.size() < servers_.size()) return std::nullopt;
    return greatest ? *std::ranges::max_element(reports) : *std::ranges::min_element(reports);
  }

  void started(message const& m) {
    worker& me = workers_[m.worker];
    if (++me.started < servers_.size()) return;
    me.clock = m.clock;
    me.ends_at = m.clock + me.ends_after;
    read(m.worker);
  }

  void settle(std::uint32_t s, bool publishes) {
    before_letting_in(s);
    std::vector<worker_id> released;
    if (publishes) servers_[s].control.publish(released);
    for (worker_id const w : released) answer(s, w.value(), true);
    settled(s);
  }

  void answer(std::uint32_t s, std::uint32_t w, bool waited) {
    let_in(s, w, waited);
    shard_control& of = servers_[s].control;
    of.note_read({{worker_id{w}, {}, {}}, {}, {}, {}, false});
    worker& me = workers_[w];
    if (me.now != state::reading) return;
    me.version = std::max(me.version, of.stamp_for(worker_id{w}).version.value());
    me.asked.erase(s);
    if (me.asked.empty()) me.now = state::computing;
  }

  shard_setting setting_;
  bool by_rounds_;
  random_stream random_;
  std::vector<server> servers_;
  std::vector<worker> workers_;
  time_point now_{};
  std::string broken_;
};

}  // namespace rubato::test
