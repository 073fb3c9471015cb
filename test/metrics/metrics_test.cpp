// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/metrics/run_report.hpp>

#include <catch2/catch.hpp>

#include <chrono>

using namespace rubato;
using namespace std::chrono_literals;

TEST_CASE("worker_metrics: adding up leaves nothing out") {
  worker_metrics a;
  a.compute = 1ns;
  a.send = 2ns;
  a.wait = 3ns;
  a.steps = 4;
  a.commits = 5;
  a.pulls = 6;
  a.fetches = 7;
  a.requests = 13;
  a.process_hits = 14;
  a.pushes = 8;
  a.bytes_sent = 9;
  a.bytes_received = 10;
  a.staleness[0] = 11;
  a.staleness[64] = 12;
  CHECK(a.total() == 6ns);
  run_report report;
  report.workers = {a, {}, a};
  worker_metrics const sum = report.total();
  CHECK(sum.compute == 2ns);
  CHECK(sum.send == 4ns);
  CHECK(sum.wait == 6ns);
  CHECK(sum.steps == 8);
  CHECK(sum.commits == 10);
  CHECK(sum.pulls == 12);
  CHECK(sum.fetches == 14);
  CHECK(sum.requests == 26);
  CHECK(sum.process_hits == 28);
  CHECK(sum.pushes == 16);
  CHECK(sum.bytes_sent == 18);
  CHECK(sum.bytes_received == 20);
  CHECK(sum.staleness[0] == 22);
  CHECK(sum.staleness[1] == 0);
  CHECK(sum.staleness[64] == 24);
  CHECK(sum.total() == 12ns);
}

TEST_CASE("run_report: without workers everything is zero") {
  CHECK(run_report{}.total().total() == 0ns);
  CHECK(run_report{}.total().commits == 0);
}

TEST_CASE("shard_counters: adding up leaves nothing out") {
  shard_counters a{.commits = 1, .refused = 2, .dropped = 3, .partly_folded = 4};
  a += shard_counters{.commits = 10, .refused = 20, .dropped = 30, .partly_folded = 40};
  CHECK(a.commits == 11);
  CHECK(a.refused == 22);
  CHECK(a.dropped == 33);
  CHECK(a.partly_folded == 44);
}
