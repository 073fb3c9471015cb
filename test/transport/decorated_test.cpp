// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/concepts.hpp>

#include <catch2/catch.hpp>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>

using namespace rubato;
using Catch::Contains;

namespace {

/// What happened to decorators, in order. Fibers need no lock, threads do.
struct diary {
  std::mutex lock;
  std::vector<std::string> lines;
  void write(std::string line) {
    std::lock_guard const guard(lock);
    lines.push_back(std::move(line));
  }
};

/// Uses what it decorates to the last, as one would that still has something to send.
class noted : public endpoint_decorator {
 public:
  noted(endpoint& inner, diary& d, std::string name)
      : endpoint_decorator(inner), diary_(d), name_(std::move(name)) {}
  noted(noted const&) = delete;
  noted& operator=(noted const&) = delete;
  ~noted() override {
    if (inner().now() >= time_point{}) diary_.write(name_ + " goes");
  }

 private:
  diary& diary_;
  std::string name_;
};

run_setup::wrapper noting(diary& d, std::string const& name) {
  return [&d, name](endpoint& inner, worker_id) { return std::make_unique<noted>(inner, d, name); };
}

template <transport T>
void check_order(T const& inner) {
  diary d;
  {
    decorated const both{decorated{inner, noting(d, "inner")}, noting(d, "outer")};
    cluster c{both, ssp{.staleness = 1}, dense<float>{.rows = 4}};
    c.run([](auto& worker) { worker.step(); });
  }
  CHECK(d.lines == std::vector<std::string>{"outer goes", "inner goes"});
}

/// A `wrap` that makes nothing for the second worker.
std::unique_ptr<endpoint> none_for_the_second(endpoint& inner, worker_id w) {
  if (w == worker_id{1}) return nullptr;
  return std::make_unique<endpoint_decorator>(inner);
}

template <transport T>
void check_nothing(T const& inner) {
  cluster c{decorated{inner, none_for_the_second}, ssp{.staleness = 1}, dense<float>{.rows = 4}};
  CHECK_THROWS_WITH(c.run([](auto& worker) { worker.step(); }),
                    Contains("wrap() gives nothing for worker 1, expected an endpoint"));
}

template <transport T>
void check_failure(T const& inner) {
  diary d;
  auto const second_fails = [](endpoint& e, worker_id w) -> std::unique_ptr<endpoint> {
    if (w == worker_id{1}) throw std::runtime_error("no more of these");
    return std::make_unique<endpoint_decorator>(e);
  };
  cluster c{decorated{decorated{inner, noting(d, "inner")}, second_fails}, ssp{.staleness = 1},
            dense<float>{.rows = 4}};
  CHECK_THROWS_WITH(c.run([](auto& worker) { worker.step(); }), Contains("no more of these"));
}

}  // namespace

TEST_CASE("decorated: what stands between a worker and its endpoint goes from the outside in") {
  check_order(in_process{.workers = 1});
  check_order(simulated{});
}

TEST_CASE("decorated: a wrap that gives nothing is refused with the worker's number") {
  check_nothing(in_process{.workers = 2});
  check_nothing(simulated{.workers = 2});
}

TEST_CASE("decorated: what a wrap throws ends the run and is thrown there") {
  check_failure(in_process{.workers = 2});
  check_failure(simulated{.workers = 2});
}
