// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Runs of processes in which all kinds of trouble come together, at random: connections are cut, processes killed,
// stopped and started again, and strangers take up the listeners. Nothing that a worker committed which stayed is lost
// or counts twice, nobody hangs, and each process ends with the code that it should. Some hundred rounds, as
// `RUBATO_SEEDS=500 rubato-test "[soak]"`, are for before a release.
#include <catch2/catch.hpp>

#include <signal.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "process/checks.hpp"
#include "process/connection_flood.hpp"
#include "process/proxies.hpp"
#include "process/runs.hpp"
#include "rubato/core/random.hpp"
#include "seeds.hpp"

using namespace rubato;

namespace {

constexpr std::size_t columns = 3;  // one for each worker; the first has no trouble of its own
constexpr int clocks = 200;

/// What became of a worker.
struct soaked_life {
  bool is_troubled = false;
  int code = 0;                       ///< its process's, at the end
  std::optional<std::int64_t> until;  ///< the last clock of the process that was lost
  bool came_again = false;
};

/// One run and all that befalls it. Equal seeds make equal plans; when things happen, the machine decides.
class soak_round {
 public:
  explicit soak_round(std::uint64_t seed)
      : random_(seed, 0x50a6), between_(plan_, meddling_, listening()), run_(plan()) {
    if (is_flooded_) flood_.emplace(ports_behind(), std::chrono::milliseconds(1));
  }

  void play() {
    int at = 2;
    for (auto events = 1 + random_.below(3); events != 0; --events) {
      at += static_cast<int>(random_.below(40));
      run_.hold_at(at + 20);
      bool const came = run_.worker(0).prints("clock 0 " + std::to_string(at) + "\n");
      INFO(story_ << "\n" << run_.errors());
      REQUIRE(came);
      befall(1 + random_.below(columns - 1));
    }
    for (std::size_t i = 1; i < columns; ++i) {
      bool const is_there = !lives_[i].came_again || run_.worker(i).prints("began ");
      INFO(story_ << "\n" << run_.errors());
      REQUIRE(is_there);
    }
    run_.let_go();
  }

  void check() {
    std::string expected;
    for (std::size_t i = 1; i < columns; ++i)
      if (lives_[i].code != 0) expected += "worker " + std::to_string(i) + ": " + std::to_string(lives_[i].code) + "\n";
    std::string const failed = run_.failures();
    INFO(story_ << "\n" << run_.errors());
    REQUIRE(failed == expected);
    for (std::size_t i = 0; i < columns; ++i) check_counts(i);
    for (std::size_t i = 1; i < columns; ++i)
      if (lives_[i].code == 0) CHECK(run_.worker(i).value("counts") == run_.worker(0).value("counts"));
  }

