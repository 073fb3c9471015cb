// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers that are processes: they come to what they come to in one process, and what the loss of one means is up to
// the protocol. With `--seeds N` peers are killed N times as often, each time in another iteration: a hundred kills
// and more of each kind, by `rubato-test "a killed peer is left out*" --seeds 7` and
// `rubato-test "a killed peer ends the run*" --seeds 34`, are for before a release.
#include <catch2/catch.hpp>

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/in_process.hpp>

#include "net/certificates.hpp"
#include "process/checks.hpp"
#include "process/runs.hpp"
#include "process/training.hpp"
#include "seeds.hpp"

using namespace rubato;
using Catch::Contains;
using test::check_error;

namespace {

constexpr std::uint32_t peers = 4;

test::run_plan peers_plan(std::string const& protocol, test::words const& options = {}) {
  test::run_plan plan{.workers = peers, .servers = 0, .program = "peers"};
  plan.options = {"--protocol", protocol};
  plan.options.insert(plan.options.end(), options.begin(), options.end());
  return plan;
}

/// One that would go on for long, where a lost process is noticed soon.
test::run_plan long_peers_plan(std::string const& protocol, std::int64_t iterations = 1'000'000) {
  test::run_plan plan =
      peers_plan(protocol, {"--iterations", std::to_string(iterations), "--pause", "1000", "--tells", "yes"});
  plan.settings = test::notices_losses("end");
  return plan;
}

/// One that is held shortly before its end, until a test has done what it does to a run under way.
test::run_plan held_peers_plan(std::string const& protocol, std::int64_t iterations) {
  test::run_plan plan = long_peers_plan(protocol, iterations);
  plan.held_at = iterations - 40;
  return plan;
}

void await_iteration(test::child& peer, std::int64_t k) {
  INFO(peer.errors());
  REQUIRE(peer.prints("iteration " + std::to_string(k) + "\n"));
}

struct trained {
  std::vector<std::string> own;  ///< what each peer has, hashed
  std::string average;           ///< the same of all
};

/// What the program's run comes to in one process.
trained train_in_one_process(std::size_t size, std::int64_t iterations, int runs) {
  peer_group group{in_process{}, ring(peers), hop(), sgd{.rate = 0.1, .momentum = 0.5}, std::vector<float>(size, 1)};
  for (; runs != 0; --runs)
    group.run([&](auto& peer) {
      std::vector<float> g(size);
      for ([[maybe_unused]] std::int64_t const k : peer.iterations(iterations)) {
        for (std::size_t i = 0; i < size; ++i)
          g[i] = peer.parameters()[i] - static_cast<float>(peer.rank() + i % 3);
        peer.step(g);
      }
    });
  trained all{.own = {}, .average = test::hash_of(group.parameters())};
  for (std::uint32_t i = 0; i < peers; ++i) all.own.push_back(test::hash_of(group.parameters(i)));
  return all;
}

void check_peers(test::run_plan plan, std::size_t size, std::int64_t iterations, int runs = 1) {
  plan.options.insert(plan.options.end(), {"--size", std::to_string(size), "--iterations", std::to_string(iterations),
                                           "--runs", std::to_string(runs)});
  test::process_run run(std::move(plan));
  std::string const failed = run.failures();
  INFO(run.errors());
  REQUIRE(failed.empty());
  trained const expected = train_in_one_process(size, iterations, runs);
  for (std::uint32_t i = 0; i < peers; ++i) {
    CHECK(run.worker(i).value("made") == std::to_string(iterations));
    CHECK(run.worker(i).value("own") == expected.own[i]);
    CHECK(run.worker(i).value("average") == expected.average);
    CHECK(run.worker(i).value("crashes") == "0");
  }
}

/// Where each peer has a socket of its own.
test::run_plan over_unix_sockets(test::run_plan plan, std::filesystem::path const& folder) {
  plan.unix_sockets = true;
  plan.own_settings = [folder](std::string const& role, std::uint32_t rank) {
    if (role != "worker") return test::variables{};
    return test::variables{{"RUBATO_LISTEN", "unix:" + (folder / ("peer-" + std::to_string(rank))).string()}};
  };
  return plan;
}

}  // namespace

