// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/peers.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "bench/compare/compare.hpp"
#include "bench/compare/subject.hpp"
#include "bench/result/json.hpp"
#include "bench/result/ranking.hpp"
#include "bench/setup/settings.hpp"
#include "rubato/core/error.hpp"
#include "test/bench/results.hpp"

using namespace rubato;
using namespace rubato::bench;
using Catch::Contains;

namespace {

constexpr char const* every_name =
    "--protocols hop,hop_backup,hop_stale,hop_hybrid,hop_skip,notify_ack,ad_psgd,all_reduce,"
    "push_sum,gossip,prague ";

compare_settings parse(std::string const& line) {
  CLI::App app;
  compare_options options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  options.add_to(app);
  app.parse(line);
  return interpret(options);
}

compare_settings small(std::string const& more) {
  return parse(
      "--rows 600 --features 60 --nonzeros 10 --workers 6 --clocks 8 --points 48 --target 0.5 "
      "--heterogeneity 2 --learning-rate 0.5 --clock pass " +
      more);
}

std::vector<run_result> run(compare_settings s) {
  subject const what(s);
  what.put_into(s.job);
  return compare(s);
}

std::vector<std::string> labels(compare_settings const& s) {
  std::vector<std::string> all;
  for (protocol_choice const& p : s.protocols) all.push_back(p.label());
  return all;
}

}  // namespace

TEST_CASE("protocols without servers have names, and numbers where there is one") {
  CHECK(labels(parse(std::string(every_name) + "--workers 6")) ==
        std::vector<std::string>{"hop", "hop_backup(1)", "hop_stale(5)", "hop_hybrid",
                                 "hop_skip(10)", "notify_ack", "ad_psgd", "all_reduce", "push_sum(0)",
                                 "gossip", "prague(3)"});
  CHECK(labels(parse("--protocols hop_backup:2,hop_stale:3,hop_skip:2,ssp,hop_stale "
                     "--staleness 4")) ==
        std::vector<std::string>{"hop_backup(2)", "hop_stale(3)", "hop_skip(2)", "ssp(4)",
                                 "hop_stale(4)"});
  CHECK(labels(parse("--protocols push_sum:1,prague:4")) == std::vector<std::string>{"push_sum(1)", "prague(4)"});
  CHECK(labels(parse("--protocols hop,hop_skip,ad_psgd,ssp --max-gap 4 --order serial "
                     "--jump-max 3")) ==
        std::vector<std::string>{"hop+tokens+serial", "hop_skip(3)+serial", "ad_psgd", "ssp(3)"});
}

TEST_CASE("peers are told their graph and their gap") {
  peer_parameters const usual = parse("--protocols hop").protocols[0].with.peers;
  CHECK(usual.graph == "ring-based");
  CHECK_FALSE(usual.gap_max);
  peer_parameters const p =
      parse("--protocols hop_skip --graph hierarchical:4,2,2 --workers 8 --max-gap 3 --backups 0 "
            "--jump-trigger 3 --order serial")
          .protocols[0]
          .with.peers;
  CHECK(p.graph == "hierarchical:4,2,2");
  CHECK(p.gap_max == 3);
  CHECK(p.backups == 0);
  CHECK(p.jump_trigger == 3);
  CHECK(p.order == iteration_order::serial);
}

TEST_CASE("a bad option of peers is an error that names it") {
  char const* const lines[][2] = {
      {"--graph circle", "--graph: there is no graph \"circle\""},
      {"--graph double-ring --workers 5", "--graph: graph double-ring: must have an even number"},
      {"--protocols bsp --graph grid:2x2 --workers 5", "--graph"},
      {"--max-gap 0", "--max-gap"},
      {"--backups -1", "--backups"},
      {"--jump-trigger 1", "--jump-trigger"},
      {"--jump-max 1", "--jump-max"},
      {"--order random", "--order"},
      {"--protocols hop:3", "hop takes no staleness"},
      {"--protocols hop_backup:-1", "number of backup workers of 0 or more"},
      {"--protocols hop_skip:1", "number of iterations to jump of 2 or more"},
      {"--protocols hop_stale:x", "staleness"},
      {"--protocols push_sum:-1", "delay of 0 or more"},
      {"--protocols prague:1", "members of a group from 2 to 1000000"}};
  for (auto const& [line, named] : lines) {
    INFO(line);
    CHECK_THROWS_WITH(parse(line), Contains(named));
  }
}

TEST_CASE("what a graph or a scenario cannot do is an error by name, and left out of all") {
  char const* const lines[][3] = {
      {"--graph ring --workers 5", "ad_psgd", "ring of 5 nodes is not bipartite"},
      {"--graph directed-ring --workers 4", "ad_psgd", "is directed"},
      {"--graph ring --backups 3", "hop_backup(3)", "has 3 updates, its own included"},
      {"--graph ring --backups 3", "hop_hybrid", "cannot do without 3"},
      {"--scenario phones-come-and-go", "all_reduce", "workers join"}};
  for (auto const& [line, who, why] : lines) {
    INFO(line);
    std::string const name(who, std::min(std::string(who).find('('), std::string(who).size()));
    CHECK_THROWS_WITH(parse(std::string(line) + " --protocols " + name), Contains(why));
    compare_settings const s = parse(line);
    auto const all = labels(s);
    CHECK(std::ranges::find(all, who) == all.end());
    CHECK(all.size() + s.left_out.size() == known_protocols().size());
    std::string const reason(why), label(who);
    CHECK(std::ranges::any_of(s.left_out, [&](std::string const& what) {
      return what.find(label + ": ") == 0 && what.find(reason) != std::string::npos;
    }));
  }
  CHECK(parse("").left_out.empty());
  CHECK(parse("--graph ring --workers 6 --protocols ad_psgd").protocols.size() == 1);
}

