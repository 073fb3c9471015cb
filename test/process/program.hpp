// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "process/event_log.hpp"
#include "process/hold.hpp"
#include "process/training.hpp"
#include "rubato/core/random.hpp"
#include "rubato/net/log.hpp"
#include "rubato/transport/tcp.hpp"

// The program that the tests run as coordinator, servers and workers. What it came to is printed as
// lines of a name and values.
namespace rubato::test {

/// `--name value` …
class arguments {
 public:
  arguments(int count, char** texts) {
    for (int i = 1; i + 1 < count; i += 2) values_[texts[i]] = texts[i + 1];
    // One process that is told otherwise than the rest.
    char const* const rank = std::getenv("RANK");
    if (rank != nullptr && text("odd-rank") == rank && is_worker())
      values_[text("odd-option")] = text("odd-value");
  }
  [[nodiscard]] std::string text(std::string const& name, std::string const& otherwise = {}) const {
    auto const at = values_.find("--" + name);
    return at == values_.end() ? otherwise : at->second;
  }
  [[nodiscard]] std::int64_t number(std::string const& name, std::int64_t otherwise) const {
    auto const given = text(name);
    return given.empty() ? otherwise : std::stoll(given);
  }

 private:
  [[nodiscard]] static bool is_worker() {
    char const* const role = std::getenv("RUBATO_ROLE");
    return role != nullptr && std::string(role) == "worker";
  }

  std::map<std::string, std::string> values_;
};

template <class... Words>
void say(char const* name, Words const&... words) {
  static std::mutex lock;
  std::lock_guard const guard(lock);
  std::string line = name;
  ((line += " " + words), ...);
  std::puts(line.c_str());
  std::fflush(stdout);
}

[[nodiscard]] inline job job_of(arguments const& given, bool has_initial_values) {
  job j;
  j.clocks = given.number("clocks", j.clocks);
  j.steps = given.number("steps", j.steps);
  auto const size = [&given](char const* name, std::size_t& value) {
    value = static_cast<std::size_t>(given.number(name, static_cast<std::int64_t>(value)));
  };
  size("weights", j.weights);
  size("rows", j.rows);
  size("columns", j.columns);
  size("ballast", j.ballast);
  j.pause = std::chrono::microseconds(given.number("pause", 0));
  j.first_count = given.number("initial", j.first_count);
  j.has_initial_values = has_initial_values;
  return j;
}

/// Breaks connections at random until it is destroyed, or has broken so many: those that were up.
template <class Cluster>
class saboteur {
 public:
  saboteur(Cluster& c, int breaks, std::uint32_t servers)
      : thread_([this, &c, breaks, servers] { work(c, breaks, servers); }) {
    net::set_log([this](net::log_level level, std::string_view line) {
      if (line.find(": cut; it may come back") != std::string_view::npos) ++made_;
      else if (level == net::log_level::warning) std::cerr << line << '\n';
    });
  }
  ~saboteur() {
    over_ = true;
    thread_.join();
    net::set_log({});
  }
  [[nodiscard]] bool is_done() const noexcept { return done_; }

 private:
  void work(Cluster& c, int breaks, std::uint32_t servers) {
    random_stream random(c.runtime().rank(), 0xc07);
    while (made_ < breaks && !over_) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(12000)));
      c.runtime().cut(server_id{static_cast<std::uint32_t>(random.below(servers))});
    }
    say("cuts", std::to_string(made_));
    done_ = true;
  }

  std::atomic<int> made_ = 0;
  std::atomic<bool> over_ = false;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

/// One process of a run.
template <protocol P>
class program {
 public:
  program(P p, arguments const& given, net::deployment const& place)
      : given_(given),
        place_(place),
        job_(job_of(given, place.as == net::role::worker && place.rank == 0u)),
        first_(job_),
        bound_(p.admission().bound()),
        cluster_(make_cluster(tcp{.place = place,
                                  .threads = static_cast<std::uint32_t>(given.number("threads", 1))},
                              p, job_, first_)) {}

