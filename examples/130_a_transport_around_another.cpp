// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A transport that wraps any other: counts messages, and delays each commit as a slow link would.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/server/messages.hpp>
#include <rubato/testing/check_transport.hpp>
#include <rubato/worker/endpoint.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

struct counts {
  std::atomic<int> commits = 0, questions = 0;
};

class slow_and_counted : public rb::endpoint_decorator {
 public:
  slow_and_counted(rb::endpoint& inner, counts& c) : endpoint_decorator(inner), counts_(c) {}

  void post(rb::server_id to, rb::commit_message&& commit) override {
    ++counts_.commits;
    inner().pause(inner().now() + 2ms);  // of whatever time there is inside
    inner().post(to, std::move(commit));
  }
  void request(rb::server_id to, std::size_t table, rb::read_header const& read,
               rb::read_slot& slot) override {
    ++counts_.questions;
    inner().request(to, table, read, slot);
  }

 private:
  counts& counts_;
};

template <class Transport>
void train(char const* where, Transport const& inner) {
  counts c;
  rb::decorated const transport{inner, [&c](rb::endpoint& e, rb::worker_id) {
                                  return std::make_unique<slow_and_counted>(e, c);
                                }};
  auto const violations = rb::testing::check_transport(transport, {.workers = inner.workers, .schedules = 1});
  for (auto const& sentence : violations) std::printf("%s\n", sentence.c_str());
  c.commits = c.questions = 0;
  rb::cluster cluster{transport, rb::bsp{}, rb::dense<float>{.rows = 10}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(10), delta(10, 0.1F);
    for (int i = 0; i < 20; ++i) worker.pull(w), worker.push(delta), worker.step();
  });
  std::printf("%s: %zu violations, %d commits, %d questions, %s 40 ms\n", where, violations.size(),
              c.commits.load(), c.questions.load(), report.elapsed >= 40ms ? "at least" : "less than");
}

int main() {
  train("in process", rb::in_process{.workers = 3});
  train("simulated", rb::simulated{.workers = 3});
}
