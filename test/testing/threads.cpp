// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The observer's content checks on real threads: those that hold at any moment.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/testing/observed_run.hpp>
#include <rubato/transport/in_process.hpp>
#include <thread>

#include "seeds.hpp"

using namespace rubato;

namespace {

/// A worker that the scheduler of the machine treats badly: its steps sleep and yield by chance.
template <class Worker>
class jostled {
 public:
  explicit jostled(Worker& w) : worker_(w) {}

  [[nodiscard]] auto rank() const { return worker_.rank(); }
  [[nodiscard]] auto clock() const { return worker_.clock(); }
  [[nodiscard]] random_stream& random() { return worker_.random(); }
  template <std::size_t I>
  [[nodiscard]] auto operator[](table_tag<I> t) {
    jostle();
    return worker_[t];
  }
  void pull(std::vector<std::int64_t>& out, staleness s) {
    jostle();
    worker_.pull(out, s);
  }
  void push(std::vector<std::int64_t> const& delta) { worker_.push(delta); }
  bool step(double work) {
    jostle();
    return worker_.step(work);
  }
  void commit() {
    jostle();
    worker_.commit();
  }

 private:
  void jostle() {
    switch (jostling_.below(8)) {
      case 0:
        return std::this_thread::sleep_for(std::chrono::microseconds(jostling_.below(100)));
      case 1:
      case 2:
        return std::this_thread::yield();
      default:
        return;
    }
  }

  Worker& worker_;
  random_stream jostling_{worker_.rank(), 77};
};

template <protocol P>
void check_threads(P const& p, testing::expectations r) {
  r.atomic_servers = r.holds_back && r.bound == staleness{0};
  for (std::uint64_t i = 0; i < test::seed_count(25); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed) << ", as far as threads repeat");
    testing::schedule s =
        testing::random_schedule(seed, {.joins = false, .leaves = true, .crashes = false});
    s.workers = 4 + static_cast<std::uint32_t>(seed % 5);
    s.manners.resize(s.workers);
    s.scenario.crashes.clear();
    testing::observer o(r, s.workers, s.workers_ever(), testing::detail::servers_of_rows(s));
    auto const init = testing::detail::first_weights(seed);
    auto c = testing::detail::make_cluster(
        in_process{.workers = s.workers, .servers = s.servers, .seed = seed},
        testing::detail::observed<P>{p, s.commits_by_hand}, s, init);
    auto const report = c.run([&](auto& w) {
      jostled shaken(w);
      (void)testing::detail::actor(shaken, o, s, r.bound).run();
    });
    testing::detail::check_result(c, o, s, report);
    std::string all;
    for (auto const& v : o.violations()) all += "\n  " + v;
    INFO("broken rules:" << all);
    REQUIRE(o.violations().empty());
  }
}

}  // namespace

TEST_CASE("The rules hold on threads under SSP", "[testing][threads]") {
  check_threads(ssp{.staleness = 2}, testing::eager_rules(2));
}

TEST_CASE("The rules hold on threads under BSP", "[testing][threads]") {
  check_threads(bsp{}, testing::strict_rules(0));
}

TEST_CASE("The rules hold on threads under ASP", "[testing][threads]") {
  check_threads(asp{}, testing::eager_rules(staleness::infinite()));
}
