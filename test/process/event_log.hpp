// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/training.hpp"
#include "rubato/core/random.hpp"
#include "rubato/testing/observer.hpp"

// What an observer is told in one process, written down by workers in several and told afterwards.
//
// An event is not one instant: a push or commit is logged before it is made and a read after it was,
// as bodies tell an observer of the same process. So the log's order is one in which the observer may
// have been told, and whatever holds on threads holds for it. The clock is the machine's: the same in
// all processes.
namespace rubato::test {

/// Appends what one worker tells to a file of its own.
class event_log {
 public:
  event_log(std::filesystem::path const& folder, std::uint32_t worker)
      : out_(folder / ("events." + std::to_string(worker))), worker_(worker) {}

  template <class... Words>
  void tell(char const* what, Words const&... rest) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    out_ << now.tv_sec * 1'000'000'000 + now.tv_nsec << ' ' << what << ' ' << worker_;
    ((out_ << ' ' << rest), ...);
    out_ << '\n';
  }

 private:
  std::ofstream out_;
  std::uint32_t worker_;
};

/// A training body that pushes and reads the counting tables at random, and logs it.
template <class Worker>
class logged_trainee {
 public:
  logged_trainee(Worker& w, job const& j, staleness bound, std::filesystem::path const& folder)
      : worker_(w), job_(j), bound_(bound), log_(folder, w.rank()) {}

  void run() {
    log_.tell("started", worker_.clock().value());
    while (worker_.clock().value() < job_.clocks) {
      read();
      if (random().chance(0.8)) push();
      if (random().chance(0.2))
        std::this_thread::sleep_for(std::chrono::microseconds(random().below(3000)));
      read();
      commit();
    }
    log_.tell("left");
  }

 private:
  [[nodiscard]] random_stream& random() { return worker_.random(); }

  void push() {
    std::vector<std::uint64_t> rows(job_.rows);
    std::iota(rows.begin(), rows.end(), std::uint64_t{0});
    if (random().chance(0.5)) rows.resize(1 + random().below(job_.rows));
    if (random().chance(0.5)) push_rows<0>(rows, rows);
    if (random().chance(0.5)) {
      std::vector<std::uint64_t> keys;
      for (std::uint64_t const row : rows) keys.push_back(spread_key(row));
      push_rows<1>(rows, keys);
    }
    worker_[weights].push(std::vector<float>(job_.weights, 0.125f));
  }

  template <std::size_t I>
  void push_rows(std::vector<std::uint64_t> const& rows, std::vector<std::uint64_t> const& keys) {
    std::vector<std::int64_t> delta(rows.size() * job_.columns);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      auto const amount = static_cast<std::int64_t>(1 + random().below(3));
      delta[i * job_.columns + worker_.rank()] = amount;
      log_.tell("pushing", I, rows[i], amount);
    }
    if (I == 0 && rows.size() == job_.rows)
      worker_[counts].push(delta);
    else
      worker_[table<I>].push(keys, delta);
  }

  void commit() {
    log_.tell("committing");
    bool const did = worker_.step(1);
    if (did) log_.tell("committed", worker_.clock().value());
    else log_.tell("not_committed");
  }

  void read() {
    staleness const s = random().chance(0.3) ? std::min(bound_, staleness{1}) : bound_;
    std::string const asked = s.is_infinite() ? "-1" : std::to_string(s.clocks());
    std::vector<std::int64_t> got(job_.rows * job_.columns);
    std::vector<std::uint64_t> rows(job_.rows);
    std::iota(rows.begin(), rows.end(), std::uint64_t{0});
    switch (random().below(4)) {
      case 0:
        worker_[counts].pull(got, s);
        return log_.tell("read", asked, 0, "whole", rows.size(), listed(rows), listed(got));
      case 1:
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(random().below(rows.size())));
        got.resize(rows.size() * job_.columns);
        worker_[counts].pull(rows, got, s);
        return log_.tell("read", asked, 0, "keyed", rows.size(), listed(rows), listed(got));
      case 2: {
        std::vector<std::uint64_t> keys;
        for (std::uint64_t const row : rows) keys.push_back(spread_key(row));
        worker_[keyed_counts].pull(keys, got, s);
        return log_.tell("read", asked, 1, "keyed", rows.size(), listed(rows), listed(got));
      }
      default: {
        std::vector<float> x(job_.weights);
        worker_[weights].pull(x, s);
      }
    }
  }

  Worker& worker_;
  job const& job_;
  staleness bound_;
  event_log log_;
};

// ---- the test's side

/// Tells an observer what the workers have logged in `folder`, in the order of time.
class replay {
 public:
  replay(std::filesystem::path const& folder, std::size_t columns) : columns_(columns) {
    for (auto const& entry : std::filesystem::directory_iterator(folder)) {
      if (!entry.path().filename().string().starts_with("events.")) continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        std::istringstream rest(line);
        std::int64_t at = 0;
        rest >> at;
        events_.emplace_back(at, line);
      }
    }
    // Stable, for what one worker logs within a nanosecond.
    std::ranges::stable_sort(events_, {}, &std::pair<std::int64_t, std::string>::first);
  }

  void tell(testing::observer& o) const {
    for (auto const& [at, line] : events_) {
      std::istringstream rest(line);
      std::int64_t time = 0;
      std::string what;
      std::uint32_t worker = 0;
      rest >> time >> what >> worker;
      tell_one(o, what, worker, rest);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return events_.size(); }

 private:
  template <class T>
  static T next(std::istringstream& rest) {
    T value{};
    rest >> value;
    return value;
  }

  void tell_one(testing::observer& o, std::string const& what, std::uint32_t worker,
                std::istringstream& rest) const {
    if (what == "started") return o.started(worker, clock_index{next<std::int64_t>(rest)});
    if (what == "left") return o.left(worker);
    if (what == "committing") return o.committing(worker);
    if (what == "committed") return o.committed(worker, clock_index{next<std::int64_t>(rest)});
    if (what == "not_committed") return o.not_committed(worker);
    if (what == "pushing") {
      auto const table = next<std::size_t>(rest);
      auto const row = next<std::size_t>(rest);
      return o.pushing(worker, table, row, next<std::int64_t>(rest));
    }
    if (what == "read") return tell_read(o, worker, rest);
    o.breach("the log has an unknown event: ", what);
  }

  void tell_read(testing::observer& o, std::uint32_t worker, std::istringstream& rest) const {
    auto const asked = next<std::int64_t>(rest);
    auto const table = next<std::size_t>(rest);
    bool const whole = next<std::string>(rest) == "whole";
    std::vector<std::uint64_t> rows(next<std::size_t>(rest));
    for (auto& row : rows) rest >> row;
    std::vector<std::int64_t> values(rows.size() * columns_);
    for (auto& value : values) rest >> value;
    if (!rest) return o.breach("the log has a torn line of worker ", worker);
    using kind = testing::observer::kind;
    o.read(worker, asked < 0 ? staleness::infinite() : staleness{asked}, table,
           whole ? kind::whole : kind::keyed, rows, values);
  }

  std::size_t columns_;
  std::vector<std::pair<std::int64_t, std::string>> events_;
};

}  // namespace rubato::test
