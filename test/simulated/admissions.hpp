// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <rubato/protocol/visibility.hpp>

#include "simulated/shard_world.hpp"

namespace rubato::test {

/// A world in which after every event a rule is asked about who was let in there and who waits.
class admission_world : public shard_world {
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

  admission_world(admission_rule const& admission, shard_setting const& setting, std::uint64_t seed, rule r)
      : shard_world(admission, eager{}, setting, seed, false),
        rule_(std::move(r)),
        told_(setting.servers, members(setting.workers)),
        folds_(setting.servers) {}

  /// Reads that had to wait, and those that had not.
  [[nodiscard]] std::uint64_t waited() const { return waited_; }
  [[nodiscard]] std::uint64_t went_on() const { return went_on_; }

 private:
  void came(std::uint32_t s, message const& m, std::int64_t clock) override {
    member& of = told_[s][m.worker];
    if (m.what == kind::enlist) of = {.live = true, .clock = clock};
    if (m.what == kind::start) of.clock = clock;
    if (m.what == kind::commit) of.clock = clock + 1;
    if (m.what != kind::read) return;
    of.reads_at = clock;
    of.computes = false;
  }

  double change_of(std::uint32_t s, message const& m) override {
    auto& all = told_[s][m.worker].changes;
    all.emplace_back(++folds_[s], random().chance(0.1) ? 0.0 : random().uniform());
    return all.back().second;
  }

  void waits(std::uint32_t s, message const& m) override {
    told_[s][m.worker].waits = true;
    ++waited_;
  }

  void let_in(std::uint32_t s, std::uint32_t w, bool waited) override {
    member& of = told_[s][w];
    if (of.waits != waited) expect(false, "worker " + std::to_string(w) + " is let in, but did not wait");
    of.waits = false;
    went_on_ += waited ? 0 : 1;
    judge(s, w, moment::goes_on);
    of.computes = true;
    of.let_in_at = of.reads_at;
    of.knows = folds_[s];
  }

  void before_letting_in(std::uint32_t s) override {
    for (std::uint32_t w = 0; w < told_[s].size(); ++w) {  // who has left is there until its commits are
      member& of = told_[s][w];
      of.live = of.live && control(s).workers().contains(worker_id{w});
      of.waits = of.waits && of.live;
      of.computes = of.computes && of.live;
    }
  }

  void settled(std::uint32_t s) override {
    for (std::uint32_t w = 0; w < told_[s].size(); ++w) {
      if (told_[s][w].waits) judge(s, w, moment::waits);
      if (told_[s][w].live) judge(s, w, moment::any);
    }
  }

  void judge(std::uint32_t s, std::uint32_t w, moment now) {
    if (std::string const wrong = rule_(told_[s], w, now); !wrong.empty())
      expect(false, "worker " + std::to_string(w) + " at clock " + std::to_string(told_[s][w].reads_at) + ' ' + wrong);
  }

  rule rule_;
  std::vector<members> told_;  ///< by server
  std::vector<std::uint64_t> folds_;
  std::uint64_t waited_ = 0, went_on_ = 0;
};

}  // namespace rubato::test
