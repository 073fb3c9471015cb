// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Workers in process whose read fails, as on a disk: the next one is a read of its own.
#include <rubato/transport/threads/worker_threads.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/store_host.hpp>
#include <rubato/transport/in_process.hpp>

namespace rb = rubato;

namespace {

std::atomic<int> failures_to_come = 0;
std::atomic<bool> is_failing = false;

/// Of which some reads fail.
struct failing_store : rb::dense_store<float> {
  using rb::dense_store<float>::dense_store;
  void read(std::span<std::uint64_t const> of, float* out) const {
    if (failures_to_come.fetch_sub(1) > 0) {
      is_failing = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // others may ask for the same meanwhile
      throw std::runtime_error("the disk cannot be read");
    }
    failures_to_come = 0;
    rb::dense_store<float>::read(of, out);
  }
};
struct failing : rb::dense<float, rb::sum> { using store = failing_store; };

}  // namespace

TEST_CASE("in process: a read that waited and failed leaves nothing behind", "[threads]") {
  rb::cluster cluster{rb::in_process{.workers = 2}, rb::bsp{}, failing{{.rows = 4}}};
  float first = 0;
  float second = 0;
  std::atomic<bool> asks = false;
  cluster.run([&](auto& worker) {
    std::vector const key{rb::key{2}};
    std::vector<float> x(1, -1.F);
    worker.push(key, std::vector<float>{1});
    if (worker.rank() == 1) {
      while (!asks) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the other one waits by now, or the test shows less
      return worker.commit();
    }
    failures_to_come = 1;
    worker.commit();
    try {
      asks = true;
      worker.pull(key, x);
    } catch (std::runtime_error const&) {
      first = x[0];
      worker.pull(key, x);
      second = x[0];
    }
  });
  CHECK(first == -1);
  CHECK(second == 2);
}

TEST_CASE("in process: who waits for what another one was to ask hears that it failed", "[threads]") {
  rb::cluster cluster{rb::in_process{.workers = 2, .process_cache = true}, rb::bsp{}, failing{{.rows = 4}}};
  failures_to_come = 1;
  is_failing = false;
  std::atomic<int> there = 0, failed = 0;
  auto const report = cluster.run([&](auto& worker) {
    ++there;
    while (there < 2) std::this_thread::yield();  // what is asked for before one has come is not for it
    while (worker.rank() == 1 && !is_failing) std::this_thread::yield();
    try {
      std::vector<float> x(1);
      worker.pull(std::vector{rb::key{2}}, x);
    } catch (std::runtime_error const&) {
      ++failed;
    }
    if (worker.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the other one sleeps by now
  });
  CHECK(failed >= 1);  // two, unless one was late
  CHECK(report.completed == rb::completion::whole);
}
