// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/svrg.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include <rubato/transport/tcp.hpp>

#include "algorithm/algorithms.hpp"
#include "task/processes.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rt = rubato::test;

TEST_CASE("svrg: across processes it does what it does in one", "[threads]") {
  auto const rows = rt::sparse_rows();
  auto o = ra::svrg_options::plus_plus();
  o.epochs = 3;
  o.batch = 12;
  o.steps = 5;
  o.rate = 0.5;
  o.how = ra::exchange::by_key;
  o.full_gradient.workers = 4;
  o.small_steps = {.workers = 3, .spread = true};
  auto const trained = [&](auto const& where) {
    rb::engine engine{where};
    auto t = ra::make_svrg_task<double>(rows.features());
    ra::svrg(t, rt::logistic{.l2 = 0.01}, rows, o);
    engine.submit(t).wait();
    return t.parameters();
  };
  std::vector<std::vector<double>> ends(2);
  auto const said = rt::processes("svrg").run([&](rb::tcp const& where, int worker) {
    if (worker < 0) (void)trained(where);
    else ends[static_cast<std::size_t>(worker)] = trained(where);
  });
  CHECK(said == std::vector<std::string>(2));
  auto const alone = trained(rb::simulated{.workers = 4});
  CHECK(rt::apart(alone, std::vector<double>(alone.size())) > 0.1);
  for (auto const& w : ends) CHECK(rt::apart(w, alone) < 1e-12);
}