TEST_CASE("peers over TCP come to what they come to in one process, each of them, bit for bit (HOP-3)",
          "[process][peers]") {
  check_peers(peers_plan("hop"), 1000, 20, 3);
  check_peers(peers_plan("hop", {"--background", "1"}), 300'000, 8);
}

TEST_CASE("peers over Unix-domain sockets, whose connections are cut again and again, lose nothing",
          "[process][peers]") {
  test::scratch const folder;
  check_peers(over_unix_sockets(peers_plan("hop", {"--cuts", "yes"}), folder.path()), 200'000,
              test::sanitized() ? 15 : 40);
}

TEST_CASE("peers prove to each other who they are, by a token and certificates for their places", "[process][peers]") {
  test::scratch const folder;
  auto const file = [&](std::string const& name) { return (folder.path() / name).string(); };
  std::ofstream(file("token")) << "open sesame\n";
  auto const authority = test::make_authority("Authority of the peers");
  test::write_certificate(authority, file("authority"));
  auto const settings_of = [&](std::string const& role, std::uint32_t rank) {
    std::string const name = role == "worker" ? "peer-" + std::to_string(rank) : "coordinator";
    std::string const place = role == "worker" ? "worker/" + std::to_string(rank) : "coordinator";
    auto const identity = test::make_identity(authority, name + ".test", 30, ",URI:rubato:" + place);
    test::write_certificate(identity, file(name));
    test::write_key(identity, file(name + ".key"));
    return test::variables{{"RUBATO_TOKEN_FILE", file("token")},
                           {"RUBATO_TLS_CERTIFICATE", file(name)},
                           {"RUBATO_TLS_KEY", file(name + ".key")},
                           {"RUBATO_TLS_AUTHORITY", file("authority")}};
  };
  test::run_plan plan = peers_plan("hop");
  plan.own_settings = settings_of;
  check_peers(std::move(plan), 100'000, 10);
}

// ---- losses

namespace {

void check_others_go_on(test::run_plan plan, std::int64_t dies_at, bool share_memory = false) {
  test::process_run run(std::move(plan));
  await_iteration(run.worker(1), dies_at);
  std::string const maps = test::content_of("/proc/" + std::to_string(run.worker(0).id()) + "/maps");
  CHECK((maps.find("rubato-updates") != std::string::npos) == share_memory);
  run.worker(1).send(SIGKILL);
  CHECK(run.worker(1).wait() == 128 + SIGKILL);
  test::await_loss(run);
  run.let_go();
  for (std::size_t const i : {0u, 2u, 3u}) {
    INFO(run.worker(i).errors());
    CHECK(run.worker(i).wait() == 0);
    CHECK(run.worker(i).value("made") == "400");
    CHECK(run.worker(i).value("crashes") == "1");
    CHECK(run.worker(i).value("average") == run.worker(0).value("average"));
  }
  CHECK(run.coordinator().wait() == 0);
}

void check_all_end(std::string const& protocol, std::int64_t dies_at) {
  test::process_run run(long_peers_plan(protocol));
  await_iteration(run.worker(1), dies_at);
  run.worker(1).send(SIGKILL);
  std::string const lost = "peer 1 is lost, and peer ";
  std::string const why = "peer 1 (process " + std::to_string(run.worker(1).id()) + ") was lost: ";
  for (std::size_t const i : {0u, 2u, 3u}) {
    check_error(run.worker(i), lost);
    CHECK_THAT(run.worker(i).errors(), Contains(why) && Contains("cannot end iteration"));
  }
  check_error(run.coordinator(), lost);
}

/// For each seed another iteration to be killed in, from this one on.
template <class Check>
void kill_in_iterations(std::int64_t first, Check check) {
  for (std::uint64_t i = 0; i < test::seed_count(1); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed) << ", as far as processes repeat");
    check(first + static_cast<std::int64_t>((seed - 1) * 11 % 300));
  }
}

}  // namespace

TEST_CASE("a killed peer is left out where the gather can do without it, and the others go on",
          "[process][peers][loss]") {
  std::string const protocol = GENERATE("backup", "newest", "ad_psgd", "push_sum", "gossip");
  std::int64_t const first = GENERATE(0, 7, 23);
  kill_in_iterations(first, [&](std::int64_t dies_at) { check_others_go_on(held_peers_plan(protocol, 400), dies_at); });
}

TEST_CASE("a killed peer whose memory others read is left out like any other", "[process][peers][loss]") {
  std::string const protocol = GENERATE("backup", "newest", "ad_psgd", "push_sum");
  bool const share_memory = GENERATE(true, false);
  test::scratch const folder;
  test::run_plan plan = over_unix_sockets(held_peers_plan(protocol, 400), folder.path());
  plan.options.insert(plan.options.end(), {"--size", "40000"});
  if (!share_memory) plan.settings["RUBATO_SHARE_MEMORY"] = "0";
  check_others_go_on(std::move(plan), 20, share_memory);
}

TEST_CASE("a killed peer ends the run everywhere where nobody can do without it, by the names of both",
          "[process][peers][loss]") {
  std::string const protocol = GENERATE("hop", "all_reduce", "prague");
  kill_in_iterations(5, [&](std::int64_t dies_at) { check_all_end(protocol, dies_at); });
}

TEST_CASE("a peer that is started again is told that peers do not join a run", "[process][peers][loss]") {
  test::process_run run(held_peers_plan("backup", 600));
  await_iteration(run.worker(2), 5);
  run.worker(2).send(SIGKILL);
  check_error(run.start_again(2), "a run is under way, and peers do not join one");
  run.let_go();
  for (std::size_t const i : {0u, 1u, 3u}) CHECK(run.worker(i).wait() == 0);
}

TEST_CASE("a peer that is killed before the first run is replaced", "[process][peers][loss]") {
  test::run_plan plan = peers_plan("hop");
  plan.settings = {{"WORLD_SIZE", std::to_string(peers + 1)}};  // no run begins before the last one is there
  test::process_run run(std::move(plan));
  run.worker(0).send(SIGKILL);
  run.start_again(0);
  run.start_another(peers);
  std::string const failed = run.failures();
  INFO(run.errors());
  CHECK(failed.empty());
  for (std::uint32_t i = 0; i <= peers; ++i) {
    CHECK(run.worker(i).value("crashes") == "0");
    CHECK(run.worker(i).value("average") == run.worker(0).value("average"));
  }
}

TEST_CASE("who is of another group does not get in", "[process][peers]") {
  auto const plan = [](std::string const& patience) {
    test::run_plan odd = peers_plan("hop", {"--odd-rank", "2", "--odd-option", "--size", "--odd-value", "999"});
    odd.settings = {{"RUBATO_PATIENCE", patience}};
    return odd;
  };
  auto const ended = test::ended_runs({{plan, {"the run waits for peer 2", "refused"}}});
  test::process_run& run = *ended.front();
  check_error(run.worker(2), "it says \"parameters: 999 of float");
  for (std::size_t const i : {0u, 1u, 3u}) check_error(run.worker(i), "the run waits for peer 2");
  check_error(run.coordinator(), "the run waits for peer 2");
}
