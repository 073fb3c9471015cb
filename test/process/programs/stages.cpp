// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A task of three stages, the second of which takes long, so that a test can kill a process in it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "process/program.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/task/engine.hpp"
#include "rubato/transport/tcp.hpp"

using namespace rubato;

namespace {

void train(test::arguments const& given) {
  tcp const where = tcp::from_environment();
  bool const works = where.place.as == net::role::worker;
  test::hold const held(given.text("hold"));
  engine e{where};
  task t{dense<std::int64_t, sum>{.rows = 1000}};
  auto const add = [&](auto& w, iteration_range todo, bool slow) {
    std::vector<std::int64_t> seen(1000), ones(1000, 1);
    std::int64_t made = 0;
    for (auto const i : todo) {
      w.pull(seen);
      w.push(ones);
      w.step();
      if (slow && i == 20) test::say("middle", std::to_string(w.rank()));
      if (slow) held.wait(made++);
      if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  stage_options short_one{.workers = 2, .iterations = 10};
  stage_options long_one{.workers = 2, .iterations = 200, .restarts = 1};
  if (given.text("local") == "yes") {
    long_one.workers = automatic;  // one, in parts between which the tables may stay where they are
    long_one.local = single_machine{};
  }
  auto const quick = t.stage(short_one, [&](auto& w, iteration_range todo) { add(w, todo, false); });
  auto const slow = t.stage(long_one, [&](auto& w, iteration_range todo) { add(w, todo, true); });
  t.repeat(1, quick, slow, quick);
  task_report const r = e.submit(t).wait();
  if (!works) return;
  auto const end = t.parameters();
  bool const even = std::ranges::all_of(end, [&](auto x) { return x == end.front(); });
  test::say("sum", even ? std::to_string(end.front()) : "uneven");
  test::say("runs", std::to_string(r.stages.size()));
}

}  // namespace

int main(int count, char** texts) { return test::main_of(count, texts, train); }
