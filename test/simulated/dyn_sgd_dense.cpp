// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "simulated/dyn_sgd_family.hpp"

using namespace rubato;

TEST_CASE("DynSGD on dense rows: every read is a sum of means of versions",
          "[simulated][dyn_sgd]") {
  test::check_versions<true, eager>(versions::exact);
}

TEST_CASE("DynSGD on dense rows: the same with capped versions",
          "[simulated][dyn_sgd]") {
  test::check_versions<true, eager>(versions::capped);
}

TEST_CASE("DynSGD on dense rows: the same with the strict window",
          "[simulated][dyn_sgd]") {
  test::check_versions<true, strict>(versions::exact);
}

TEST_CASE("DynSGD on dense rows: the same with stable cuts",
          "[simulated][dyn_sgd][stable_cut]") {
  test::check_versions<true, stable_cut>(versions::exact);
}