 private:
  tools::meddling meddling() {
    if (!random_.chance(0.7)) return {};
    tools::meddling const m{.pieces = random_.chance(0.3) ? 200u : 0u,
                            .cut_within = 2000 + random_.below(60'000),
                            .cuts_max = static_cast<int>(1 + random_.below(12))};
    story_ +=
        ", cut " + std::to_string(m.cuts_max) + " times a listener within " + std::to_string(m.cut_within) + " bytes";
    return m;
  }
  test::proxies::listening listening() {
    is_flooded_ = random_.chance(0.5);
    if (is_flooded_) story_ += ", flooded";
    return is_flooded_ ? test::proxies::listening::port : test::proxies::listening::unix_socket;
  }

  [[nodiscard]] std::vector<std::uint16_t> ports_behind() const {
    std::vector<std::uint16_t> ports;
    for (net::address const& at : between_.behind()) ports.push_back(at.port);
    return ports;
  }

  test::run_plan plan() {
    constexpr std::array protocols{"bsp", "ssp:1", "ssp:3", "asp", "con_sgd:2", "dyn_sgd_cut:2", "ssp_strict:2"};
    std::string const protocol = protocols[random_.below(protocols.size())];
    story_ = protocol + story_;
    plan_.program = test::program_of(protocol);
    plan_.held_at = 0;
    plan_.options = {"--protocol", protocol, "--clocks", std::to_string(clocks), "--columns", std::to_string(columns),
                     "--pause", "2000", "--tells", "yes"};
    for (auto const& [name, value] : test::variables{{"RUBATO_ON_LOSS", "go-on"},
                                                     {"RUBATO_RECONNECT", "3"},
                                                     {"RUBATO_SILENCE", "3"},
                                                     {"RUBATO_TOKEN", "open sesame"}})
      plan_.settings[name] = value;
    return plan_;
  }

  /// A worker has heavy trouble once at most.
  void befall(std::size_t worker) {
    auto const kind = lives_[worker].is_troubled ? 0 : random_.below(4);
    if (kind == 0) return stop_anyone_shortly();
    lives_[worker].is_troubled = true;
    if (kind == 1) return kill(worker, false);
    if (kind == 2) return kill(worker, true);
    stop_until_given_up(worker);
  }

  void stop_anyone_shortly() {
    std::vector<test::child*> const all{&run_.coordinator(), &run_.server(0), &run_.server(1),
                                        &run_.worker(0),     &run_.worker(1), &run_.worker(2)};
    std::size_t const who = random_.below(all.size());
    story_ += "; stopped for a moment: " + std::to_string(who);
    all[who]->send(SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(400)));
    all[who]->send(SIGCONT);
  }

  void kill(std::size_t worker, bool starts_again) {
    story_ += "; killed" + std::string(starts_again ? " and started again: " : ": ") + std::to_string(worker);
    run_.worker(worker).send(SIGKILL);
    CHECK(run_.worker(worker).wait() == 128 + SIGKILL);
    lives_[worker].until = last_clock(worker);
    lives_[worker].code = 128 + SIGKILL;
    if (!starts_again) return;
    run_.start_again(static_cast<std::uint32_t>(worker));
    lives_[worker].code = 0;
    lives_[worker].came_again = true;
  }

  void stop_until_given_up(std::size_t worker) {
    test::child& w = run_.worker(worker);
    story_ += "; stopped until given up: " + std::to_string(worker);
    w.stop();
    std::string const named = "worker " + std::to_string(worker) + " was lost";
    bool const was_lost =
        test::comes_true([&] { return run_.coordinator().errors().find(named) != std::string::npos; });
    INFO(story_ << "\n" << run_.errors());
    REQUIRE(was_lost);
    lives_[worker].until = last_clock(worker);
    w.send(SIGCONT);
    lives_[worker].code = 3;
  }

  [[nodiscard]] std::int64_t last_clock(std::size_t worker) {
    auto const text = run_.worker(worker).value("clock");
    return text.empty() ? -1 : std::stoll(text.substr(text.find(' ') + 1));
  }

  /// All that a worker made which stayed; of one that was lost what was received, and nothing twice.
  void check_counts(std::size_t worker) {
    INFO("worker " << worker);
    soaked_life const& life = lives_[worker];
    test::child const& witness = run_.worker(0);
    if (!life.until) {
      CHECK(test::whole(witness, worker, columns) == clocks);
      return;
    }
    std::int64_t later = 0;
    if (life.came_again) {
      std::string const began = run_.worker(worker).value("began " + std::to_string(worker));
      REQUIRE(!began.empty());
      later = clocks - std::stoll(began);
    }
    (void)test::spread_of_lost(witness, worker, columns, later, *life.until + 1 + later);
  }

  random_stream random_;
  std::string story_;
  bool is_flooded_ = false;
  test::run_plan plan_;
  tools::meddling const meddling_ = meddling();  // drawn before what follows, whatever the compiler
  test::proxies between_;
  test::process_run run_;
  std::optional<test::connection_flood> flood_;
  std::array<soaked_life, columns> lives_{};
};

}  // namespace

TEST_CASE("whatever comes together, nothing is lost, nothing counts twice and nobody hangs", "[process][soak]") {
  for (std::uint64_t i = 0; i < test::seed_count(3); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    soak_round round(seed);
    round.play();
    round.check();
  }
}
