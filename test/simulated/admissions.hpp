// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/shard_control.hpp>

namespace rubato::test {

/// What a world of admissions is made of.
struct admission_setting {
  std::uint32_t workers = 3;
  std::uint32_t servers = 1;
  std::int64_t clocks = 6;  ///< of each worker
  bool leave = false;       ///< at different clocks
  bool losses = false;
  bool joins = false;       ///< half of the workers come later
};

/// Workers and the control halves of several servers, whose messages come in any order that is first in, first out
/// between two of them: the schedule is a seed's. Workers read from all servers, then commit to all. After every event
/// a rule is asked about who was let in there and who waits.
class admission_world {
 public:
  /// What a server has been told of a worker.
  struct member {
    bool live = false;
    bool waits = false;
    bool computes = false;      ///< with what it was let in to
    std::int64_t clock = 0;     ///< as many of its commits are there
    std::int64_t reads_at = 0;  ///< the clock of its last read
    std::int64_t let_in_at = -1;
    std::uint64_t knows = 0;  ///< the folds before it was let in
    std::vector<std::pair<std::uint64_t, double>>
        changes{};  ///< its commits: which folds they are, by how much they change
  };
  using members = std::vector<member>;
  enum class moment { goes_on, waits, any };
  /// What is wrong with it that this worker goes on or waits, or with where it is; nothing where nothing is.
  using rule = std::function<std::string(members const&, std::uint32_t worker, moment)>;

  admission_world(admission_rule const& admission, admission_setting const& setting, std::uint64_t seed, rule r)
      : setting_(setting), rule_(std::move(r)), random_(seed) {
    std::uint32_t const at_first = setting.joins ? (setting.workers + 1) / 2 : setting.workers;
    for (std::uint32_t s = 0; s < setting.servers; ++s) {
      servers_.push_back({shard_control(admission, eager{}), {}, members(setting.workers), 0});
      servers_.back().control.begin_stage(stage);
    }
    for (std::uint32_t w = 0; w < setting.workers; ++w) {
      worker one;
      auto const most = static_cast<std::uint64_t>(setting.clocks);
      one.ends_after = setting.leave ? 1 + static_cast<std::int64_t>(random_.below(most)) : setting.clocks;
      workers_.push_back(one);
      if (w < at_first) begin(w);
    }
  }

  /// Lets things happen until nothing more can; the first rule that was broken, or nothing.
  std::string run() {
    while (broken_.empty() && step()) {}
    if (!broken_.empty()) return broken_;
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (workers_[w].now != state::done) return "worker " + std::to_string(w) + " waits for ever";
    return {};
  }

  /// Reads that had to wait, and those that had not.
  [[nodiscard]] std::uint64_t waited() const { return waited_; }
  [[nodiscard]] std::uint64_t went_on() const { return went_on_; }

 private:
  static constexpr stage_id stage{1};
  enum class state { away, joining, reading, computing, done };
  struct worker {
    state now = state::away;
    std::int64_t clock = 0, ends_after = 0, ends_at = 0;
    std::size_t started = 0;                ///< servers at which it has
    std::set<std::uint32_t> asked;          ///< those that have not answered
    std::vector<std::int64_t> joined, left; ///< what servers have reported
  };
  struct message {
    enum class kind { enlist, start, read, commit, freeze, drop } what;
    std::uint32_t worker;
    std::int64_t clock;
  };
  struct server {
    shard_control control;
    std::map<std::uint32_t, std::deque<message>> from;  ///< by sender; the coordinator's number is past the workers'
    members told;
    std::uint64_t folds = 0;
  };
  using kind = message::kind;

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
    for (server& s : servers_) s.from[w].push_back({kind::commit, w, me.clock});
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
    server& to = servers_[s];
    member& of = to.told[m.worker];
    worker_id const w{m.worker};
    sender const from{w, {}, stage};
    switch (m.what) {
      case kind::enlist:
        of = {.live = true, .clock = to.control.enlist(w, {}).value()};
        if (auto const most = agreed(workers_[m.worker].joined, of.clock, true)) order(kind::start, m.worker, *most);
        break;
      case kind::start:
        to.control.start(w, clock_index{m.clock});
        of.clock = m.clock;
        started(m);
        break;
      case kind::read:
        if (to.control.check(from) != refusal::none) return;
        of.reads_at = m.clock;
        of.computes = false;
        of.waits = !to.control.admit({from, clock_index{m.clock}, staleness::infinite(), {}});
        ++(of.waits ? waited_ : went_on_);
        if (!of.waits) answer(s, m.worker);
        break;
      case kind::commit:
        if (to.control.accept(from, clock_index{m.clock}) != refusal::none) return;
        to.control.note_arrival(w, now_);
        of.changes.emplace_back(++to.folds, random_.chance(0.1) ? 0.0 : random_.uniform());
        to.control.complete(from, clock_index{m.clock}, of.changes.back().second);
        of.clock = m.clock + 1;
        break;
      case kind::freeze:
        if (auto const least = agreed(workers_[m.worker].left, to.control.freeze(w).value(), false))
          order(kind::drop, m.worker, *least);
        break;
      case kind::drop:
        to.control.drop(w, clock_index{m.clock});
        break;
    }
    settle(s);
  }

  /// Once all servers have reported, the greatest or the least of what they have.
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

  void settle(std::uint32_t s) {
    server& at = servers_[s];
    for (std::uint32_t w = 0; w < at.told.size(); ++w) {  // who has left is there until its commits are
      member& of = at.told[w];
      of.live = of.live && at.control.workers().contains(worker_id{w});
      of.waits = of.waits && of.live;
      of.computes = of.computes && of.live;
    }
    std::vector<worker_id> released;
    at.control.publish(released);
    for (worker_id const w : released) {
      if (!at.told[w.index()].waits) broken_ = "worker " + std::to_string(w.value()) + " is let in, but did not wait";
      at.told[w.index()].waits = false;
      answer(s, w.value());
    }
    for (std::uint32_t w = 0; w < at.told.size(); ++w) {
      if (at.told[w].waits) judge(s, w, moment::waits);
      if (at.told[w].live) judge(s, w, moment::any);
    }
  }

  void answer(std::uint32_t s, std::uint32_t w) {
    judge(s, w, moment::goes_on);
    servers_[s].control.note_read(worker_id{w});
    member& of = servers_[s].told[w];
    of.computes = true;
    of.let_in_at = of.reads_at;
    of.knows = servers_[s].folds;
    worker& me = workers_[w];
    if (me.now != state::reading) return;
    me.asked.erase(s);
    if (me.asked.empty()) me.now = state::computing;
  }

  void judge(std::uint32_t s, std::uint32_t w, moment now) {
    if (std::string const wrong = rule_(servers_[s].told, w, now); !wrong.empty() && broken_.empty())
      broken_ =
          "worker " + std::to_string(w) + " at clock " + std::to_string(servers_[s].told[w].reads_at) + ' ' + wrong;
  }

  admission_setting setting_;
  rule rule_;
  random_stream random_;
  std::vector<server> servers_;
  std::vector<worker> workers_;
  time_point now_{};
  std::uint64_t waited_ = 0, went_on_ = 0;
  std::string broken_;
};

}  // namespace rubato::test
