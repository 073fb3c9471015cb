// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/fed_buff.hpp>
#include <rubato/protocol/k_async.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

#include "seeds.hpp"

namespace rb = rubato;
using Catch::Contains;

namespace {

/// The sentence of the usage_error that `call` must throw, with this code.
template <class F>
std::string refused(rb::errc code, F call) {
  try {
    call();
  } catch (rb::usage_error const& e) {
    CHECK(e.code() == code);
    return e.what();
  }
  FAIL("no usage_error");
  return {};
}

auto make_cluster() {
  return rb::cluster{rb::simulated{.servers = 2}, rb::ssp{.staleness = 3},
                     rb::dense<float>{.rows = 4, .width = 2},
                     rb::sparse<double>{.rows = 100, .width = 3, .check_finite = true},
                     rb::sparse<float>{.rows = 0}};
}

using floats = std::vector<float>;
using doubles = std::vector<double>;
using key_list = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("misuse: a span of the wrong size names call, worker, table and the size expected") {
  auto cluster = make_cluster();
  cluster.run([](auto& worker) {
    floats w(7);
    auto said = refused(rb::errc::wrong_size, [&] { worker.pull(w); });
    CHECK_THAT(said, Contains("pull") && Contains("worker 0") && Contains("table 0") &&
                         Contains("7 elements") && Contains("expected 8"));
    said = refused(rb::errc::wrong_size, [&] { worker.push(floats(9)); });
    CHECK_THAT(said, Contains("push") && Contains("table 0") && Contains("expected 8"));
    said = refused(rb::errc::wrong_size, [&] { worker.pull(key_list{1, 2}, w); });
    CHECK_THAT(said, Contains("7 elements") && Contains("expected 4"));
    doubles d(3);
    said = refused(rb::errc::wrong_size, [&] { worker[rb::table<1>].push(key_list{1, 2}, d); });
    CHECK_THAT(said, Contains("push") && Contains("table 1") && Contains("expected 6"));
    worker.push(floats(8));  // the worker is as usable as before
  });
}

TEST_CASE("misuse: a key outside of its table is named, and nothing of that push is applied") {
  auto cluster = make_cluster();
  cluster.run([](auto& worker) {
    floats w(4);
    auto said = refused(rb::errc::unknown_key, [&] { worker.pull(key_list{0, 4}, w); });
    CHECK_THAT(said, Contains("pull") && Contains("worker 0") && Contains("table 0") &&
                         Contains("key 4") && Contains("below 4"));
    said = refused(rb::errc::unknown_key, [&] { worker.push(key_list{1, 77}, floats(4, 1.0F)); });
    CHECK_THAT(said, Contains("push") && Contains("key 77"));
    said = refused(rb::errc::unknown_key,
                   [&] { worker[rb::table<1>].push(key_list{5, 100}, doubles(6, 1.0)); });
    CHECK_THAT(said, Contains("table 1") && Contains("key 100") && Contains("below 100"));
    doubles row(3, 9.0);
    worker[rb::table<1>].pull(key_list{5}, row);
    CHECK(row == doubles(3));
    worker[rb::table<2>].push(key_list{~std::uint64_t{0}}, floats{1.0F});  // any key will do there
  });
  CHECK(cluster.parameters() == floats(8));
  CHECK(cluster.parameters<1>().empty());
}

TEST_CASE("misuse: NaN and infinity are refused where the user asked for the check") {
  auto cluster = make_cluster();
  cluster.run([](auto& worker) {
    auto const nan = std::numeric_limits<double>::quiet_NaN();
    auto const infinity = std::numeric_limits<double>::infinity();
    auto const checked = worker[rb::table<1>];
    auto said = refused(rb::errc::not_finite, [&] { checked.push(key_list{5}, doubles{0, nan, 0}); });
    CHECK_THAT(said, Contains("worker 0") && Contains("table 1") && Contains("element 1") &&
                         Contains("NaN"));
    said = refused(rb::errc::not_finite, [&] { checked.push(key_list{5}, doubles{0, 0, -infinity}); });
    CHECK_THAT(said, Contains("element 2") && Contains("infinite"));
    floats w(8);
    w[3] = std::numeric_limits<float>::quiet_NaN();
    worker.push(w);  // nobody asked
  });
  CHECK(cluster.parameters<1>().empty());
  CHECK(std::isnan(cluster.parameters()[3]));
}

TEST_CASE("misuse: more staleness than the protocol's names worker, table and both numbers") {
  auto cluster = make_cluster();
  cluster.run([](auto& worker) {
    floats w(8);
    auto said =
        refused(rb::errc::bad_staleness, [&] { worker.pull(w, rb::staleness{4}); });
    CHECK_THAT(said, Contains("worker 0") && Contains("table 0") && Contains("4") && Contains("3"));
    doubles row(3);
    said = refused(rb::errc::bad_staleness,
                   [&] { worker[rb::table<1>].pull(key_list{1}, row, rb::staleness::infinite()); });
    CHECK_THAT(said, Contains("table 1"));
    worker.pull(w, rb::staleness{3});
  });
}

TEST_CASE("misuse: less staleness is refused where clocks do not say who is let in, or what is seen") {
  for (rb::rules const& protocol :
       {rb::rules(rb::vap{}), rb::rules(rb::fed_buff{.k = 1}), rb::rules(rb::k_async{.k = 1})}) {
    INFO(protocol.name);
    rb::cluster cluster{rb::simulated{}, protocol, rb::dense<float>{.rows = 8}};
    cluster.run([](auto& worker) {
      floats w(8);
      auto const said = refused(rb::errc::bad_staleness, [&] { worker.pull(w, rb::staleness{0}); });
      CHECK_THAT(said, Contains("table 0") && Contains("staleness 0 cannot be given"));
      CHECK_THAT(refused(rb::errc::bad_staleness,
                         [&] { worker.pull_together({worker[rb::table<0>].into(w)}, rb::staleness{0}); }),
                 Contains("staleness 0"));
      worker.pull(w, rb::staleness::infinite());  // the protocol's own
    });
  }
}

TEST_CASE("misuse: negative work, or work that is no finite number, is refused") {
  auto cluster = make_cluster();
  auto const report = cluster.run([](auto& worker) {
    auto const said = refused(rb::errc::bad_option, [&] { worker.step(-1.0); });
    CHECK_THAT(said, Contains("step") && Contains("worker 0") && Contains("0 or more"));
    refused(rb::errc::bad_option,
            [&] { worker.step(std::numeric_limits<double>::quiet_NaN()); });
    CHECK_THAT(refused(rb::errc::bad_option, [&] { worker.step(std::numeric_limits<double>::infinity()); }),
               Contains("work is inf, expected a finite number"));
    worker.step(0.0);
  });
  CHECK(report.workers[0].steps == 1);
}

TEST_CASE("misuse: a handle that outlives its run refuses every call (stale_handle)") {
  auto const check = [](auto cluster) {
    decltype(cluster)* const c = &cluster;
    typename decltype(cluster)::element_type::worker_type* stashed = nullptr;
    (*c)->run([&](auto& worker) {
      if (worker.rank() == 1) stashed = &worker;
    });
    REQUIRE(stashed != nullptr);
    floats w(4);
    CHECK_THAT(refused(rb::errc::stale_handle, [&] { stashed->pull(w); }),
               Contains("worker 1") && Contains("after its run ended"));
    refused(rb::errc::stale_handle, [&] { stashed->pull(w, rb::staleness{0}); });
    refused(rb::errc::stale_handle, [&] { stashed->push_in_place([](std::span<float>) { FAIL("written"); }); });
    refused(rb::errc::stale_handle, [&] { stashed->pull(key_list{1}, w); });
    refused(rb::errc::stale_handle, [&] { stashed->push(w); });
    refused(rb::errc::stale_handle, [&] { stashed->push(key_list{1}, w); });
    refused(rb::errc::stale_handle, [&] { stashed->step(); });
    refused(rb::errc::stale_handle, [&] { stashed->commit(); });
    CHECK(stashed->rank() == 1);
  };
  using table = rb::dense<float>;
  using threads = rb::cluster<rb::in_process, rb::ssp, table>;
  using fibers = rb::cluster<rb::simulated, rb::ssp, table>;
  check(std::make_unique<threads>(rb::in_process{.workers = 2}, rb::ssp{}, table{.rows = 4}));
  check(std::make_unique<fibers>(rb::simulated{.workers = 2}, rb::ssp{}, table{.rows = 4}));
}

TEST_CASE("misuse: another worker's handle is refused in the simulator, too, where all bodies are in one thread") {
  using cluster_type = rb::cluster<rb::simulated, rb::asp, rb::dense<float>>;
  cluster_type cluster{rb::simulated{.workers = 2}, rb::asp{}, rb::dense<float>{.rows = 4}};
  cluster_type::worker_type* other = nullptr;
  cluster.run([&](auto& worker) {
    floats const ones(4, 1);
    if (worker.rank() == 0) {
      other = &worker;
      worker.step(1000);
      return;
    }
    worker.step(1);
    CHECK_THAT(refused(rb::errc::stale_handle, [&] { other->push(ones); }),
               Contains("worker 0: its handle was used from another worker's body"));
    refused(rb::errc::stale_handle, [&] { other->step(); });
  });
  CHECK(cluster.parameters() == floats(4));
}

TEST_CASE("misuse: a pace that wants a commit after no step at all is an option_error") {
  rb::cluster cluster{rb::simulated{}, with(rb::ssp{}, rb::every{0}), rb::dense<float>{.rows = 4}};
  CHECK_THROWS_AS(cluster.run([](auto&) {}), rb::option_error);
  CHECK_THROWS_WITH(cluster.run([](auto&) {}), Contains("pace") && Contains("1 or more"));
}

TEST_CASE("misuse: a handle in another thread's hands is refused, in place of hanging or crashing") {
  using table = rb::dense<float>;
  auto const in_threads = std::make_unique<rb::cluster<rb::in_process, rb::ssp, table>>(rb::in_process{.workers = 1},
                                                                                      rb::ssp{}, table{.rows = 4});
  auto const in_fibers = std::make_unique<rb::cluster<rb::simulated, rb::ssp, table>>(rb::simulated{.workers = 1},
                                                                                      rb::ssp{}, table{.rows = 4});
  auto const body = [](auto& worker) {
    std::thread([&] {
      floats w(4);
      auto const said = refused(rb::errc::stale_handle, [&] { worker.pull(w); });
      CHECK_THAT(said, Contains("worker 0") && Contains("another thread") && Contains("run more workers"));
      refused(rb::errc::stale_handle, [&] { worker.push(w); });
      refused(rb::errc::stale_handle, [&] { worker.prefetch(); });
      refused(rb::errc::stale_handle, [&] { worker.step(); });
      refused(rb::errc::stale_handle, [&] { worker.commit(); });
#if defined(RUBATO_CHECKS)
      refused(rb::errc::stale_handle, [&] { worker.push(key_list{1}, floats(1)); });
      refused(rb::errc::stale_handle, [&] { worker.pull(key_list{1}, w); });
#endif
    }).join();
    worker.push(floats(4, 1.0F));  // the worker is as usable as before
    worker.step();
  };
  CHECK(in_threads->run(body).updates == 1);
  CHECK(in_fibers->run(body).updates == 1);
}

namespace {

/// Weighs the third commit with what is no number.
struct no_number_later {
  double weight(rb::commit_info const& c) const noexcept {
    return c.stamp < rb::clock_index{2} ? 1 : std::numeric_limits<double>::quiet_NaN();
  }
};

}  // namespace

TEST_CASE("misuse: an update that is weighed with NaN ends the run before it is folded") {
  rb::rules const p = GENERATE(rb::rules(rb::ssp{}), rb::rules(with(rb::ssp{}, rb::strict{})));
  rb::cluster cluster{rb::simulated{.workers = 1}, with(p, no_number_later{}), rb::dense<float>{.rows = 2}};
  auto const body = [](auto& worker) {
    for (int i = 0; i < 4; ++i) {
      worker.push(floats(2, 1.0F));
      worker.step();
    }
  };
  CHECK_THROWS_AS(cluster.run(body), rb::option_error);
  CHECK(cluster.parameters() == floats{2, 2});
  CHECK_THROWS_WITH(cluster.run(body), Contains("table 0") && Contains("commit 2 of worker 0") && Contains("nan") &&
                                           Contains("expected a finite number"));
}

TEST_CASE("misuse: a body that trains without a step is told so, and one that is a single step is not") {
  auto cluster = make_cluster();
  auto const train = [](int rounds, bool steps, bool by_key) {
    return [=](auto& worker) {
      floats w(8);
      for (int i = 0; i < rounds; ++i) {
        if (by_key) worker.pull(key_list{0, 1, 2, 3}, w);
        else worker.pull(w);
        worker.push(w);
        if (steps) worker.step();
      }
    };
  };
  CHECK_THROWS_AS(cluster.run(train(100, false, false)), rb::usage_error);
  CHECK_THROWS_WITH(cluster.run(train(100, false, false)), Contains("worker 0") && Contains("100 pulls") &&
                                                               Contains("100 pushes") && Contains("call step()"));
  CHECK_THROWS_AS(cluster.run(train(10'000, false, true)), rb::usage_error);
  CHECK(cluster.run(train(100, true, false)).updates == 100);
  CHECK(cluster.run(train(1, false, false)).updates == 1);
  CHECK(cluster.run(train(100, false, true)).updates == 1);  // row by row, say
  rb::cluster layers{rb::simulated{.workers = 1}, rb::ssp{}, rb::dense<float>{.rows = 2}, rb::dense<float>{.rows = 3},
                     rb::dense<float>{.rows = 4}, rb::dense<float>{.rows = 5}};
  CHECK(layers.run([](auto& worker) {  // one step, with a table for each layer
          auto const train_layer = [](auto&& layer, std::size_t rows) {
            floats w(rows);
            layer.pull(w);
            layer.push(w);
          };
          train_layer(worker[rb::table<0>], 2);
          train_layer(worker[rb::table<1>], 3);
          train_layer(worker[rb::table<2>], 4);
          train_layer(worker[rb::table<3>], 5);
        }).updates == 1);
  CHECK(cluster.run([&](auto& worker) {  // a pace of one's own
          for (int i = 0; i < 5; ++i) {
            train(2, false, false)(worker);
            worker.commit();
          }
        }).updates == 5);
}

TEST_CASE("misuse: a simulated worker that pulls or pushes for ever without a step is named, in place of hanging") {
  auto cluster = make_cluster();
  CHECK_THROWS_WITH(cluster.run([](auto& worker) {
    for (floats w(8);;) worker.pull(w);
  }),
                    Contains("worker 0") && Contains("virtual time") && Contains("step()"));
  CHECK_THROWS_AS(cluster.run([](auto& worker) {
    for (floats const w(8);;) worker.push(w);
  }),
                  rb::usage_error);
  if (rb::test::sanitized()) return;  // what follows takes long there, and is no other code
  // As often, with steps: it takes no time where work costs nothing, and comes to an end.
  rb::sim::scenario scenario;
  scenario.speed.work_cost = {};
  scenario.network.worker_link.latency = {};
  rb::cluster quick{rb::simulated{.workers = 1, .scenario = scenario}, rb::ssp{.staleness = 3},
                    rb::dense<float>{.rows = 4, .width = 2}, rb::sparse<double>{.rows = 100, .width = 3},
                    rb::sparse<float>{.rows = 0}};
  CHECK_NOTHROW(quick.run([](auto& worker) {
    floats w(8);
    for (int i = 0; i < 1'200'000; ++i) {
      worker.pull(w);
      if (i % 500'000 == 0) worker.step();
    }
  }));
}