TEST_CASE("a run that loses workers is for those that bear it") {
  compare_settings s = parse(std::string(every_name) + "--workers 6");
  s.job.scenario.crashes = {{.worker = worker_id{2}, .at = seconds(0.001)}};
  for (protocol_choice& p : s.protocols) p.by_name = false;
  CHECK(leave_out_impossible(s.protocols, s.job).size() == 4);
  CHECK(labels(s) == std::vector<std::string>{"hop_backup(1)", "hop_stale(5)", "hop_hybrid",
                                              "hop_skip(10)", "ad_psgd", "push_sum(0)", "gossip"});
  s = small("--protocols hop_backup,ad_psgd");
  s.job.scenario.crashes = {{.worker = worker_id{2}, .at = seconds(0.0005)}};
  for (run_result const& r : run(s)) CHECK(r.final_loss < r.curve.front().loss);
}

TEST_CASE("every protocol without servers trains, in each transport and order") {
  for (char const* more : {"", "--order serial --max-gap 3", "--transport in-process"}) {
    INFO(more);
    for (run_result const& r : run(small(std::string(every_name) + more))) {
      INFO(r.label);
      bool const jumps = r.protocol == "hop_skip";
      CHECK(r.servers == 0);
      CHECK(r.storage == "dense");
      CHECK(r.curve.front().updates == 0);
      CHECK(r.curve.back().updates == r.updates);
      CHECK(r.updates + r.jumped_over == 480);
      CHECK((jumps || r.jumped_over == 0));
      CHECK(r.steps == r.updates);
      CHECK(std::ranges::is_sorted(r.curve, std::ranges::less{}, &curve_point::updates));
      CHECK(std::ranges::is_sorted(r.curve, std::ranges::less{}, &curve_point::seconds));
      CHECK(r.send_seconds == 0);
      CHECK(r.compute_seconds > 0);
      CHECK(r.compute_seconds + r.wait_seconds <= 6 * r.seconds * 1.0001);
      CHECK(r.final_loss < 0.9 * r.curve.front().loss);
      CHECK(r.accuracy > 0.5);
      CHECK(r.bytes_sent > 0);
    }
  }
}

TEST_CASE("what a result of peers says of itself is in the JSON") {
  compare_settings const s = small(std::string(every_name) + "--seed 4");
  auto const all = to_json(run(s));
  std::set<std::string> names;
  for (auto const& r : all) {
    names.insert(r["protocol"].get<std::string>());
    CHECK(r["servers"] == 0);
    CHECK(r["time_kind"] == "virtual");
    CHECK(r["send_seconds"] == 0.0);
    CHECK(r["bytes_sent"] == r["bytes_received"]);
    CHECK(r["seconds_to_target"].is_null() == r["clocks_to_target"].is_null());
  }
  CHECK(names.size() == 11);
  CHECK(all[2]["staleness"] == 5);
  CHECK(all[0]["staleness"] == 0);
  CHECK(all[6]["staleness"].is_null());
  CHECK(to_json(run(s)).dump() == all.dump());
}

TEST_CASE("clocks and rates of peers go by local steps, as those of workers do") {
  compare_settings s = small("--protocols bsp,all_reduce --heterogeneity 1 --learning-rate 2");
  s.job.decay = 0.5;
  s.job.target = 0.66;
  s.job.batch = 1;  // both take whole gradients at the same points
  s.job.steps_per_commit = 1;
  auto const one = run(s);
  CHECK(one[1].final_loss == Approx(one[0].final_loss).epsilon(1e-4));
  REQUIRE(one[1].clocks_to_target);
  CHECK(one[1].clocks_to_target == one[0].clocks_to_target);
  s.job.steps_per_commit = 4;
  run_result const four = run(s)[1];
  CHECK(four.updates == 4 * one[1].updates);
  REQUIRE(four.updates_to_target);
  CHECK(four.clocks_to_target == (*four.updates_to_target + 23) / 24);
}

TEST_CASE("a peers' run that may stop at its target does") {
  run_result const r =
      run(small("--protocols hop_backup --learning-rate 1 --clocks 50 --stop-at-target"))[0];
  REQUIRE(r.seconds_to_target);
  CHECK(r.updates < 6 * 500);
  CHECK(r.curve.back().loss <= 0.5);
}

TEST_CASE("workers of servers and peers are compared by their local steps") {
  run_result servers = reached("bsp", 1, 100);
  servers.steps = 1000;
  run_result peers = reached("hop", 3, 3000);
  peers.steps = 3000;
  peers.servers = 0;
  CHECK_THAT(explain(ranked({servers, peers})),
             Contains("needs 3.00x the local steps, at about the same time for each"));
}
