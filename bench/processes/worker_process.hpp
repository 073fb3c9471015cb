// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/processes/shared_progress.hpp"
#include "bench/processes/slow_down.hpp"
#include "bench/result/json.hpp"
#include "bench/train/body.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/result_of.hpp"
#include "bench/train/timing.hpp"
#include "rubato/core/error.hpp"

// What a worker process does, however it came to be one.
namespace rubato::bench {

/// A worker that takes so many times as long for its steps, and sleeps for the difference.
class slowed_worker {
 public:
  slowed_worker(training_worker& w, double slowness) : worker_(w), slowed_(slowness) {}

  [[nodiscard]] std::uint32_t rank() const noexcept { return worker_.rank(); }
  [[nodiscard]] clock_index clock() const noexcept { return worker_.clock(); }
  [[nodiscard]] time_point now() const { return worker_.now(); }
  [[nodiscard]] worker_metrics const& metrics() const noexcept { return worker_.metrics(); }
  [[nodiscard]] std::int64_t steps_since_commit() const noexcept {
    return worker_.steps_since_commit();
  }
  void pull(std::span<float> out) {
    worker_.pull(out);
    pulled_ = std::chrono::steady_clock::now();
  }
  template <class F>
  void push_in_place(F const& write) {
    worker_.push_in_place(write);
  }
  bool step(double work) {
    slow_down(slowed_, pulled_);
    return worker_.step(work);
  }

 private:
  training_worker& worker_;
  slow_motion slowed_;
  std::chrono::steady_clock::time_point pulled_{};
};

/// Draws the curve of a run in worker process 0, in a thread of its own, so that looking takes no
/// time from the worker.
template <class Cluster>
class observer {
 public:
  observer(Cluster const& cluster, training const& job, run_progress& all)
      : cluster_(cluster), job_(job), all_(all), objective_(*job.work), curve_(job) {}
  observer(observer const&) = delete;
  observer& operator=(observer const&) = delete;
  ~observer() { stop(); }

  void start() {
    thread_ = std::jthread([this](std::stop_token const& over) { watch(over); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }
  /// @pre it has been stopped
  [[nodiscard]] std::vector<curve_point> finish(run_report const& report,
                                                std::vector<float> const& parameters) {
    return curve_.finish(to_seconds(report.elapsed), report.updates, objective_(parameters));
  }

 private:
  void watch(std::stop_token const& over) {
    constexpr std::chrono::milliseconds glance{1};
    try {
      for (; !over.stop_requested(); std::this_thread::sleep_for(glance)) {
        all_.refresh();
        if (all_.steps(0) > 0 && curve_.due(0, all_.commits())) look();
      }
    } catch (error const&) {
      // The run is broken: that is for those who run it to tell.
    }
  }

  void look() {
    for (std::uint32_t i = 0; i < job_.workers; ++i) curve_.note(i, all_.steps(i), all_.spent(i));
    // What has been sent may still be on its way.
    std::uint64_t const updates = cluster_.updates();
    double const now = to_seconds(cluster_.now().since_start());
    curve_.look(now, updates, [this] { return objective_.of(cluster_.observe()); });
  }

  Cluster const& cluster_;
  training const& job_;
  run_progress& all_;
  remembered_objective objective_;
  recorder curve_;
  std::jthread thread_;
};

/// What a worker process does.
template <class Cluster>
class trainer {
 public:
  trainer(Cluster& cluster, training const& job, run_length const& length,
          run_progress& all)
      : cluster_(cluster), job_(job), length_(length), all_(all), slowness_(slowness_of(job)) {}

  run_report run() {
    return cluster_.run([this](training_worker& w) { live(w); },
                        [objective = std::make_shared<remembered_objective>(*job_.work)](
                            std::vector<float> const& w) { return (*objective)(w); });
  }

 private:
  void live(training_worker& w) {
    slowed_worker worker(w, slowness_[w.rank()]);
    auto const go_on = [&] { return !length_.clocks || worker.clock().value() < *length_.clocks; };
    auto const pulled = [&](std::vector<float> const&) {
      if (!length_.clocks && is_end(worker)) cluster_.stop();
    };
    train(worker, job_, go_on, pulled, [&](time_split const& spent) {
      all_.note(worker.rank(), worker.metrics().steps, spent);
    });
  }

  /// The slowest has made the job's local steps and is to begin another clock.
  [[nodiscard]] bool is_end(slowed_worker const& worker) {
    if (worker.steps_since_commit() != 0) return false;
    if (worker.metrics().steps >= static_cast<std::uint64_t>(job_.local_steps()))
      all_.note_done(worker.rank());
    return all_.all_done();
  }

  Cluster& cluster_;
  training const& job_;
  run_length const& length_;
  run_progress& all_;
  std::vector<double> slowness_;
};

/// Trains in the worker process of this number. Returns what worker 0 has found out, as JSON.
template <class Cluster>
std::string train_here(Cluster& group, std::uint32_t number, training const& job, run_length const& length,
                       run_progress& all, run_result& r) {
  trainer worker(group, job, length, all);
  if (number != 0) return worker.run(), "";
  observer curve(std::as_const(group), job, all);
  curve.start();
  run_report const report = worker.run();
  curve.stop();
  std::vector<float> const parameters = group.observe();
  fill_in(r, job, report, curve.finish(report, parameters));
  fill_in_parameters(r, job, parameters);
  return to_json(r).dump();
}

}  // namespace rubato::bench