  void run() {
    for (std::int64_t stage = given_.number("stages", 1); stage != 0; --stage) {
      std::optional<saboteur<cluster_type>> foe;
      if (is_worker() && given_.number("cuts", 0) != 0) {
        foe.emplace(cluster_, static_cast<int>(given_.number("cuts", 0)), place_.servers);
        sabotaged_ = [&] { return !foe->is_done(); };
      }
      run_report const report = cluster_.run([this](auto& w) { this->body(w); });
      sabotaged_ = {};
      if (!is_worker()) return;
      foe.reset();
      print(report);
    }
  }

 private:
  using cluster_type =
      decltype(make_cluster(std::declval<tcp>(), std::declval<P const&>(),
                            std::declval<job const&>(), std::declval<initial_values const&>()));

  [[nodiscard]] bool is_worker() const noexcept { return place_.as == net::role::worker; }

  template <class Worker>
  void body(Worker& w) {
    say("began", std::to_string(w.rank()), std::to_string(w.clock().value()));
    if (auto const folder = given_.text("log"); !folder.empty())
      return logged_trainee(w, job_, bound_, folder).run();
    std::string const rank = std::to_string(w.rank());
    bool const tells = !given_.text("tells").empty();
    bool const observes = !given_.text("observes").empty();
    hold const held(given_.text("hold"));
    std::int64_t steps = 0;
    std::int64_t made = 0;
    std::int64_t heavy = 0;
    do {
      job part = job_;
      // Under a saboteur the run goes on until it has done its work.
      part.clocks = sabotaged_ ? w.clock().value() + 5 : part.clocks;
      trainee one(w, part);
      made += one.run([&](std::int64_t clock) {
        if (tells) say("clock", rank, std::to_string(clock));
        if (observes) (void)cluster_.template observe<3>();
        if (observes) (void)cluster_.updates();
        if (clock == given_.number("throw-at", -1)) throw std::runtime_error("the ink has run out");
        if (clock == given_.number("stop-at", -1)) cluster_.stop();
        held.wait(steps++);
      });
      heavy += one.heavy_pushes();
    } while (sabotaged_ && sabotaged_());
    say("made", rank, std::to_string(made));
    say("heavy", rank, std::to_string(heavy));
  }

  void print(run_report const& report) {
    auto const& counted = cluster_.template parameters<0>();
    auto const& keyed = cluster_.template parameters<1>();
    say("rank", std::to_string(cluster_.runtime().rank()));
    say("counts", listed(counted));
    std::vector<std::uint64_t> keys;
    for (auto const k : keyed.keys) keys.push_back(k);
    say("keys", listed(keys));
    say("keyed", listed(keyed.values));
    say("keyed_totals", listed(column_totals(keyed.values, job_.columns)));
    say("weights", hash_of(cluster_.template parameters<2>()));
    auto const& heavy = cluster_.template parameters<3>();
    bool const even = std::ranges::all_of(heavy, [&](auto x) { return x == heavy.front(); });
    say("ballast", even ? std::to_string(heavy.front()) : "uneven");
    say("updates", std::to_string(report.updates));
    say("crashes", std::to_string(report.crashes));
    say("partly_folded", std::to_string(report.servers.partly_folded));
    say("commits", std::to_string(report.total().commits));
    say("over");
  }

  arguments const& given_;
  net::deployment place_;
  job job_;
  initial_values first_;
  staleness bound_;
  cluster_type cluster_;
  std::function<bool()> sabotaged_;
};

/// `--clusters` of them, one after the other.
template <protocol P>
void run_program(P p, arguments const& given) {
  for (auto left = given.number("clusters", 1); left != 0; --left)
    program<P>(p, given, net::deployment::from_environment()).run();
}

/// Runs `f(arguments)`; errors end the process with their sentence and code 3, and "(refused)" in case
/// it was.
template <class F>
int main_of(int count, char** texts, F f) {
  try {
    arguments const given(count, texts);
    f(given);
    return 0;
  } catch (std::exception const& e) {
    auto const* const known = dynamic_cast<error const*>(&e);
    bool const refused = known != nullptr && known->code() == errc::refused;
    std::fprintf(stderr, "error: %s%s\n", e.what(), refused ? " (refused)" : "");
    return 3;
  }
}

/// The s of `ssp:3`; 3 where none is given.
[[nodiscard]] inline staleness staleness_of(std::string const& text) {
  auto const colon = text.find(':');
  return staleness{colon == std::string::npos ? 3 : std::stoll(text.substr(colon + 1))};
}

}  // namespace rubato::test
